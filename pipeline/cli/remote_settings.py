"""What DVC must know of a place to share: what everybody may read in git, and what is each person's own.

A URL, an endpoint, a region and a port are the team's: .dvc/config, tracked by git. Keys, profiles, user names and key
files are a person's: .dvc/config.local, which git ignores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import SplitResult, urlsplit

from pipeline.errors import ParamsError

Kind = Literal["s3", "ssh", "folder"]

# Of the environment, as every S3 client reads it, and DVC's names of the same.
S3_KEYS = {
    "AWS_ACCESS_KEY_ID": "access_key_id",
    "AWS_SECRET_ACCESS_KEY": "secret_access_key",
    "AWS_SESSION_TOKEN": "session_token",
}
# Which kind of place takes which option of the command line, and what DVC calls it.
TEAM_OPTIONS: dict[Kind, dict[str, str]] = {
    "s3": {"endpoint_url": "endpointurl", "region": "region"},
    "ssh": {"port": "port"},
    "folder": {},
}
OWN_OPTIONS: dict[Kind, dict[str, str]] = {
    "s3": {"profile": "profile"},
    "ssh": {"user": "user", "key_file": "keyfile"},
    "folder": {},
}


@dataclass(frozen=True)
class RemoteSettings:
    """DVC's settings of one remote."""

    kind: Kind
    team: dict[str, str] = field(default_factory=dict)
    own: dict[str, str] = field(default_factory=dict)


def kind_of(url: str) -> Kind:
    """Return what kind of place a URL names."""
    scheme = _parts(url).scheme
    if scheme in ("s3", "ssh"):
        return "s3" if scheme == "s3" else "ssh"
    if scheme == "" or len(scheme) == 1:  # C:\… is a folder
        return "folder"
    raise ParamsError(
        f"{url}: referee share knows s3://, ssh:// and folders; for other places: dvc remote add"
    )


def settings_of(url: str, options: Mapping[str, str], root: Path) -> RemoteSettings:
    """Sort a URL and the options given into the team's settings and one's own; what does not fit is refused.

    ``root`` is the repository: a folder is written as an absolute path, because a teammate's clone is elsewhere.
    """
    kind = kind_of(url)
    allowed = {**TEAM_OPTIONS[kind], **OWN_OPTIONS[kind]}
    for option in options:
        if option not in allowed:
            flag = option.replace("_", "-")
            raise ParamsError(f"--{flag}: not an option of {_named(kind)} ({url})")
    team = {TEAM_OPTIONS[kind][key]: options[key] for key in options if key in TEAM_OPTIONS[kind]}
    own = {OWN_OPTIONS[kind][key]: options[key] for key in options if key in OWN_OPTIONS[kind]}
    if "keyfile" in own:
        own["keyfile"] = str(Path(own["keyfile"]).expanduser().absolute())
    if kind == "folder":
        return RemoteSettings(kind, {"url": str(_folder(url, root))}, own)
    parts = _parts(url)
    if parts.password:
        raise ParamsError(
            f"{parts.scheme}://{parts.hostname}: no password in a URL, it would be in git; use a key file"
        )
    if not parts.hostname:
        raise ParamsError(f"{url}: names no {'bucket' if kind == 's3' else 'host'}")
    if kind == "ssh":
        if parts.path in ("", "/"):
            raise ParamsError(f"{url}: names no folder; e.g. ssh://{parts.hostname}/data/referee")
        if parts.username:
            own.setdefault("user", parts.username)
        if parts.port:
            team.setdefault("port", str(parts.port))
        url = f"ssh://{parts.hostname}{parts.path}"
    return RemoteSettings(kind, {"url": url, **team}, own)


def _parts(url: str) -> SplitResult:
    """Return the parts of a URL, its port among them."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # a number, or an error that comes only when it is asked for
    except ValueError as error:
        raise ParamsError(f"{url}: not a URL ({error})") from None
    return parts


def saved_keys(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the S3 keys of the environment under DVC's names."""
    keys = {name: environment[var] for var, name in S3_KEYS.items() if environment.get(var)}
    if not {"access_key_id", "secret_access_key"} <= keys.keys():
        raise ParamsError(
            "--save-keys: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set; export them and run this again"
        )
    return keys


def _folder(url: str, root: Path) -> Path:
    """Return the folder as an absolute path; one inside the repository would share nothing."""
    folder = Path(url).expanduser().absolute()
    if folder.resolve().is_relative_to(root.resolve()):
        raise ParamsError(
            f"{url}: is inside this repository; name a folder that your teammates reach"
        )
    return folder


def _named(kind: Kind) -> str:
    return {"s3": "S3", "ssh": "SSH", "folder": "a folder"}[kind]
