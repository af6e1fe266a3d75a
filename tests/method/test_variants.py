from dataclasses import replace

import pytest

from pipeline.errors import ParamsError
from pipeline.method.variants import VARIANTS, MethodOptions, variant


def test_the_named_variants_and_the_default():
    assert set(VARIANTS) == {
        "calibrated", "paper", "released", "no_clip", "no_augmentation", "no_weighting",
        "no_alignment", "no_neighbours", "no_votes", "no_rounds", "hard_labels", "clip_at_test",
        "rejecting", "clip_zero_shot", "source_only", "nearest_mean",
    }  # fmt: skip
    assert variant("calibrated") == MethodOptions()


def test_released_has_the_settings_of_the_authors_code():
    released = variant("released")
    assert released.prior_count == 25
    assert (released.ridge, released.ridge_kind) == (1e-6, "absolute")
    assert (released.clip_scale, released.clip_classes_at_test) == (1.0, "all")
    assert (released.fusion_adapt, released.fusion_test) == ("margin", "max_probability")
    assert released.weight_floor == 0.2
    assert released.logits == "mahalanobis"
    assert not released.divide_scatter


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("no_clip", {"use_clip", "clip_in_kernel"}),
        ("no_augmentation", {"views"}),
        ("no_weighting", {"use_weights"}),
        ("no_alignment", {"align_means"}),
        ("no_neighbours", {"neighbours"}),
        ("no_votes", {"vote_views", "vote_at_test"}),
        ("no_rounds", {"rounds"}),
        ("hard_labels", {"responsibilities"}),
        ("clip_at_test", {"fusion_test"}),
    ],
)
def test_an_ablation_differs_from_calibrated_in_what_its_name_says(name, changed):
    a, b = vars(variant("calibrated")), vars(variant(name))
    assert {key for key in a if a[key] != b[key]} == changed


def test_scale_and_fusion_follow_the_options():
    assert variant("calibrated").clip_logit_scale(95.0) == 95.0
    assert variant("released").clip_logit_scale(95.0) == 1.0
    assert variant("released").fusion(at_test=False) == "margin"
    assert variant("released").fusion(at_test=True) == "max_probability"
    assert variant("no_clip").fusion(at_test=True) == "klda"


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("predictor", "sourc"),
        ("statistics", "exakt"),
        ("fusion_test", "product"),
        ("views", ("zeros", "original")),
        ("views", ()),
        ("ridge", -1.0),
        ("ridge", float("nan")),
        ("rounds", -1),
        ("weight_floor", 1.5),
        ("clip_scale", "its own"),
        ("clip_scale", 0.0),
        ("shrinkage", "oasis"),
    ],
)
def test_a_mistake_names_its_option(option, value):
    with pytest.raises(ParamsError, match=option):
        replace(MethodOptions(), **{option: value})


def test_an_unknown_variant_names_the_nearest():
    with pytest.raises(ParamsError, match="did you mean 'released'"):
        variant("relased")
    with pytest.raises(ParamsError, match="needs statistics: exact"):
        replace(variant("released"), shrinkage="oas")


@pytest.mark.parametrize(
    ("option", "value", "kind"),
    [
        ("vote_at_test", "off", "true or false"),  # a word to YAML 1.2, and every word is true
        ("use_clip", 0, "true or false"),
        ("rounds", 2.5, "a whole number"),
        ("rounds", True, "a whole number"),
        ("ridge", True, "a number"),
        ("prior_count", "5", "a number"),
    ],
)
def test_a_value_of_another_type_is_refused(option, value, kind):
    with pytest.raises(ParamsError, match=f"^{option}: {kind}, not "):
        replace(MethodOptions(), **{option: value})
