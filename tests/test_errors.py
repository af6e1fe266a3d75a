"""What a command says when it cannot go on: one line and status 2 for what a user can mend, a traceback for a bug."""

import errno
import os

import pytest

from pipeline.errors import InputError, exits_cleanly


def ended(capsys, error):
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
def test_what_a_user_can_mend_is_one_line_with_its_remedy(capsys, error, words):
    if isinstance(error, int):
        error, words = OSError(error, os.strerror(error), "out/x.csv"), (*words, "out/x.csv")
    line = ended(capsys, error)
    assert all(word in line for word in words)


def test_a_bug_keeps_its_traceback():
    @exits_cleanly
    def main():
        raise KeyError("zeros")

    with pytest.raises(KeyError):
        main()
