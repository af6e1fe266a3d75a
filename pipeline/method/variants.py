"""The method's options, and the named sets of them: what the columns of docs/method.md say, as data.

`calibrated` is the default. `paper` is the equations as printed, `released` what the authors' code
computes; both are kept so that a published number can be traced. Ablations and reference rows are
variants too. A user may override any single option: ``replace(VARIANTS["paper"], ridge=0.1)``.
"""

import math
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args, get_origin

import numpy as np

from pipeline.errors import ParamsError, did_you_mean
from pipeline.method.kernel_lda import Regularisation
from pipeline.method.rows import Vector64
from pipeline.method.views import VIEWS
from pipeline.method.within_scatter import SHRINKAGES, Shrinkage

Predictor = Literal["adapted", "source", "clip", "nearest_mean"]
Arithmetic = Literal["float32", "float64"]
FusionKind = Literal["max_probability", "margin", "klda", "clip"]


@dataclass(frozen=True)
class MethodOptions:
    """Every choice the method leaves open; the defaults are `calibrated`."""

    # what answers at test: the adapted target model, fused with CLIP as `fusion_test` says; the source model alone;
    # CLIP alone; the nearest source class mean on unit embeddings
    predictor: Predictor = "adapted"
    # views of each target image that enter the statistics, ``original`` first
    views: tuple[str, ...] = ("original", "zeros", "rand")
    # the source statistics take the same views; otherwise the original alone
    source_views: bool = True
    # exact: sums that add; printed: eqs. (16), (17) as they stand; task_centred: the released code's
    statistics: Literal["exact", "printed", "task_centred"] = "exact"
    # of the exact statistics: float32 products with float64 sums, or float64 throughout
    arithmetic: Arithmetic = "float32"
    # use scatter / Σω, a covariance; otherwise the raw scatter, whose confidence grows with N
    divide_scatter: bool = True
    # added to the diagonal: λ·tr A/D (of a task's first labels, in all rounds) or λ
    ridge: float = 0.3
    ridge_kind: Literal["relative", "absolute"] = "relative"
    source_ridge: float = 0.1  # the same for the source model
    # a number, oas or ledoit_wolf; applied before the ridge, exact statistics only
    shrinkage: Shrinkage = None
    # pool the source's within-class scatter with the target's, each by its Σω
    source_covariance: bool = True
    prior_count: float = 5.0  # number of samples that the source's means count as in the target's
    # ``counted`` adds the log of each class's share of the weight to its logit
    class_priors: Literal["equal", "counted"] = "equal"
    # eqs. (11)–(13), or the released code's −(μ−z)ᵀS⁻¹(μ−z)
    logits: Literal["lda", "mahalanobis"] = "lda"
    use_clip: bool = True  # without it both fusions are the KLDA branch alone
    # λ of CLIP's image embedding beside the vision model's in the kernel, see `kernel_rows`; 0 for none
    clip_in_kernel: float = 0.5
    # scale s of eq. (1): the CLIP model's own, or a number
    clip_scale: Literal["model"] | float = "model"
    # softmax of the CLIP branch over the classes seen, or over all classes and then sliced
    clip_classes_at_test: Literal["seen", "all"] = "seen"
    fusion_adapt: FusionKind = "max_probability"  # see `fusion.fusion_weight`
    fusion_test: FusionKind = "klda"
    threshold: float = 0.0  # a pseudo-label is kept if max p̂ reaches it
    use_weights: bool = True  # eq. (18), or 1 for every sample
    # the least weight: images of which nothing is sure are often those of a class that a shift has hit hardest
    weight_floor: float = 0.3
    # the first labels are of the task's rows less its shift, see `fusion`; needs CLIP
    align_means: bool = True
    # average p̂ of each image, half and half, with that of its nearest images of the task, see `fusion`; 0 for none
    neighbours: int = 5
    # soft: an image enters every class of its task by its share ω p̂; hard: its label's class alone
    responsibilities: Literal["soft", "hard"] = "soft"
    rounds: int = 3  # how often a task is labelled again by its own new statistics, fused with CLIP
    vote_views: bool = True  # average the KLDA branch over the views to label
    vote_at_test: bool = True  # and to predict
    # joint: images of none of the candidate classes do not enter the statistics and are answered `unknown`, see
    # `rejection`
    reject: Literal["none", "joint"] = "none"

    def __post_init__(self) -> None:
        """Refuse what cannot be computed, naming the option."""
        for field in fields(self):
            _check(field.name, getattr(self, field.name), field.type, type(field.default))
        if not self.views or self.views[0] != "original":
            raise ParamsError(f"views: 'original' must come first, not {self.views!r}")
        if unknown := [view for view in self.views if view not in VIEWS]:
            raise ParamsError(f"views: no view {unknown[0]!r}{did_you_mean(unknown[0], VIEWS)}")
        if self.weight_floor > 1:
            raise ParamsError(f"weight_floor: a number from 0 to 1, not {self.weight_floor!r}")
        if isinstance(self.shrinkage, str) and self.shrinkage not in SHRINKAGES:
            raise ParamsError(f"shrinkage: no estimate {self.shrinkage!r}{did_you_mean(self.shrinkage, SHRINKAGES)}")
        if isinstance(self.shrinkage, float | int) and not 0 <= self.shrinkage <= 1:
            raise ParamsError(f"shrinkage: a number from 0 to 1, not {self.shrinkage!r}")
        if self.shrinkage is not None and self.statistics != "exact":
            raise ParamsError("shrinkage: needs statistics: exact")
        if self.responsibilities == "soft" and self.statistics != "exact":
            raise ParamsError("responsibilities: soft needs statistics: exact")
        word = isinstance(self.clip_scale, str)
        if self.clip_scale != "model" and (word or not 0 < float(self.clip_scale) < math.inf):
            raise ParamsError(f"clip_scale: 'model' or a number above 0, not {self.clip_scale!r}")

    @property
    def views_of_source(self) -> tuple[str, ...]:
        """The views that the source statistics take."""
        return self.views if self.source_views else ("original",)

    @property
    def label_views(self) -> tuple[str, ...]:
        """The views that decide the labels."""
        return self.views if self.vote_views else self.views[:1]

    @property
    def test_views(self) -> tuple[str, ...]:
        """The views that decide a prediction."""
        voting = self.vote_at_test and self.predictor == "adapted"
        return self.views if voting else self.views[:1]

    def clip_logit_scale(self, model_scale: float) -> float:
        """Return the scale s of eq. (1), given the CLIP model's own."""
        return model_scale if isinstance(self.clip_scale, str) else self.clip_scale

    def regularisation(self, *, source: bool = False) -> Regularisation:
        """Return how the source's or the target's scatter is regularised."""
        ridge = self.source_ridge if source else self.ridge
        return Regularisation(ridge, self.ridge_kind == "relative", self.divide_scatter, self.shrinkage)

    def class_weights(self, weight: Vector64) -> Vector64 | None:
        """Return the weights (C,) of the classes in the logits, None for equal ones; an empty class counts one row."""
        return None if self.class_priors == "equal" else np.maximum(weight, 1.0)

    def fusion(self, *, at_test: bool) -> FusionKind:
        """Return how the branches are fused, eq. (14)."""
        if not self.use_clip:
            return "klda"
        return self.fusion_test if at_test else self.fusion_adapt


