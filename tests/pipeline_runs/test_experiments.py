"""The commands of docs/how-to/sweeps.md, run one after another for real, exactly as the page has them."""

import re

import pytest

from small_project import ROOT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.long,
]  # README.md's own `dvc exp` lines are in `make test`

PAGE = (ROOT / "docs/how-to/sweeps.md").read_text(encoding="utf-8")
COMMANDS = [
    line
    for block in re.findall(r"^```bash\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
]
OF_ALL = {"tables", "report"}  # read all figures, whoever's
COMPUTED_ANEW = {"basis@left", "source@left"} | {
    f"{stage}@left-right"
    for stage in ("pseudo_label", "refine", "adapt", "evaluate", "compare", "sensitivity")
}
PLOTS = (
    *("accuracy after each task", "accuracy per class", "after the last task"),
    *("accuracy of every task seen", "pseudo-labels right per task"),
    *("accuracy over D", "accuracy over sigma"),
)


@pytest.fixture(scope="module")
def said(run_project):
    """Run every command of the page; return what each said, and the plots' pages."""
    with (run_project.folder / ".git/info/exclude").open("a") as file:
        file.write("/dvc_plots\n")
    told = {}
    for command in COMMANDS:
        told[command] = run_project.run("bash", "-c", command).stdout
        if command.startswith("dvc plots"):
            told[command] = (run_project.folder / "dvc_plots/index.html").read_text()
    told["params.yaml"] = run_project.read_params()
    return told


def one(said, start):
    """Return what the one command that begins so said."""
    (found,) = [output for command, output in said.items() if command.startswith(start)]
    return found


def test_the_page_has_every_command():
    for wanted in (
        *("dvc metrics show", "dvc metrics diff", "dvc params diff", "dvc exp show"),
        *("dvc plots show", "dvc plots diff", "dvc exp run --queue", "dvc exp run --run-all"),
    ):
        assert any(command.startswith(wanted) for command in COMMANDS), wanted


def test_metrics_are_numbers_and_one_row_per_problem(said):
    header, row = one(said, "dvc metrics show results/methods").splitlines()
    methods = ("calibrated", "clip_zero_shot", "no_clip", "source_only")
    assert header.split() == ["Path", *(f"A_T.{method}" for method in methods)]
    path, *figures = row.split()
    assert path == "results/methods/left-right.json"
    assert all(0 <= float(figure) <= 100 for figure in figures)
    assert "pseudo_label_accuracy" in one(said, "dvc metrics show results/metrics")


def test_an_experiment_computes_statistics_alone_and_is_compared_with_the_commit(said):
    ran = re.findall(r"Running stage '(.*)'", one(said, "dvc exp run --name wide"))
    assert set(ran) - OF_ALL == COMPUTED_ANEW
    assert re.search(r"rff\.D +50 +200", one(said, "dvc params diff"))
    assert re.search(r"results/bases/left.json +D +50 +200 +150", one(said, "dvc metrics diff"))


def test_a_grid_runs_without_images_and_repeats_nothing(said):
    queued = one(said, "dvc exp run --queue")
    assert queued.count("Queued experiment") == 2
    ran = re.findall(r"Running stage '(.*)'", one(said, "dvc exp run --run-all"))
    assert set(ran) - OF_ALL == COMPUTED_ANEW
    once = [stage for stage in ran if stage not in OF_ALL]
    assert len(once) == len(set(once)), "sigma=1e-3 was computed a second time"
    shown = one(said, "dvc exp show").splitlines()
    header, *rows = [line for line in shown if line.strip(" ─")]
    assert header.split() == ["Experiment", "A_T.calibrated", "rff.D", "rff.sigma"]
    tried = {tuple(row.split()[-2:]) for row in rows}
    assert tried == {("50", "0.0001"), ("200", "0.001"), ("200", "0.01")}


@pytest.mark.parametrize("command", ["dvc plots show", "dvc plots diff"])
def test_plots(said, command):
    page = one(said, command)
    for title in PLOTS:
        assert f'"text": "{title}, left-right"' in page
    revisions = set(re.findall(r'"rev": "(\w+)"', page))
    assert revisions == ({"workspace"} if command == "dvc plots show" else {"HEAD", "wide"})
    assert '"scale": {"type": "log"}' in page  # the project's own template was found


def test_an_experiment_is_taken_over(said):
    assert said["params.yaml"]["rff"]["D"] == 200
    assert said["params.yaml"]["rff"]["sigma"] == 1e-3
