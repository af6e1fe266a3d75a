"""Run every suite of the repository on tiny images.

Suites of the paper run from the downloaded layout to the tables, by `use` and `dvc repro` as in README.md's "Your own
photos". The others run for a teammate whose clone has no images and no weights except the digits' models.
"""

import pytest

from pipeline.datasets.manifest_files import read_images
from sharing_story import PULL, cloned_files, hide_encoders
from small_project import ROOT, feature_stages, read_csv, stages_run
from suite_project import PER_CLASS, suite_project

pytestmark = [pytest.mark.slow, pytest.mark.long]

PROBLEMS = {"office31": 6, "officehome": 12, "visda": 1, "domainnet": 2}  # all21 is these four together
# one of each group, without `paper`, which needs more images per task: it divides by the task's weight minus one
METHODS = ("clip_zero_shot", "source_only", "no_clip", "released", "calibrated", "ranpac-pseudo")
OTHERS = sorted({file.stem for file in (ROOT / "suites").glob("*.yaml")} - set(PROBLEMS))
FEATURES = ("generate", "manifest", "order", "tasks", "model", "embed", "prompts")


def assert_tables(project, problems):
    """Check that the tables have a percentage for each method and problem, and the published results."""
    rows = read_csv(project.results("tables", "comparison.csv"))
    assert {row["method"] for row in rows if row["kind"] == "measured"} == set(METHODS)
    assert {row["title"] for row in rows if row["kind"] == "published"} >= {"REFEREE", "CDCL"}
    for row in rows:
        assert all(0 <= float(row[problem]) <= 100 for problem in problems), row
    headline = read_csv(project.results("tables", "headline.csv"))
    assert {row["problem"] for row in headline} - {"mean"} == set(problems)


def use_clipart_lists(project):
    """Read clipart by its published lists, as suites/domainnet.yaml explains; sketch is read by folders."""
    folder = project.folder / "data/domainnet"
    texts = ((folder / f"clipart_{part}.txt").read_text() for part in ("train", "test"))
    (folder / "clipart.txt").write_text("".join(texts))
    domains = project.read_params()["domains"]
    domains["domainnet_clipart"]["images"] = "data/domainnet/clipart.txt"
    project.change_params(domains=domains)


@pytest.mark.parametrize("suite", PROBLEMS)
def test_suite_runs_from_the_download_to_the_tables(suite, tmp_path):
    project = suite_project(tmp_path, suite)
    if suite == "domainnet":
        use_clipart_lists(project)
    assert f"data/{suite}" not in project.run("referee", "doctor", ok=False).stderr
    project.change_params(compare={"methods": list(METHODS)})
    params = project.read_params()
    ran = project.repro()
    problems = list(params["problems"])
    assert len(problems) == PROBLEMS[suite]
    assert {s for s in ran if s.startswith("source@")} == {f"source@{s}" for s in params["sources"]}
    assert_tables(project, problems)
    assert project.repro() == set()
    # without the image of clipart that is in no list
    classes = {"visda_train": 12, "domainnet_clipart": 345, "domainnet_sketch": 345}
    for domain in classes.keys() & params["domains"].keys():
        assert len(read_images(tmp_path / "cache/manifests" / domain)) == classes[domain] * PER_CLASS


def extract_and_push(owner, remote):
    """Compute all features of the suite in this process, commit them and push them to a remote."""
    params = owner.read_params()
    generate = [("generate", key) for key in params["generated"]]
    stages = (("code",), *generate, *feature_stages(*params["domains"], models=params["models"]))
    owner.run_in_process(*stages)
    names = {stage for stage, *_ in stages}
    owner.run("dvc", "commit", "--quiet", "--force", *names)
    owner.run("dvc", "remote", "add", "--quiet", "--default", "team", str(remote))
    owner.commit("features of our images")
    owner.run("dvc", "push", "--quiet", *names)


@pytest.mark.parametrize("suite", OTHERS)
def test_teammate_gets_a_result_without_images_and_weights(suite, tmp_path):
    (tmp_path / "owner").mkdir()
    owner = suite_project(tmp_path / "owner", suite)
    extract_and_push(owner, tmp_path / "remote")
    mate = owner.clone(tmp_path / "mate")
    files = {file for file in cloned_files(mate) if not file.startswith("weights/digits")}
    assert files == {"data/README.md", "weights/README.md", "cache/README.md"}
    mate.change_params(rff={"sigma": 1e-2})
    result = next((f"evaluate@{problem}" for problem in mate.read_params()["problems"]), "source@photos")
    ran = stages_run(mate.run(*PULL, result, **hide_encoders(tmp_path)).stdout)
    assert result in ran
    assert not {stage for stage in ran if stage.split("@")[0] in ("code", *FEATURES)}, ran
    assert not (tmp_path / "an encoder was imported").exists()
