"""The commands of docs/how-to/sweeps.md, run one after another, exactly as the page has them."""

import re

import pytest

from documented_commands import commands_of
from sharing_story import COMPUTED_ANEW

# README.md's own `dvc exp` lines are in `make test`
pytestmark = [pytest.mark.slow, pytest.mark.long]

COMMANDS = commands_of("docs/how-to/sweeps.md")
OF_ALL = {"evaluate@all@toy", "tables", "report"}  # read the figures of all problems
OVER_SIGMA = "sensitivity_sigma@left-right"
PLOTS = (
    *("accuracy after each task", "accuracy per class", "confusion after the last task"),
    *("accuracy of every task after every task", "accuracy over confidence"),
    *("accuracy over D", "accuracy over sigma"),
)


@pytest.fixture(scope="module")
def outputs(run_project):
    """Run every command of the page; return what each printed, and the plots' pages."""
    with (run_project.folder / ".git/info/exclude").open("a") as file:
        file.write("/dvc_plots\n")
    found = {}
    for command in COMMANDS:
        found[command] = run_project.run("bash", "-c", command).stdout
        if command.startswith("dvc plots"):
            found[command] = (run_project.folder / "dvc_plots/index.html").read_text()
    found["params.yaml"] = run_project.read_params()
    return found


def one(outputs, start):
    """Return what the one command that begins so printed."""
    (found,) = [output for command, output in outputs.items() if command.startswith(start)]
    return found


def test_metrics_are_one_row(outputs):
    header, row = one(outputs, "dvc metrics show").splitlines()
    assert header.split() == ["Path", "D", "left-right", "mean", "method", "sigma"]
    assert row.split()[0] == "results/toy/metrics.json"


def test_an_experiment_computes_statistics_alone_and_is_compared_with_the_commit(outputs):
    ran = re.findall(r"Running stage '(.*)'", one(outputs, "dvc exp run --name wide"))
    assert set(ran) - OF_ALL == COMPUTED_ANEW - OF_ALL | {OVER_SIGMA}
    assert re.search(r"rff\.D +50 +500", one(outputs, "dvc params diff"))
    assert "results/toy/metrics.json" in one(outputs, "dvc metrics diff")


def test_a_grid_runs_without_images_and_repeats_nothing(outputs):
    assert one(outputs, "dvc exp run --queue").count("Queued experiment") == 2
    ran = re.findall(r"Running stage '(.*)'", one(outputs, "dvc exp run --run-all"))
    assert set(ran) - OF_ALL == COMPUTED_ANEW - OF_ALL  # `wide` has run other values of sigma under D = 500
    once = [stage for stage in ran if stage not in OF_ALL]
    assert len(once) == len(set(once)), "sigma=1e-3 was computed a second time"
    shown = one(outputs, "dvc exp show")
    for sigma in ("0.001", "0.01"):
        assert re.search(rf"500 +{sigma}\b", shown)


@pytest.mark.parametrize("command", ["dvc plots show", "dvc plots diff"])
def test_plots_have_every_table(outputs, command):
    page = one(outputs, command)
    for title in PLOTS:
        assert f"{title}, left-right" in page


def test_an_experiment_is_taken_over(outputs):
    assert outputs["params.yaml"]["rff"]["D"] == 500
    assert outputs["params.yaml"]["rff"]["sigma"] == 1e-3
