"""The help text of each command states its purpose, what it reads and writes, and examples that parse."""

import re
import shlex

import pytest

from pipeline.cli.main import main, parser

COMMANDS = sorted(parser()._subparsers._group_actions[0].choices)


def help_of(capsys, *words):
    with pytest.raises(SystemExit, match="0"):
        main([*words, "--help"])
    return capsys.readouterr().out


@pytest.mark.parametrize("command", COMMANDS)
def test_help_text_is_complete_and_its_examples_parse(capsys, command):
    assert re.search(rf"^    {command} +\w.{{10,}}$", help_of(capsys), re.MULTILINE)
    text = help_of(capsys, command)
    assert re.search(r"^reads:  \S", text, re.MULTILINE)
    assert re.search(r"^writes: \S", text, re.MULTILINE)
    _, examples = text.split("examples:\n")
    lines = re.findall(r"\breferee ([^&|#\n]+)", examples.partition("\n\n")[0])
    assert lines
    for line in lines:
        assert parser().parse_args(shlex.split(line)).command == command
