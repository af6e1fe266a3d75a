"""`referee share URL`: share features through S3, SSH or a folder: set up the DVC remote, and try it.

With no URL: try the remote that the team configured, with your own keys. Keys, user names and key files go to
.dvc/config.local, which git ignores; the rest to .dvc/config, which your teammates clone.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.cli.help_text import command
from pipeline.cli.remote_settings import RemoteSettings, saved_keys, settings_of
from pipeline.errors import ParamsError, one_line

if TYPE_CHECKING:
    from argparse import _SubParsersAction

DESCRIPTION = """\
Set up the DVC remote through which a team shares features, and try it: what
cannot be reached is not configured. With no URL: try the remote that the team
configured, with your own keys. Then it is `dvc push`, and a teammate's
`dvc repro --pull --allow-missing`.
"""
OPTIONS = ("endpoint_url", "region", "profile", "port", "user", "key_file")


def share(
    url: str | None,
    options: dict[str, str],
    *,
    name: str | None = None,
    save_keys: bool = False,
    read_only: bool = False,
) -> str:
    """Try the remote and, if it answers, write it into DVC's configuration; return what to tell.

    Nothing is written where the remote cannot be reached, so that a mistake leaves the configuration as it was.
    """
    from dvc.config import Config
    from dvc.exceptions import DvcException

    from pipeline.cli.remote_check import check

    try:
        config = Config.from_cwd()
    except DvcException as error:
        raise ParamsError(one_line(error)) from None
    if config.dvc_dir is None:
        raise ParamsError("no DVC repository here; run this in the root of the repository")
    name = name or config["core"].get("remote") or "team"
    there: dict[str, Any] = dict(config["remote"].get(name, {}))
    wanted = _wanted(url, there, options, name, Path(config.dvc_dir).parent)
    if save_keys:
        wanted.own.update(_keys(wanted))
    check(name, {**there, **wanted.team, **wanted.own}, wanted.kind, write=not read_only)
    _write(config, name, wanted, new=url is not None)
    default = config["core"].get("remote", name) == name
    return _told(name, wanted, new=url is not None, read_only=read_only, default=default)


def _wanted(
    url: str | None, there: dict[str, Any], options: dict[str, str], name: str, root: Path
) -> RemoteSettings:
    """Return the settings to have; those of the remote that is there where no URL is given."""
    if url is None:
        if "url" not in there:
            raise ParamsError(
                f"no remote {name!r} is configured; name its place: referee share URL"
            )
        return settings_of(str(there["url"]), options, root)
    wanted = settings_of(url, options, root)
    if there.get("url", wanted.team["url"]) != wanted.team["url"]:
        raise ParamsError(
            f"the remote {name!r} is {there['url']} already; "
            f"use --name for another, or first: dvc remote remove {name}"
        )
    return wanted


def _keys(wanted: RemoteSettings) -> dict[str, str]:
    if wanted.kind != "s3":
        raise ParamsError(f"--save-keys: is for S3; {wanted.team['url']} has no keys")
    return saved_keys(os.environ)


def _write(config: Any, name: str, wanted: RemoteSettings, *, new: bool) -> None:
    """Write the team's settings where git tracks them, one's own where git does not look.

    Of a remote that is there already, the place stays as the team wrote it: relative, or in one's own configuration.
    """
    team = {key: value for key, value in wanted.team.items() if new or key != "url"}
    if team:
        with config.edit("repo") as tracked:
            tracked["remote"].setdefault(name, {}).update(team)
            if new:
                tracked["core"].setdefault("remote", name)
    if wanted.own:
        local = Path(config.files["local"])
        local.touch(mode=0o600)
        local.chmod(0o600)
        with config.edit("local") as own:
            own["remote"].setdefault(name, {}).update(wanted.own)


def _told(name: str, wanted: RemoteSettings, *, new: bool, read_only: bool, default: bool) -> str:
    state = "can be read" if read_only else "can be read and written"
    if new:
        push = "dvc push --run-cache" + ("" if default else f" --remote {name}")
        following = f"{push} && git add dvc.lock .dvc/config && git commit"
    else:
        following = "dvc repro --pull --allow-missing"
    return f"{name}: {wanted.team['url']} {state}; next: {following}"


def run(args: argparse.Namespace) -> int:
    """Try, configure, say what is next."""
    given = {key: value for key in OPTIONS if (value := getattr(args, key)) is not None}
    told = share(
        args.url, given, name=args.name, save_keys=args.save_keys, read_only=args.read_only
    )
    sys.stdout.write(f"{told}\n")
    return 0


def add_parser(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = command(
        commands,
        "share",
        "share features through S3, SSH or a folder",
        DESCRIPTION,
        reads="the keys of the environment or of ~/.aws, for S3",
        writes=".dvc/config, which teammates clone; keys, user names and key files to\n"
        ".dvc/config.local, which git ignores",
        examples="referee share /mnt/team/referee\n"
        "referee share s3://bucket/referee --region eu-central-1\n"
        "referee share ssh://host/data/referee --key-file ~/.ssh/id_ed25519\n"
        "referee share --save-keys      # the teammate, in a clone",
    )
    parser.add_argument(
        "url",
        metavar="URL",
        nargs="?",
        help="s3://bucket/path, ssh://host/path or /shared/folder; none: try the configured one",
    )
    parser.add_argument(
        "--name", help="the remote's name in DVC (default: the default one, or team)"
    )
    parser.add_argument("--read-only", action="store_true", help="you may read there and not write")
    s3 = parser.add_argument_group("S3")
    s3.add_argument("--endpoint-url", metavar="URL", help="of a server that is not Amazon's")
    s3.add_argument("--region", help="e.g. eu-central-1")
    s3.add_argument("--profile", help="of your ~/.aws files; kept out of git")
    s3.add_argument(
        "--save-keys",
        action="store_true",
        help="keep AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY of the environment in .dvc/config.local",
    )
    ssh = parser.add_argument_group("SSH")
    ssh.add_argument("--port", help="if not 22")
    ssh.add_argument("--user", help="if not yours here; kept out of git")
    ssh.add_argument("--key-file", metavar="FILE", help="your private key; kept out of git")
    parser.set_defaults(run=run)
