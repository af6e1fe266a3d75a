"""The commands of docs/how-to/sweeps.md, run one after another, exactly as the page has them."""

import re

import pytest

from documented_commands import commands_of
from sharing_story import COMPUTED_ANEW
from small_project import stages_run

# README.md's own `dvc exp` lines are in `make test`
pytestmark = [pytest.mark.slow, pytest.mark.long]

OF_ALL = {"evaluate@all@toy", "tables", "report"}  # read the figures of all problems


def test_every_command_of_the_page(project_copy):
    project, found = project_copy, {}
    with (project.folder / ".git/info/exclude").open("a") as file:
        file.write("/dvc_plots\n")
    for command in commands_of("docs/how-to/sweeps.md"):
        found[command] = project.run("bash", "-c", command).stdout
        if command.startswith("dvc plots"):
            page = (project.folder / "dvc_plots/index.html").read_text()
            for title in ("accuracy per class", "accuracy over sigma"):  # all of them: test_dvc_plots.py
                assert f"{title}, left-right" in page, command

    def one(start):
        """Return what the one command that begins so printed."""
        (output,) = [output for command, output in found.items() if command.startswith(start)]
        return output

    header, row = one("dvc metrics show").splitlines()
    assert header.split() == ["Path", "D", "left-right", "mean", "method", "sigma"]
    assert row.split()[0] == "results/toy/metrics.json"

    # an experiment computes statistics alone and is compared with the commit
    ran = stages_run(one("dvc exp run --name wide"))
    assert ran - OF_ALL == COMPUTED_ANEW - OF_ALL | {"sensitivity_sigma@left-right"}
    assert re.search(r"rff\.D +50 +500", one("dvc params diff"))
    assert "results/toy/metrics.json" in one("dvc metrics diff")

    # a grid runs without images and repeats nothing
    assert one("dvc exp run --queue").count("Queued experiment") == 2
    ran = re.findall(r"Running stage '(.*)'", one("dvc exp run --run-all"))
    assert set(ran) - OF_ALL == COMPUTED_ANEW - OF_ALL  # `wide` has run other values of sigma under D = 500
    once = [stage for stage in ran if stage not in OF_ALL]
    assert len(once) == len(set(once)), "sigma=1e-3 was computed a second time"
    for sigma in ("0.001", "0.01"):
        assert re.search(rf"500 +{sigma}\b", one("dvc exp show"))

    rff = project.read_params()["rff"]
    assert (rff["D"], rff["sigma"]) == (500, 1e-3)  # an experiment was taken over
