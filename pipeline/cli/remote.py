"""A DVC remote as the commands use it: its configuration, its failures in one line, its files without pulling them."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePath
from typing import Any

from pipeline.errors import InputError, ParamsError, one_line
from pipeline.revision_files import failures_in_one_line


def dvc_config(overrides: dict[str, Any] | None = None) -> Any:
    """Return DVC's configuration of the repository around the working folder, a `dvc.config.Config`."""
    from dvc.config import Config
    from dvc.exceptions import DvcException

    try:
        config = Config.from_cwd(config=overrides)
    except DvcException as error:
        remedy = "check the options and the URL" if overrides else "correct the file"
        raise ParamsError(f".dvc/config: {one_line(error)}; {remedy}") from None
    if config.dvc_dir is None:
        raise ParamsError("no DVC repository here; run this in its root, or `dvc init`")
    return config


class RemoteOutputs:
    """Stage outputs that the last commit's dvc.lock names, read from DVC's default remote; nothing is kept."""

    def __init__(self) -> None:
        from dvc.api import DVCFileSystem

        config = dvc_config()
        self.name = str(config["core"].get("remote"))
        if self.name not in config["remote"]:
            raise ParamsError("there is no default DVC remote; configure one: referee share URL")
        self.received = 0  # bytes of the files read so far
        # a revision: the files of the working folder are not looked at
        self._files = DVCFileSystem(".", rev="HEAD", remote=self.name)

    def read(self, path: PurePath) -> bytes:
        """Return the content of a file, compared with its hash in dvc.lock."""
        with self._failures(path):
            info = self._files.info(str(path))
            content: bytes = self._files.read_bytes(str(path))
        self.received += len(content)
        if hashlib.md5(content, usedforsecurity=False).hexdigest() != info["md5"]:
            raise InputError(f"{path}: damaged on the remote {self.name!r}; remove it there and `dvc push` again")
        return content

    def files(self, path: PurePath) -> list[PurePath]:
        """Return the paths of the files below an output that is a folder."""
        with self._failures(path):
            return [PurePath(file) for file in self._files.find(str(path))]

    def size(self, path: PurePath) -> int:
        """Return the bytes of an output, as dvc.lock has them."""
        with self._failures(path):
            return int(self._files.info(str(path))["size"] or 0)

    @contextmanager
    def _failures(self, path: PurePath) -> Iterator[None]:
        remedy = "its author runs `dvc push` and commits dvc.lock; `referee share` tries the remote"
        with failures_in_one_line(f"{path}: not readable from the remote {self.name!r}", remedy):
            yield
