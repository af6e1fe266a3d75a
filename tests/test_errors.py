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


def test_an_error_of_ours(capsys):
    assert ended(capsys, InputError("x.csv: empty")) == "referee: error: x.csv: empty"


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        (errno.ENOSPC, "free some disk space"),
        (errno.EMFILE, "ulimit -n"),
        (errno.ENOTDIR, "a file stands where a folder is wanted"),
        (errno.EEXIST, "a file stands where a folder is wanted"),
        (errno.ENAMETOOLONG, "shorter name"),
    ],
)
def test_what_the_machine_lacks_is_named_with_its_remedy(capsys, code, remedy):
    line = ended(capsys, OSError(code, os.strerror(code), "out/x.csv"))
    assert "out/x.csv" in line
    assert remedy in line


def test_too_little_memory(capsys):
    line = ended(capsys, MemoryError("Unable to allocate 26.8 GiB\nfor an array"))
    assert "26.8 GiB" in line
    assert "rff.D" in line


def test_a_bug_keeps_its_traceback():
    @exits_cleanly
    def main():
        raise KeyError("zeros")

    with pytest.raises(KeyError):
        main()
