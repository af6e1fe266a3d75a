"""Read files of a git revision from DVC's cache or a remote, with failures reported in one line."""

import atexit
import hashlib
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path, PurePath
from tempfile import mkdtemp
from typing import Any

from pipeline.errors import InputError, ParamsError, one_line
from pipeline.write_aside import write_aside

# packages whose exceptions DVC does not convert to its own
CLIENTS = {"dvc_data", "dvc_objects", "scmrepo", "botocore", "aiobotocore", "asyncssh"}


class RevisionFiles:
    """The files of a revision of a git repository, read by DVC without a checkout.

    ``folder`` holds the files fetched so far; it is deleted when the process ends.
    """

    def __init__(self, address: str, rev: str | None) -> None:
        from dvc.api import DVCFileSystem

        self.folder = Path(mkdtemp(prefix="referee-"))
        # not when this object is deleted: rows and models that were opened from the folder may outlive it
        atexit.register(shutil.rmtree, self.folder, ignore_errors=True)
        self._name = f"{address} at {rev or 'its default branch'}"
        remedy = "name a git repository with a DVC project in it, and one of its revisions"
        with failures_in_one_line(f"{self._name}: cannot be opened", remedy):
            self._files = DVCFileSystem(address, rev=rev)
            self._files.info("dvc.yaml")

    def bring(self, path: Path) -> None:
        """Copy a file or folder of the revision to the same place below `folder`, once."""
        if (self.folder / path).exists():
            return
        remedy = "its author runs `dvc push` and commits dvc.lock"
        subject = f"{path}: not readable from {self._name}"
        with failures_in_one_line(subject, remedy), write_aside(self.folder / path) as aside:
            self._files.get(str(path), str(aside), recursive=True)


class RemoteOutputs:
    """The stage outputs in the last commit's dvc.lock, read from DVC's default remote without storing them."""

    def __init__(self) -> None:
        from dvc.api import DVCFileSystem

        config = dvc_config()
        self.name = str(config["core"].get("remote"))
        if self.name not in config["remote"]:
            raise ParamsError("there is no default DVC remote; configure one: referee share URL")
        self.received = 0  # number of bytes read so far
        # a revision, so that the files of the working folder are ignored
        self._files = DVCFileSystem(".", rev="HEAD", remote=self.name)

    def read(self, path: PurePath) -> bytes:
        """Return the content of a file; raise InputError if it does not match its hash in dvc.lock."""
        with self._failures(path):
            info = self._files.info(str(path))
            content: bytes = self._files.read_bytes(str(path))
        self.received += len(content)
        if hashlib.md5(content, usedforsecurity=False).hexdigest() != info["md5"]:
            raise InputError(f"{path}: damaged on the remote {self.name!r}; remove it there and `dvc push` again")
        return content

    def files(self, path: PurePath) -> list[PurePath]:
        """Return the paths of all files in an output that is a folder."""
        with self._failures(path):
            return [PurePath(file) for file in self._files.find(str(path))]

    def size(self, path: PurePath) -> int:
        """Return the size of an output in bytes, as recorded in dvc.lock."""
        with self._failures(path):
            return int(self._files.info(str(path))["size"] or 0)

    def _failures(self, path: PurePath) -> AbstractContextManager[None]:
        remedy = "its author runs `dvc push` and commits dvc.lock; `referee share` tries the remote"
        return failures_in_one_line(f"{path}: not readable from the remote {self.name!r}", remedy)


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


@contextmanager
def failures_in_one_line(subject: str, remedy: str) -> Iterator[None]:
    """Convert exceptions of DVC and its clients to an InputError of one line."""
    from dvc.exceptions import DvcException
    from dvc.fs import RemoteMissingDepsError

    try:
        yield
    except (ImportError, RemoteMissingDepsError) as error:
        extra = "pip install 'referee-pipeline[s3]' or 'referee-pipeline[ssh]'"
        raise InputError(f"{subject}: {one_line(error)}; {extra}") from None
    except Exception as error:
        client = type(error).__module__.partition(".")[0]
        if not isinstance(error, OSError | DvcException) and client not in CLIENTS:
            raise
        raise InputError(f"{subject} ({one_line(error) or type(error).__name__}); {remedy}") from None
