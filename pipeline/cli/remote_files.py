"""Files read straight from a DVC remote: what dvc.lock names and nothing else, no byte kept.

A first look at what a teammate pushed, without pulling it. A folder's content is known from its list, one small object
on the remote; its files are then read singly.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from pipeline.cli.remote_check import RemoteError, failures, needs_extra
from pipeline.errors import one_line


class RemoteFiles:
    """The outputs of the workspace's dvc.lock, on one remote. ``received`` counts the bytes of the objects read."""

    def __init__(self, remote: str | None = None) -> None:
        from dvc.exceptions import DvcException
        from dvc.fs import RemoteMissingDepsError
        from dvc.repo import Repo

        try:
            self._repo = Repo()
            remote = remote or self._repo.config["core"].get("remote")
            place = self._repo.cloud.get_remote(remote)
        except DvcException as error:
            hint = "; name its place: referee share URL" if "no remote" in str(error) else ""
            raise RemoteError(f"{one_line(error)}{hint}") from None
        except (ImportError, RemoteMissingDepsError):
            url = self._repo.config["remote"][remote]["url"]
            raise RemoteError(needs_extra(url)) from None
        self.name: str = place.name
        self._odb = place.odb
        self._failures = failures(self._repo.config["remote"][place.name]["url"])
        self.received = 0

    def size(self, path: Path) -> tuple[int, int]:
        """Return the bytes and the number of files of an output, as dvc.lock has them."""
        meta = self._output(path).meta
        return int(meta.size or 0), int(meta.nfiles or 1)

    def read(self, path: Path) -> bytes:
        """Return an output that is one file."""
        return self._object(str(self._output(path).hash_info.value), path)

    def listing(self, path: Path) -> dict[str, str]:
        """Return an output that is a folder: the name of each file in it -> the object that holds it."""
        name = str(self._output(path).hash_info.value)
        if not name.endswith(".dir"):
            raise RemoteError(f"{path}: is a file; a store is a folder")
        content = self._object(name, path)
        try:
            return {str(entry["relpath"]): str(entry["md5"]) for entry in json.loads(content)}
        except (ValueError, TypeError, KeyError):
            raise self._damaged(path) from None

    def read_all(self, objects: dict[str, str], path: Path) -> dict[str, bytes]:
        """Return the content of some files of a `listing`."""
        return {file: self._object(name, path / file) for file, name in objects.items()}

    def _output(self, path: Path) -> Any:
        from dvc.exceptions import OutputNotFoundError

        try:
            (out,) = self._repo.find_outs_by_path(str(path))
        except OutputNotFoundError:
            raise RemoteError(f"{path}: not an output of dvc.yaml's stages") from None
        if not out.hash_info:
            raise RemoteError(f"{path}: dvc.lock does not name it; git pull, or dvc repro")
        return out

    def _object(self, name: str, path: Path) -> bytes:
        try:
            content = bytes(self._odb.fs.cat_file(self._odb.oid_to_path(name)))
        except FileNotFoundError:
            raise RemoteError(
                f"{path}: not on the remote {self.name!r}; whoever made it runs dvc push"
            ) from None
        except self._failures as error:
            raise RemoteError(
                f"{path}: the remote {self.name!r} cannot be read ({one_line(error)}); try referee share"
            ) from None
        self.received += len(content)
        if hashlib.md5(content, usedforsecurity=False).hexdigest() != name.removesuffix(".dir"):
            raise self._damaged(path)
        return content

    def _damaged(self, path: Path) -> RemoteError:
        return RemoteError(
            f"{path}: damaged on the remote {self.name!r} (it is not what dvc.lock names); "
            "whoever made it removes that object and runs dvc push"
        )
