"""Real `dvc` commands on a small project run the right stages and show results with their parameters.

All kinds of changes are in test_what_runs_again.py.
"""

import json
import shutil

import pytest

from documented_commands import commands_of
from pipeline.report.table import format_figure
from pipeline.stage import main
from pipeline.store.embedding_store import EmbeddedView, open_embeddings, write_embeddings
from sharing_story import PULL
from small_project import SmallProject, draw_image, stages_run

pytestmark = pytest.mark.slow


def test_new_class_arrives_last_and_only_its_image_is_embedded(project_copy):
    project, order = project_copy, project_copy.folder / "orders/left.json"
    before = order.read_text()
    for domain in ("left", "right"):
        draw_image(project.folder / "data" / domain / "bat/0.png", seed=77)
    done = project.run("dvc", "repro", "tasks@left", "embed@left-vit")
    assert stages_run(done.stdout) == {"manifest@left", "order@left", "tasks@left", "embed@left-vit"}
    assert "; 1 embedded now" in done.stdout, done.stdout
    # DVC must not delete orders/, which has the order of the other classes
    assert "arrive last: bat" in done.stdout
    assert order.read_text() == before.replace('"dog"]', '"dog"],\n  ["bat"]')
    assert project.repro("tasks@left") == set()


def test_missing_report_is_written_again_with_pictures(project_copy):
    """Run the commands of docs/how-to/report.md. A report without images is tested in test_sharing.py."""
    project, page = project_copy, project_copy.results("report.html")
    repro, force = commands_of("docs/how-to/report.md")
    page.unlink()
    assert project.repro() <= {"report"}
    assert page.is_file()
    project.run(*force.split())
    text = page.read_text(encoding="utf-8")
    assert "data:image/" in text
    assert "cache/embeddings/right/vit.zarr</th>" in text  # with its hash in dvc.lock
    assert project.run("git", "rev-parse", "HEAD").stdout.strip() in text
    assert str(project.folder) not in text
    assert "Running stage" not in project.run(*repro.split()).stdout


def test_dvc_and_summary_show_results_with_their_parameters(project_copy, monkeypatch, refused):
    """Even if only a part of the graph was run."""
    project = project_copy
    before = project.results("metrics.json").read_text()
    project.run("dvc", "exp", "run", "--name", "whole", "-S", "rff.sigma=5.0", "evaluate")
    project.run("dvc", "exp", "run", "--name", "part", "-S", "rff.sigma=9.0", "source")
    experiments_by_base = json.loads(project.run("dvc", "exp", "show", "--json").stdout)
    states = [state for base in experiments_by_base for group in base["experiments"] or [] for state in group["revs"]]
    experiments = {state["name"]: state["data"] for state in states}
    (metrics, rff), (part_metrics, part_rff) = (
        (data["metrics"]["results/toy/metrics.json"]["data"], data["params"]["params.yaml"]["data"]["rff"])
        for data in (experiments["whole"], experiments["part"])
    )
    assert metrics["sigma"] == rff["sigma"] == 5.0
    evaluated = json.loads(project.results("evaluations", "left-right.json").read_text())
    assert metrics["mean"] == evaluated["A_T"]
    assert metrics["left-right"] == format_figure(evaluated["A_T"], evaluated["A_T_sd"], plus_minus="±")
    assert {**metrics, "sigma": 0} != {**json.loads(before), "sigma": 0}, "the results are the same"
    # `part` ran no stage with metrics: those of `whole` remain
    assert (part_metrics["sigma"], part_rff["sigma"]) == (5.0, 9.0)
    narrow = project.run("dvc", "exp", "show", "--only-changed", "--no-pager", COLUMNS="120").stdout
    assert all(column in narrow for column in ("mean", "left-right", "sigma", "rff.sigma"))
    changes = project.run("dvc", "metrics", "diff", "HEAD", "whole").stdout
    assert 1 < len(changes.splitlines()) <= 1 + len(metrics)
    assert max(map(len, (narrow + changes).splitlines())) <= 120
    summary = project.run("referee", "summary").stdout
    assert "made with rff.sigma=0.0001" in summary  # the compared methods
    assert "made with rff.sigma=5" in summary  # the evaluation
    monkeypatch.chdir(project.folder)
    refused(main, "evaluate", "left-right")  # its inputs were computed with different parameters


def perturb_embeddings(project, path):
    """Write and commit different embeddings with the same provenance, as another kind of GPU might."""
    store = open_embeddings(project.folder / path)
    provenance = {key: value for key, value in store.provenance.items() if key not in ("schema", "views")}
    rows = {
        view: EmbeddedView(store.rows, store.width, "float16", store.settings(view), [store.read(view) * 1.5])
        for view in store.views
    }
    write_embeddings(project.folder / path, rows, provenance)
    project.commit_stages()
    project.commit("extracted again")


def test_summary_names_results_on_features_of_the_previous_commit(project_copy, tmp_path):
    """After `git pull` without `dvc pull`, DVC computes on the old features."""
    store, repro = "cache/embeddings/left/vit.zarr", (*PULL, "source@left")
    ben = SmallProject(shutil.copytree(project_copy.folder, tmp_path / "ben", symlinks=True))
    perturb_embeddings(project_copy, store)
    shutil.rmtree(ben.folder / "data/left")
    ben.run("dvc", "remote", "add", "--quiet", "--local", "--default", "ada", str(project_copy.folder / ".dvc/cache"))
    ben.run("git", "pull", "--quiet", str(project_copy.folder), "HEAD")
    ben.run(*repro)
    text = ben.run("referee", "summary").stdout
    assert f"source@left was run on a former {store}" in text
    assert "dvc pull --allow-missing" in text
    ben.run("dvc", "pull", "--quiet", "--allow-missing")
    ben.run(*repro)
    assert f"source@left was run on a former {store}" not in ben.run("referee", "summary").stdout
