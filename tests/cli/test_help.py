"""The help of every command: a purpose, what is read and written, examples that parse."""

import re
import shlex

import pytest

from pipeline.cli.main import main, parser

COMMANDS = sorted(parser()._subparsers._group_actions[0].choices)


@pytest.fixture
def help_of(capsys, monkeypatch):
    """Return a function that gives a command's help on a terminal of 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")

    def ask(*words):
        with pytest.raises(SystemExit, match="0"):
            main([*words, "--help"])
        return capsys.readouterr().out

    return ask


def test_the_list_of_commands(help_of):
    text = help_of()
    for command in COMMANDS:  # a purpose on the line of its name
        assert re.search(rf"^    {command} +\w.{{10,}}$", text, re.MULTILINE), command
    for word in ("domain", "problem", "task", "A_T", "suite", "store", "dvc repro"):
        assert word in text


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_says_what_it_reads_and_writes_with_examples_that_parse(help_of, command):
    text = help_of(command)
    assert re.search(r"^reads:  \S", text, re.MULTILINE)
    assert re.search(r"^writes: \S", text, re.MULTILINE)
    assert max(map(len, text.splitlines())) <= 80
    _, examples = text.split("examples:\n")
    lines = re.findall(r"\breferee ([^&|#\n]+)", examples.partition("\n\n")[0])
    assert lines
    for line in lines:
        assert parser().parse_args(shlex.split(line)).command == command
