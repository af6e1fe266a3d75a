"""The pages on sharing agree with each other; their commands are run by tests/pipeline_runs."""

import pytest

from sharing_story import PAGE, commands_of
from small_project import ROOT


def test_readme_has_the_recipe_of_the_page():
    assert commands_of(ROOT / "README.md", "Sharing with teammates") == commands_of(PAGE, "S3")


@pytest.mark.parametrize("section", ["S3", "SSH", "A shared folder"])
def test_a_recipe_has_five_lines_and_ends_with_the_one_command(section):
    commands = commands_of(PAGE, section)
    assert len(commands) == 5
    assert commands[1] == "dvc push --run-cache"
    assert commands[-1] == "dvc repro --pull --allow-missing"
