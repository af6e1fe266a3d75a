"""Features are kept until a version is raised: the outputs of `manifest`, `embed` and `prompts` are those recorded."""

import numpy as np
import pytest

from stages.record_golden import REMEDY, STAGES, differences, explain, make_outputs, read_recorded


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return make_outputs(tmp_path_factory.mktemp("golden"))


@pytest.mark.parametrize("stage", STAGES)
def test_outputs_are_those_recorded_under_the_stage_s_version(made, stage):
    wrong = explain(stage, made[stage])
    assert not wrong, wrong


@pytest.mark.parametrize("stage", STAGES)
def test_changed_outputs_ask_for_a_new_version(stage):
    changed = read_recorded(stage)
    name = sorted(changed)[0]
    changed[name] = np.array("0") if stage in ("manifest", "tasks") else changed[name] * np.float16(1.05)
    assert differences(changed, read_recorded(stage)) == [name]
    wrong = explain(stage, changed)
    place = "ROWS_VERSION" if stage == "embed" else f"pipeline/stages/{stage}.py"
    assert place in wrong
    assert REMEDY in wrong