def _check(name: str, value: Any, annotation: Any, kind: type) -> None:
    """Refuse an unknown choice, a negative number, and a word for a switch.

    YAML 1.2 reads ``off`` and ``no`` as words, and every word is true.
    """
    if get_origin(annotation) is Literal and value not in get_args(annotation):
        raise ParamsError(f"{name}: {value!r} is not a choice{did_you_mean(str(value), get_args(annotation))}")
    expected = {bool: "true or false", int: "a whole number", float: "a number"}.get(kind)
    if expected and type(value) is not kind and (kind, type(value)) != (float, int):
        raise ParamsError(f"{name}: {expected}, not {value!r}")
    if kind in (int, float) and not 0 <= value < math.inf:
        raise ParamsError(f"{name}: a number from 0 on, not {value!r}")


CALIBRATED = MethodOptions()

# Without what neither the paper nor the released code has.
_PLAIN = replace(
    CALIBRATED,
    clip_in_kernel=0.0,
    source_views=False,
    source_covariance=False,
    fusion_test="max_probability",
    align_means=False,
    neighbours=0,
    responsibilities="hard",
    rounds=0,
    vote_views=False,
    vote_at_test=False,
)

# The equations as printed. Where the paper says nothing, the plain reading: CLIP at its own
# temperature, a vanishing ridge because the printed inverse does not exist below D samples.
PAPER = replace(
    _PLAIN,
    prior_count=0.0,
    weight_floor=0.0,
    statistics="printed",
    arithmetic="float64",  # float32 products would drown so small a ridge
    ridge=1e-4,
    source_ridge=1e-4,
)

# What the authors' code computes, docs/method.md's middle column. The unit noise of `rand` is a setting
# of the views, not of the method.
RELEASED = replace(
    _PLAIN,
    statistics="task_centred",
    divide_scatter=False,
    ridge=1e-6,
    source_ridge=1e-6,
    ridge_kind="absolute",
    prior_count=25.0,
    logits="mahalanobis",
    clip_scale=1.0,
    clip_classes_at_test="all",
    fusion_adapt="margin",
    weight_floor=0.2,
)

VARIANTS: dict[str, MethodOptions] = {
    "calibrated": CALIBRATED,
    "paper": PAPER,
    "released": RELEASED,
    "no_clip": replace(CALIBRATED, use_clip=False, clip_in_kernel=0.0),
    "no_augmentation": replace(CALIBRATED, views=("original",)),
    "no_weighting": replace(CALIBRATED, use_weights=False),
    "no_weight_floor": replace(CALIBRATED, weight_floor=0.0),
    "no_alignment": replace(CALIBRATED, align_means=False),
    "no_neighbours": replace(CALIBRATED, neighbours=0),
    "no_votes": replace(CALIBRATED, vote_views=False, vote_at_test=False),
    "no_rounds": replace(CALIBRATED, rounds=0),
    "hard_labels": replace(CALIBRATED, responsibilities="hard"),
    "clip_at_test": replace(CALIBRATED, fusion_test="max_probability"),
    "rejecting": replace(CALIBRATED, reject="joint"),
    "clip_zero_shot": replace(CALIBRATED, predictor="clip"),
    "source_only": replace(CALIBRATED, predictor="source"),
    "nearest_mean": replace(CALIBRATED, predictor="nearest_mean"),
}
