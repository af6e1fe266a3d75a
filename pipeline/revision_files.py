"""Files of a git revision and of DVC's cache or remote, brought into a folder when they are first asked for."""

import atexit
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

from pipeline.errors import InputError, one_line
from pipeline.write_aside import write_aside

# packages whose errors DVC passes on as they are
CLIENTS = {"dvc_data", "dvc_objects", "scmrepo", "botocore", "aiobotocore", "asyncssh"}


class RevisionFiles:
    """What a revision of a git repository has, read by DVC without a checkout.

    ``folder`` holds what was asked for so far; it is removed when the process ends.
    """

    def __init__(self, address: str, rev: str | None) -> None:
        from dvc.api import DVCFileSystem

        self.folder = Path(mkdtemp(prefix="referee-"))
        # not with this object: rows and models that were opened from it may outlive it
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


@contextmanager
def failures_in_one_line(subject: str, remedy: str) -> Iterator[None]:
    """Turn what DVC and its clients raise where a remote cannot be used into one line."""
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
