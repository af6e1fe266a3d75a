"""SIGKILL every stage at random moments: an output is whole or absent, and running again ends with the same bytes."""

import random
import shutil
from collections import Counter

import pytest

from faults.stage_processes import kill_after, run_to_its_end
from shards import files_in
from small_project import PROBLEM, tree_digest

pytestmark = pytest.mark.slow

# stage, arguments, outputs
STAGES = [
    ("code", (), ["cache/code"]),
    ("generate", ("print",), ["data/print"]),
    ("manifest", ("right",), [f"cache/manifests/right/{name}" for name in ("images", "names", "labels")]),
    ("order", ("right",), ["orders/right.json"]),
    ("tasks", ("right",), ["cache/manifests/right/tasks"]),
    ("model", ("vit",), ["cache/models/vit.json"]),
    ("embed", ("right", "vit"), ["cache/embeddings/right/vit.zarr"]),
    ("embed", ("right", "clip"), ["cache/embeddings/right/clip.zarr"]),
    ("prompts", ("right",), ["cache/prompts/right.zarr"]),
    ("probe", ("right",), ["results/toy/probes/right.json"]),
    ("source", ("left",), ["cache/bases/left.json", "cache/source/left.zarr", "results/toy/bases/left.json"]),
    ("adapt", (PROBLEM,), ["cache/target/left-right.zarr"]),
    ("evaluate", (PROBLEM,), ["results/toy/evaluations/left-right.json", "results/toy/problems/left-right/tables"]),
    ("compare", (PROBLEM,), ["results/toy/problems/left-right/comparison.json"]),
    ("sensitivity", (PROBLEM, "D"), [f"results/toy/problems/{PROBLEM}/sensitivity/D.{e}" for e in ("csv", "json")]),
    ("select", (PROBLEM,), ["results/toy/problems/left-right/selection"]),
    ("tables", (), ["results/toy/tables"]),
    ("report", (), ["results/toy/report.html"]),
]
SEVERAL_OUTPUTS = ("cache/code",)  # each file is whole or absent by itself


def remove(path):
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


@pytest.fixture(scope="module")
def project(run_project):
    """The finished project, with a generated domain besides."""
    params = run_project.read_params()
    params["datasets"]["digits"] = params["datasets"]["toy"]
    params["domains"]["print"] = {**params["domains"]["left"], "images": "data/print", "dataset": "digits"}
    params["generated"] = {"print": {"folder": "data/print", "seed": 0, "per_class": 3}}
    run_project.write_params(params)
    return run_project


@pytest.fixture(scope="module")
def undisturbed(project):
    """Run every stage in order; return its seconds, and what each output must be."""
    run_to_its_end(project.folder, "code")  # starts the server
    seconds, expected = {}, {}
    for stage, arguments, outputs in STAGES:
        forget_progress(project, stage)
        seconds[stage, arguments] = run_to_its_end(project.folder, stage, *arguments)
        expected |= {name: tree_digest(project.folder / name) for name in outputs}
    assert None not in expected.values()
    parts = {name: files_in(project.folder / name) for name in SEVERAL_OUTPUTS}
    return seconds, expected, parts


def forget_progress(project, stage):
    if stage == "embed":
        shutil.rmtree(project.folder / ".referee", ignore_errors=True)


def leftovers(folder):
    return [p for p in folder.rglob(".*") if p.name.endswith((".partial", ".former"))]


def assert_whole_or_absent(path, expected, parts):
    """An output is what it must be, or nothing; of ``parts``, each is."""
    if parts is None:
        assert tree_digest(path) in (None, expected), path
        return
    for name, content in files_in(path).items() if path.exists() else ():
        hidden = name.rsplit("/", 1)[-1].endswith((".partial", ".former"))
        assert hidden or content == parts.get(name), f"{path}/{name}"


@pytest.mark.parametrize("kills", [len(STAGES), pytest.param(120, marks=pytest.mark.long)])
def test_stages_killed_at_random_moments_end_with_the_same_bytes(project, undisturbed, kills):
    """Each in turn until ``kills`` were at work, at least one of each; each is then run to its end."""
    seconds, expected, parts = undisturbed
    chosen = random.Random(kills)
    at_work = Counter()
    tried = 0
    while at_work.total() < kills or len(at_work) < len(STAGES):
        number = tried % len(STAGES)
        tried += 1
        assert tried < 4 * kills + 4 * len(STAGES)
        if at_work.total() >= kills and number in at_work:
            continue
        stage, arguments, outputs = STAGES[number]
        if chosen.random() < 0.5:  # as DVC does before it runs a stage
            for name in outputs:
                remove(project.folder / name)
            forget_progress(project, stage)
        moment = chosen.random() * seconds[stage, arguments]
        if kill_after(moment, project.folder, stage, *arguments):
            at_work[number] += 1
        else:  # it had ended before: the time of its first run was that of a busy machine
            seconds[stage, arguments] = min(seconds[stage, arguments], moment)
        for name in outputs:
            assert_whole_or_absent(project.folder / name, expected[name], parts.get(name))
        run_to_its_end(project.folder, stage, *arguments)
        for name in outputs:
            assert tree_digest(project.folder / name) == expected[name], f"{stage}: {name} differs"
        assert not leftovers(project.folder), stage
