"""Every stage runs where nothing is but what dvc.yaml says it depends on: a teammate who pulls has no more."""

import shutil

import pytest

from pipeline_runs.test_source_free import expanded
from small_project import ALL_STAGES, SmallProject, tree_digest

pytestmark = pytest.mark.slow

# `code` reads the package; these also read weights or images, which are never pushed.
WITH_MORE = ("code", "embed", "prompts", "report")
STAGES = [stage for stage in ALL_STAGES if stage[0] not in WITH_MORE]


@pytest.mark.parametrize("stage", STAGES, ids="-".join)
def test_a_stage_needs_its_declared_dependencies_alone(finished, tmp_path, stage):
    name, *keys = stage
    if name == "sensitivity":  # one function for two stages of the graph
        name = f"{name}_{keys.pop()}"
    dependencies, outputs = expanded()[f"{name}@{'-'.join(keys)}" if keys else name]
    for path in ("params.yaml", "suite.yaml", *dependencies):
        copy = shutil.copytree if (finished / path).is_dir() else shutil.copy
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        copy(finished / path, tmp_path / path)
    SmallProject(tmp_path).run_here(stage)
    for path in outputs:
        made, expected = tmp_path / path, finished / path
        if made.is_dir():
            assert tree_digest(made) == tree_digest(expected)
        else:
            assert made.read_bytes() == expected.read_bytes()
