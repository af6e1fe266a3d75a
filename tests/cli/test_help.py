"""Help for somebody who knows DVC and not the paper: a purpose, what is read and written, examples that parse."""

import re
import shlex

import pytest

from pipeline.cli.main import main, parser

COMMANDS = sorted(parser()._subparsers._group_actions[0].choices)


@pytest.fixture
def told(capsys, monkeypatch):
    """Return a function that gives a command's help on a terminal of 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")

    def ask(*words):
        with pytest.raises(SystemExit, match="0"):
            main([*words, "--help"])
        return capsys.readouterr().out

    return ask


def test_the_list_of_commands(told):
    said = told()
    for command in COMMANDS:  # a purpose on the line of its name
        assert re.search(rf"^    {command} +\w.{{10,}}$", said, re.MULTILINE), command
    for word in ("domain", "problem", "task", "suite", "store", "dvc repro"):
        assert word in said


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_says_what_it_reads_and_writes(told, command):
    said = told(command)
    assert re.search(r"^reads:  \S", said, re.MULTILINE)
    assert re.search(r"^writes: \S", said, re.MULTILINE)
    assert max(map(len, said.splitlines())) <= 80


@pytest.mark.parametrize("command", COMMANDS)
def test_its_examples_are_accepted(told, command):
    _, examples = told(command).split("examples:\n")
    lines = [line.strip() for line in examples.splitlines() if line.strip()]
    assert lines
    for line in lines:
        program, *words = shlex.split(line.split("&&")[0].split("|")[0].split("#")[0])
        assert program == "referee"
        assert parser().parse_args(words).command == command
