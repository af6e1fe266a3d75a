"""Can this remote be reached, and written? Asked through DVC's own clients, before anything is configured."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from pipeline.cli.remote_settings import Kind
from pipeline.errors import RefereeError, one_line

PROBE = b"written and removed by `referee share`\n"
# For the check alone: an address where nobody listens must not cost minutes.
PATIENCE: dict[Kind, dict[str, str]] = {
    "s3": {"connect_timeout": "10", "read_timeout": "30"},
    "ssh": {"timeout": "20"},
    "folder": {},
}


class RemoteError(RefereeError):
    """A remote cannot be reached, read or written."""


def file_system(name: str, config: Mapping[str, Any], kind: Kind) -> tuple[Any, str]:
    """Return DVC's file system of the remote ``name`` and the path in it, with ``config`` over the configured."""
    from dvc.config import Config
    from dvc.exceptions import DvcException
    from dvc.fs import RemoteMissingDepsError, get_cloud_fs

    whole = {"remote": {name: {**config, **PATIENCE[kind]}}}
    try:
        cls, settings, path = get_cloud_fs(Config.from_cwd(config=whole), name=name)
        made = cls(**settings)
    except DvcException as error:
        raise RemoteError(f"{name}: {one_line(error)}") from None
    except (ImportError, RemoteMissingDepsError):
        raise RemoteError(needs_extra(str(config["url"]))) from None
    return made, path


def needs_extra(url: str) -> str:
    """Say which extra brings the client for a URL."""
    scheme = urlsplit(url).scheme
    ours = scheme in ("s3", "ssh")
    package = f"'referee-pipeline[{scheme}]'" if ours else f"dvc-{scheme}"
    return f"{url}: needs dvc-{scheme}; pip install {package}"


def check(name: str, config: Mapping[str, Any], kind: Kind, *, write: bool) -> None:
    """Write, read back and remove a few bytes (or, without ``write``, list); raise one line saying what failed."""
    fs, path = file_system(name, config, kind)
    url = config["url"]
    logging.getLogger("asyncssh").setLevel(logging.CRITICAL)  # what it says is in the error
    try:
        if write:
            fs.makedirs(path, exist_ok=True)  # nothing on S3, which has no folders
            _write_and_remove(fs, path)
        else:
            fs.ls(path)
    except failures(str(url)) as error:
        raise RemoteError(_told(url, error, kind, write=write)) from None


def _write_and_remove(fs: Any, path: str) -> None:
    probe = fs.join(path, f".referee-share-{secrets.token_hex(8)}")
    fs.pipe_file(probe, PROBE)
    try:
        if fs.cat_file(probe) != PROBE:
            raise OSError("what was written is not what is read")
    finally:
        fs.rm_file(probe)


def failures(url: str) -> tuple[type[Exception], ...]:
    """Return what DVC's client for a URL raises where a remote is out of reach."""
    from dvc.exceptions import DvcException

    always: tuple[type[Exception], ...] = (OSError, TimeoutError, DvcException)
    scheme = urlsplit(url).scheme
    if scheme == "s3":
        from botocore.exceptions import BotoCoreError, ClientError

        return (*always, BotoCoreError, ClientError)
    if scheme == "ssh":
        import asyncssh

        return (*always, asyncssh.Error)
    return always


def _told(url: str, error: Exception, kind: Kind, *, write: bool) -> str:
    """Say what failed and what to look at."""
    remedies: dict[Kind, str] = {
        "s3": "is the bucket there (--endpoint-url, --region)? keys: AWS_ACCESS_KEY_ID, "
        "AWS_SECRET_ACCESS_KEY or --profile",
        "ssh": "does `ssh HOST` let you in (--user, --port, --key-file)? may you write there?",
        "folder": "is it mounted, and may you write there?",
    }
    reason = one_line(error) or type(error).__name__
    return f"{url}: cannot be {'written' if write else 'read'} ({reason}); {remedies[kind]}"
