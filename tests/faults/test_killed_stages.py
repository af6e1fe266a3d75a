"""SIGKILL every stage at random moments: outputs are complete or absent, and another run gives the same bytes."""

import itertools
import random
import shutil
from collections import Counter

import pytest

from faults.stage_processes import kill_after, run_to_completion
from shards import files_in
from simulated_repro import Graph
from small_project import all_stages, tree_digest

pytestmark = pytest.mark.slow

SEVERAL_OUTPUTS = ("cache/code",)  # folders in which each file is complete or absent on its own


def remove(path):
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


@pytest.fixture(scope="module")
def project(run_project):
    """Return the finished project with an additional generated domain."""
    params = run_project.read_params()
    params["datasets"]["digits"] = params["datasets"]["toy"]
    params["domains"]["print"] = {**params["domains"]["left"], "images": "data/print", "dataset": "digits"}
    params["generated"] = {"print": {"folder": "data/print", "seed": 0, "per_class": 3}}
    run_project.write_params(params)
    return run_project


@pytest.fixture(scope="module")
def outputs(project):
    """Return {arguments: outputs} with one run of every stage and model, and of both sensitivities."""
    representatives = {stage[:1] + stage[2:]: stage for stage in all_stages(project.read_params())}
    graph = Graph(project.folder).files()
    return {stage: graph[" ".join(stage)][1] for stage in representatives.values()}


@pytest.fixture(scope="module")
def undisturbed(project, outputs):
    """Run every stage in order and return the durations and the expected outputs."""
    run_to_completion(project.folder, "code")  # starts the server
    seconds, expected = {}, {}
    for stage, names in outputs.items():
        forget_progress(project, stage)
        seconds[stage] = run_to_completion(project.folder, *stage)
        expected |= {name: tree_digest(project.folder / name) for name in names}
    assert None not in expected.values()
    parts = {name: files_in(project.folder / name) for name in SEVERAL_OUTPUTS}
    return seconds, expected, parts


def forget_progress(project, stage):
    if stage[0] == "embed":
        shutil.rmtree(project.folder / ".referee", ignore_errors=True)


def leftovers(folder):
    return [p for p in folder.rglob(".*") if p.name.endswith((".partial", ".former"))]


def assert_complete_or_absent(path, expected, parts):
    """Assert that an output, or each file of ``parts``, is as expected or absent."""
    if parts is None:
        assert tree_digest(path) in (None, expected), path
        return
    for name, content in files_in(path).items() if path.exists() else ():
        hidden = name.rsplit("/", 1)[-1].endswith((".partial", ".former"))
        assert hidden or content == parts.get(name), f"{path}/{name}"


@pytest.mark.parametrize("kills", [1, pytest.param(120, marks=pytest.mark.long)])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # DVC's own
def test_stages_killed_at_random_moments_end_with_the_same_bytes(project, outputs, undisturbed, kills):
    """Kill stages in turn until ``kills`` were hit while running, each stage at least once; then complete each."""
    seconds, expected, parts = undisturbed
    rng = random.Random(kills)
    killed = Counter()
    for attempt, stage in enumerate(itertools.cycle(outputs)):
        if killed.total() >= kills and len(killed) == len(outputs):
            return
        assert attempt < 4 * kills + 4 * len(outputs)
        if killed.total() >= kills and stage in killed:
            continue
        if rng.random() < 0.5:  # as DVC does before it runs a stage
            for name in outputs[stage]:
                remove(project.folder / name)
            forget_progress(project, stage)
        moment = rng.random() * seconds[stage]
        if kill_after(moment, project.folder, *stage):
            killed[stage] += 1
        else:  # it ended earlier, so the machine was busy when its duration was measured
            seconds[stage] = min(seconds[stage], moment)
        for name in outputs[stage]:
            assert_complete_or_absent(project.folder / name, expected[name], parts.get(name))
        run_to_completion(project.folder, *stage)
        for name in outputs[stage]:
            assert tree_digest(project.folder / name) == expected[name], f"{stage}: {name} differs"
        assert not leftovers(project.folder), stage
