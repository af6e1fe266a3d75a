"""The recipes of docs/how-to/sharing.md have one form; their commands are run by tests/pipeline_runs."""

import pytest

from sharing_story import PAGE, commands_of


@pytest.mark.parametrize("section", ["S3", "SSH", "A shared folder"])
def test_a_recipe_has_five_lines_and_ends_with_the_one_command(section):
    commands = commands_of(PAGE, section)
    assert len(commands) == 5
    assert commands[1] == "dvc push --run-cache"
    assert commands[-1] == "dvc repro --pull --allow-missing"
