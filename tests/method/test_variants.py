from dataclasses import replace

import pytest

from pipeline.errors import ParamsError
from pipeline.method.variants import VARIANTS, MethodOptions
from pipeline.problem.method_options import method_options

ABLATIONS = {
    "no_clip": {"use_clip", "clip_in_kernel"},
    "no_augmentation": {"views"},
    "no_weighting": {"use_weights"},
    "no_weight_floor": {"weight_floor"},
    "no_alignment": {"align_means"},
    "no_neighbours": {"neighbours"},
    "no_votes": {"vote_views", "vote_at_test"},
    "no_rounds": {"rounds"},
    "hard_labels": {"responsibilities"},
    "clip_at_test": {"fusion_test"},
    "rejecting": {"reject"},
}
REFERENCES = {name: {"predictor"} for name in ("clip_zero_shot", "source_only", "nearest_mean")}


def test_each_ablation_changes_only_the_options_in_its_name():
    default = vars(MethodOptions())
    changed = {name: {key for key in default if default[key] != vars(v)[key]} for name, v in VARIANTS.items()}
    del changed["paper"], changed["released"]
    assert changed == {"calibrated": set(), **ABLATIONS, **REFERENCES}


@pytest.mark.parametrize(
    ("option", "value", "remedy"),
    [
        ("predictor", "sourc", "'source'"),
        ("statistics", "exakt", "'exact'"),
        ("fusion_test", "product", ""),
        ("views", ("zeros", "original"), ""),
        ("views", (), ""),
        ("views", ("original", "zeroes"), "zeros"),
        *(("ridge", value, "") for value in (-1.0, float("nan"))),
        ("rounds", -1, ""),
        ("weight_floor", 1.5, ""),
        *(("clip_scale", value, "") for value in ("its own", 0.0)),
        *(("shrinkage", "oasis", "oas"), ("shrinkage", 1.5, "from 0 to 1")),
        ("vote_at_test", "off", "true or false"),  # a string in YAML 1.2, which would be true
        ("use_clip", 0, "true or false"),
        *(("rounds", value, "a whole number") for value in (2.5, True)),
        *(("ridge", True, "a number"), ("prior_count", "5", "a number")),
    ],
)
def test_an_invalid_value_is_refused_naming_the_option(option, value, remedy):
    with pytest.raises(ParamsError, match=f"{option}.*{remedy}"):
        replace(MethodOptions(), **{option: value})


def test_an_unknown_variant_or_option_is_refused_with_a_suggestion():
    with pytest.raises(ParamsError, match=r"method\.variant.*did you mean 'released'"):
        method_options("relased", {})
    with pytest.raises(ParamsError, match=r"method\.options\.rigde.*did you mean 'ridge'"):
        method_options("paper", {"rigde": 1})
    with pytest.raises(ParamsError, match="needs statistics: exact"):
        replace(VARIANTS["released"], shrinkage="oas")
