"""Commands report a user's error in one line with status 2, and keep the traceback of a bug."""

import errno
import os

import pytest

from pipeline.errors import InputError, exits_cleanly


def run_and_fail(capsys, error):
    @exits_cleanly
    def main():
        raise error

    assert main() == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("referee: error: ")
    return line


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (InputError("x.csv: empty"), ("error: x.csv: empty",)),
        (MemoryError("Unable to allocate 26.8 GiB\nfor an array"), ("26.8 GiB", "rff.D")),
        (errno.ENOSPC, ("free some disk space",)),
        (errno.EMFILE, ("ulimit -n",)),
        (errno.ENOTDIR, ("a file is where a folder is needed",)),
        (errno.EEXIST, ("a file is where a folder is needed",)),
        (errno.ENAMETOOLONG, ("shorter name",)),
    ],
)
def test_user_error_is_one_line_with_the_remedy(capsys, error, words):
    if isinstance(error, int):
        error, words = OSError(error, os.strerror(error), "out/x.csv"), (*words, "out/x.csv")
    line = run_and_fail(capsys, error)
    assert all(word in line for word in words)


def test_bug_keeps_its_traceback():
    @exits_cleanly
    def main():
        raise KeyError("zeros")

    with pytest.raises(KeyError):
        main()
