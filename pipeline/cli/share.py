"""Share caches with a team through S3, SSH or a folder.

With a URL, writes, reads and deletes a small file there and, if that works,
configures it as the DVC remote. Without a URL, checks that the remote the team
configured can be read with your own keys. Then you run `dvc push`, and a
teammate runs `dvc repro --pull --allow-missing`.

reads:  for S3, the keys in the environment or in ~/.aws
writes: .dvc/config, which git tracks; keys, user name and key file go to
        .dvc/config.local, which git ignores
examples:
  referee share /mnt/team/referee
  referee share s3://bucket/referee --region eu-central-1
  referee share ssh://host/data/referee --key-file ~/.ssh/id_ed25519
  referee share --save-keys      # a teammate, in a clone
"""

import logging
import os
import secrets
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pipeline.errors import ParamsError
from pipeline.revision_files import dvc_config, failures_in_one_line

S3_KEYS = {
    "AWS_ACCESS_KEY_ID": "access_key_id",
    "AWS_SECRET_ACCESS_KEY": "secret_access_key",
    "AWS_SESSION_TOKEN": "session_token",
}
# only for the trial: a server that does not answer must not cost minutes
TIMEOUTS = {"s3": {"connect_timeout": "10", "read_timeout": "30"}, "ssh": {"timeout": "20"}}
REMEDIES = {
    "s3": "check the bucket, --endpoint-url and --region, and the keys: AWS_ACCESS_KEY_ID and "
    "AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
    "ssh": "check that `ssh HOST` lets you in (--user, --key-file) and that you may write there",
    "": "check that it is mounted and that you may write there",
}


def share(
    url: str | None,
    *,
    create: bool,
    endpoint_url: str | None,
    region: str | None,
    save_keys: bool,
    user: str | None,
    key_file: Path | None,
) -> Iterator[str]:
    """Test a remote and, if it works, write it to DVC's configuration."""
    config = dvc_config()
    name = config["core"].get("remote") or "team"
    configured_url = config["remote"].get(name, {}).get("url")
    team: dict[str, Any] = {"endpointurl": endpoint_url, "region": region}
    private: dict[str, Any] = {"user": user, "keyfile": key_file and str(key_file.absolute())}
    if url:
        team["url"], url_user = split_user(url)
        private["user"] = user or url_user
        if configured_url not in (None, team["url"]):
            remedy = f"to replace it, first run `dvc remote remove {name}`"
            raise ParamsError(f"the DVC remote {name!r} is {configured_url}; {remedy}")
    address = team.get("url") or configured_url
    if address is None:
        raise ParamsError(f"there is no DVC remote {name!r}; name its URL: referee share URL")
    if save_keys:
        private |= {setting: os.environ.get(key) for key, setting in S3_KEYS.items()}
        if not (private["access_key_id"] and private["secret_access_key"]):
            raise ParamsError("--save-keys: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set; export them first")
    if create and not urlsplit(address).scheme:
        Path(address).mkdir(parents=True, exist_ok=True)
    team, private = ({key: value for key, value in settings.items() if value} for settings in (team, private))
    try_remote(name, address, {**team, **private}, write=bool(url))
    write_configuration(config, name, team, private)
    if not url:
        yield f"{name}: {address} can be read; next: dvc repro --pull --allow-missing"
        return
    command = "dvc push --run-cache && git add dvc.lock orders params.yaml suite.yaml .dvc/config && git commit"
    yield f"{name}: {address} can be read and written; next: {command}"


def split_user(url: str) -> tuple[str, str | None]:
    """Return a URL without its user name, and the user name, if any."""
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError as error:
        raise ParamsError(f"{url}: not a URL ({error}); e.g. ssh://host/folder") from None
    if not parts.scheme:
        return str(Path(url).expanduser().absolute()), None
    if parts.password:
        raise ParamsError(f"{parts.scheme}://{parts.hostname}: a password in the URL would be in git; use --key-file")
    if not parts.hostname:
        raise ParamsError(f"{url}: names no host or bucket; e.g. s3://bucket/folder")
    if not parts.username:
        return url, None
    return f"{parts.scheme}://{parts.hostname}{port}{parts.path}", parts.username


def try_remote(name: str, url: str, settings: dict[str, str], *, write: bool) -> None:
    """Write, read and delete a small file on a remote, or list its files; raise a RefereeError if that fails."""
    from dvc.fs import get_cloud_fs

    scheme = urlsplit(url).scheme
    if not scheme and not Path(url).is_dir():
        raise ParamsError(f"{url}: no such folder; check its name, or create it with --create")
    logging.getLogger("asyncssh").setLevel(logging.CRITICAL)  # our message contains its errors
    remedy = REMEDIES.get(scheme, "check the URL; `dvc remote modify` has further settings")
    with failures_in_one_line(f"{url}: cannot be {'written' if write else 'read'}", remedy):
        trial = {"remote": {name: {**settings, **TIMEOUTS.get(scheme, {})}}}
        filesystem_class, options, path = get_cloud_fs(dvc_config(trial), name=name)
        files = filesystem_class(**options)
        if not write:
            files.ls(path)
            return
        files.makedirs(path, exist_ok=True)
        probe = files.join(path, f".referee-share-{secrets.token_hex(8)}")
        content = b"written and deleted by `referee share`\n"
        files.pipe_file(probe, content)
        try:
            if files.cat_file(probe) != content:
                raise OSError("the content read differs from the content written")
        finally:
            files.rm_file(probe)


def write_configuration(config: Any, name: str, team: dict[str, str], private: dict[str, str]) -> None:
    """Write the team's settings to .dvc/config, which git tracks, and private ones to .dvc/config.local."""
    if team:
        with config.edit("repo") as tracked:
            tracked["remote"].setdefault(name, {}).update(team)
            if "url" in team:
                tracked["core"].setdefault("remote", name)
    if private:
        file = Path(config.files["local"])
        file.touch(mode=0o600)
        file.chmod(0o600)
        with config.edit("local") as untracked:
            untracked["remote"].setdefault(name, {}).update(private)


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument(
        "url",
        metavar="URL",
        nargs="?",
        help="s3://bucket/path, ssh://host:port/path or /shared/folder (default: the configured remote)",
    )
    parser.add_argument("--create", action="store_true", help="create the folder if it does not exist")
    s3 = parser.add_argument_group("S3")
    s3.add_argument("--endpoint-url", metavar="URL", help="the server, if it is not Amazon's")
    s3.add_argument("--region", help="e.g. eu-central-1")
    s3.add_argument(
        "--save-keys",
        action="store_true",
        help="save AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY of the environment in .dvc/config.local",
    )
    ssh = parser.add_argument_group("SSH")
    ssh.add_argument("--user", help="login name, if it differs from your local one; kept out of git")
    ssh.add_argument("--key-file", metavar="FILE", type=Path, help="your private key; kept out of git")
