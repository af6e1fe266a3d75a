"""Check that the outputs of `manifest`, `tasks`, `embed` and `prompts` only change when their versions are raised."""

import numpy as np
import pytest

from stages.record_golden import REMEDY, STAGES, differences, explain, make_outputs, read_recorded


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    return make_outputs(tmp_path_factory.mktemp("golden"))


@pytest.mark.parametrize("stage", STAGES)
def test_outputs_equal_those_recorded_for_the_version(outputs, stage):
    message = explain(stage, outputs[stage])
    assert not message, message


@pytest.mark.parametrize("stage", STAGES)
def test_changed_outputs_require_a_new_version(stage):
    changed = read_recorded(stage)
    name = sorted(changed)[0]
    changed[name] = np.array("0") if stage in ("manifest", "tasks") else changed[name] * np.float16(1.05)
    assert differences(changed, read_recorded(stage)) == [name]
    message = explain(stage, changed)
    place = "ROWS_VERSION" if stage == "embed" else f"pipeline/stages/{stage}.py"
    assert place in message
    assert REMEDY in message
