"""SIGKILL every stage at random moments: an output is whole or absent, and running again ends with the same bytes."""

import itertools
import random
import shutil
from collections import Counter

import pytest

from faults.stage_processes import kill_after, run_to_its_end
from repro_here import Graph
from shards import files_in
from small_project import stages_of, tree_digest

pytestmark = pytest.mark.slow

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
def outputs(project):
    """Return {arguments: outputs} of one run of every stage, by every model and over both parameters."""
    one_of_each = {stage[:1] + stage[2:]: stage for stage in stages_of(project.read_params())}
    graph = Graph(project.folder).files()
    return {stage: graph[" ".join(stage)][1] for stage in one_of_each.values()}


@pytest.fixture(scope="module")
def undisturbed(project, outputs):
    """Run every stage in order; return its seconds, and what each output must be."""
    run_to_its_end(project.folder, "code")  # starts the server
    seconds, expected = {}, {}
    for stage, written in outputs.items():
        forget_progress(project, stage)
        seconds[stage] = run_to_its_end(project.folder, *stage)
        expected |= {name: tree_digest(project.folder / name) for name in written}
    assert None not in expected.values()
    parts = {name: files_in(project.folder / name) for name in SEVERAL_OUTPUTS}
    return seconds, expected, parts


def forget_progress(project, stage):
    if stage[0] == "embed":
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


@pytest.mark.parametrize("kills", [1, pytest.param(120, marks=pytest.mark.long)])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # DVC's own
def test_stages_killed_at_random_moments_end_with_the_same_bytes(project, outputs, undisturbed, kills):
    """Each in turn until ``kills`` were at work, at least one of each; each is then run to its end."""
    seconds, expected, parts = undisturbed
    chosen = random.Random(kills)
    at_work = Counter()
    for tried, stage in enumerate(itertools.cycle(outputs)):
        if at_work.total() >= kills and len(at_work) == len(outputs):
            return
        assert tried < 4 * kills + 4 * len(outputs)
        if at_work.total() >= kills and stage in at_work:
            continue
        if chosen.random() < 0.5:  # as DVC does before it runs a stage
            for name in outputs[stage]:
                remove(project.folder / name)
            forget_progress(project, stage)
        moment = chosen.random() * seconds[stage]
        if kill_after(moment, project.folder, *stage):
            at_work[stage] += 1
        else:  # it had ended before: the time of its first run was that of a busy machine
            seconds[stage] = min(seconds[stage], moment)
        for name in outputs[stage]:
            assert_whole_or_absent(project.folder / name, expected[name], parts.get(name))
        run_to_its_end(project.folder, *stage)
        for name in outputs[stage]:
            assert tree_digest(project.folder / name) == expected[name], f"{stage}: {name} differs"
        assert not leftovers(project.folder), stage
