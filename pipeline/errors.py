"""Exceptions that are shown to the user as one line: what is wrong and how to fix it.

Raise these (or a subclass) for anything that a user can cause and fix. Commands print the message without a traceback
and exit with status 2. Any other exception is a bug in this package and keeps its traceback.
"""

import difflib
import errno
import functools
import sys
from collections.abc import Callable, Iterable
from typing import ParamSpec

P = ParamSpec("P")

EXIT_STATUS = 2
REMEDIES = {  # for errors of the operating system that a user can fix
    errno.ENOSPC: "free some disk space",
    errno.EDQUOT: "free some of your disk quota",
    errno.EFBIG: "raise the limit on file sizes (ulimit -f)",
    errno.EROFS: "make the disk or folder writable",
    errno.EACCES: "give yourself permission to it",
    errno.EPERM: "give yourself permission to it",
    errno.EMFILE: "raise the limit on open files (ulimit -n)",
    errno.ENFILE: "close some files: the whole machine has too many open",
    errno.EIO: "check the disk, which fails to read or write",
    errno.ENOMEM: "free some memory",
    errno.EEXIST: "name another path: a file is where a folder is needed",
    errno.ENOTDIR: "name another path: a file is where a folder is needed",
    errno.ENAMETOOLONG: "give it a shorter name",
}
# Errors due to the machine or the user's permissions rather than to the content of the file.
MACHINE_ERRORS = frozenset({errno.EACCES, errno.EPERM, errno.EMFILE, errno.ENFILE, errno.ENOMEM})


class RefereeError(Exception):
    """Base class of all errors that a user can fix."""


class ParamsError(RefereeError):
    """params.yaml or a suite file is wrong; the message names the key."""


class InputError(RefereeError):
    """A file, folder, image or embedding matrix is missing, unreadable or malformed."""


class ModelError(RefereeError):
    """A backbone cannot be built, or its weights cannot be found or loaded."""


class StoreError(RefereeError):
    """A store under cache/ is stale, truncated or made with other settings."""


class ClusterError(RefereeError):
    """The Dask cluster is unreachable, was lost, or has an incompatible worker."""


def listed(items: Iterable[object], *, most: int = 8) -> str:
    """Join ``items`` for a message and shorten long lists: ``a, b, c and 40 more``."""
    texts = [str(item) for item in items]
    if len(texts) <= most:
        return ", ".join(texts)
    return f"{', '.join(texts[:most])} and {len(texts) - most} more"


def counted(n: int, thing: str) -> str:
    """Return a number with its noun for a message.

    Examples
    --------
    >>> counted(1, "copy"), counted(2, "copy"), counted(3, "key"), counted(1000, "class"), counted(0, "image")
    ('1 copy', '2 copies', '3 keys', '1,000 classes', '0 images')
    """
    ies = thing.endswith("y") and thing[-2] not in "aeiou"
    plural = f"{thing[:-1]}ies" if ies else f"{thing}es" if thing.endswith("ss") else f"{thing}s"
    return f"{n:,} {thing if n == 1 else plural}"


def pass_on_machine_error(error: Exception) -> None:
    """Raise ``error`` again if the machine caused it, so that a store that cannot be opened is not called damaged."""
    if isinstance(error, OSError) and error.errno in MACHINE_ERRORS:
        raise error


def one_line(error: BaseException) -> str:
    """Return an error's text on one line, for use inside another message."""
    return " ".join(str(error).split())


def exits_cleanly(main: Callable[P, int]) -> Callable[P, int]:
    """Decorate ``main`` to print a `RefereeError` or an error in `REMEDIES` as one line and return status 2."""

    @functools.wraps(main)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> int:
        try:
            return main(*args, **kwargs)
        except RefereeError as error:
            text = str(error)
        except OSError as error:
            if error.errno not in REMEDIES:
                raise
            # outputs are written whole or not at all, so running again is safe
            remedy, file = REMEDIES[error.errno], f"{error.filename}: " if error.filename else ""
            text = f"{file}{error.strerror}; nothing half-written is left: {remedy}, then run the same again"
        except MemoryError as error:
            text = f"{one_line(error) or 'out of memory'}; use a smaller rff.D, or more memory"
        except KeyboardInterrupt:
            sys.stderr.write("referee: interrupted; run the same command again to continue\n")
            return 130
        sys.stderr.write(f"referee: error: {text}\n")
        return EXIT_STATUS

    return wrapped


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the name nearest to ``word``, or else a list of valid names."""
    names = sorted(known)
    nearest = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    if nearest:
        return f"; did you mean {nearest[0]!r}?"
    return f"; valid: {listed(names)}" if names else ""
