"""Run the commands of docs/how-to/sweeps.md one after another."""

import re

import pytest

from documented_commands import commands_of
from sharing_story import COMPUTED_ANEW
from small_project import stages_run

# `make test` runs the `dvc exp` commands of README.md
pytestmark = [pytest.mark.slow, pytest.mark.long]

SUMMARIES = {"evaluate@all@toy", "tables", "report"}  # read the results of all problems


def test_commands_of_the_page(project_copy):
    project, outputs = project_copy, {}
    with (project.folder / ".git/info/exclude").open("a") as file:
        file.write("/dvc_plots\n")
    for command in commands_of("docs/how-to/sweeps.md"):
        outputs[command] = project.run("bash", "-c", command).stdout
        if command.startswith("dvc plots"):
            page = (project.folder / "dvc_plots/index.html").read_text()
            for title in ("accuracy per class", "accuracy over sigma"):  # all of them: test_dvc_plots.py
                assert f"{title}, left-right" in page, command

    def output_of(start):
        """Return the output of the only command that begins with ``start``."""
        (output,) = [output for command, output in outputs.items() if command.startswith(start)]
        return output

    header, row = output_of("dvc metrics show").splitlines()
    assert header.split() == ["Path", "D", "left-right", "mean", "method", "sigma"]
    assert row.split()[0] == "results/toy/metrics.json"

    # an experiment computes only statistics and is compared with the commit
    ran = stages_run(output_of("dvc exp run --name wide"))
    assert ran - SUMMARIES == COMPUTED_ANEW - SUMMARIES | {"sensitivity_sigma@left-right"}
    assert re.search(r"rff\.D +50 +500", output_of("dvc params diff"))
    assert "results/toy/metrics.json" in output_of("dvc metrics diff")

    # a grid runs without images and repeats nothing
    assert output_of("dvc exp run --queue").count("Queued experiment") == 2
    ran = re.findall(r"Running stage '(.*)'", output_of("dvc exp run --run-all"))
    assert set(ran) - SUMMARIES == COMPUTED_ANEW - SUMMARIES  # `wide` ran the sweep over sigma for D = 500
    stages = [stage for stage in ran if stage not in SUMMARIES]
    assert len(stages) == len(set(stages)), "sigma=1e-3 was computed twice"
    for sigma in ("0.001", "0.01"):
        assert re.search(rf"500 +{sigma}\b", output_of("dvc exp show"))

    rff = project.read_params()["rff"]
    assert (rff["D"], rff["sigma"]) == (500, 1e-3)  # an experiment was applied
