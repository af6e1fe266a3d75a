"""The method's options and its named variants: the tables of docs/method.md as data.

`calibrated` is the default. `paper` is the equations as printed and `released` the computation of the authors' code;
both are kept so that published numbers can be traced. Ablations and reference rows are variants too. Any single option
can be overridden: ``replace(VARIANTS["paper"], ridge=0.1)``.
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
    """Options of the method; the defaults are those of `calibrated`."""

    # what predicts at test: the adapted target model, fused with CLIP according to `fusion_test`; the source model
    # alone; CLIP alone; the nearest source class mean on unit embeddings
    predictor: Predictor = "adapted"
    # views of each target image that enter the statistics, ``original`` first
    views: tuple[str, ...] = ("original", "zeros", "rand")
    # use the same views for the source statistics; otherwise the original view only
    source_views: bool = True
    # exact: additive sums; printed: eqs. (16), (17) as printed; task_centred: as in the released code
    statistics: Literal["exact", "printed", "task_centred"] = "exact"
    # for the exact statistics: float32 products with float64 sums, or float64 throughout
    arithmetic: Arithmetic = "float32"
    # use scatter / Σω, a covariance; with the raw scatter, confidence grows with N
    divide_scatter: bool = True
    # added to the diagonal: λ·tr A/D (computed from a task's first labels, kept in all rounds) or λ
    ridge: float = 0.3
    ridge_kind: Literal["relative", "absolute"] = "relative"
    source_ridge: float = 0.1  # ridge of the source model
    # a number, oas or ledoit_wolf; applied before the ridge; exact statistics only
    shrinkage: Shrinkage = None
    # pool the within-class scatters of source and target, each weighted by its Σω
    source_covariance: bool = True
    prior_count: float = 5.0  # number of target rows that each source mean counts as
    # ``counted`` adds the log of each class's share of the total weight to its logit
    class_priors: Literal["equal", "counted"] = "equal"
    # eqs. (11)–(13), or the released code's −(μ−z)ᵀS⁻¹(μ−z)
    logits: Literal["lda", "mahalanobis"] = "lda"
    use_clip: bool = True  # if false, both fusions use the KLDA branch alone
    # weight λ of CLIP's image embedding in the kernel, see `kernel_rows`; 0 to leave it out
    clip_in_kernel: float = 0.5
    # logit scale s of eq. (1): the CLIP model's own, or a number
    clip_scale: Literal["model"] | float = "model"
    # softmax of the CLIP branch over the classes seen, or over all classes and then cut to those seen
    clip_classes_at_test: Literal["seen", "all"] = "seen"
    fusion_adapt: FusionKind = "max_probability"  # see `fusion.fusion_weight`
    fusion_test: FusionKind = "klda"
    threshold: float = 0.0  # a pseudo-label is kept if max p̂ reaches this value
    use_weights: bool = True  # weight samples by eq. (18); otherwise every weight is 1
    # minimum weight: the most uncertain images often belong to the class that the shift has hit hardest
    weight_floor: float = 0.3
    # subtract the task's shift before the first labels, see `fusion`; needs CLIP
    align_means: bool = True
    # number of nearest images whose mean p̂ makes up half of an image's p̂, see `fusion`; 0 to turn this off
    neighbours: int = 5
    # soft: an image enters every class of its task with weight ω p̂; hard: only the class of its label
    responsibilities: Literal["soft", "hard"] = "soft"
    rounds: int = 3  # number of times a task is relabelled by its own new classifier, fused with CLIP
    vote_views: bool = True  # average the KLDA branch over the views when labelling
    vote_at_test: bool = True  # the same when predicting
    # joint: keep images of unknown classes out of the statistics and predict `unknown` for them, see `rejection`
    reject: Literal["none", "joint"] = "none"

    def __post_init__(self) -> None:
        """Raise ParamsError, naming the option, if the options are invalid or contradict each other."""
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
        is_text = isinstance(self.clip_scale, str)
        if self.clip_scale != "model" and (is_text or not 0 < float(self.clip_scale) < math.inf):
            raise ParamsError(f"clip_scale: 'model' or a number above 0, not {self.clip_scale!r}")

    @property
    def views_of_source(self) -> tuple[str, ...]:
        """Views that enter the source statistics."""
        return self.views if self.source_views else ("original",)

    @property
    def label_views(self) -> tuple[str, ...]:
        """Views that vote on the pseudo-labels."""
        return self.views if self.vote_views else self.views[:1]

    @property
    def test_views(self) -> tuple[str, ...]:
        """Views that vote on a prediction."""
        voting = self.vote_at_test and self.predictor == "adapted"
        return self.views if voting else self.views[:1]

    def clip_logit_scale(self, model_scale: float) -> float:
        """Return the logit scale s of eq. (1), given the CLIP model's own scale."""
        return model_scale if isinstance(self.clip_scale, str) else self.clip_scale

    def regularisation(self, *, source: bool = False) -> Regularisation:
        """Return the regularisation of the source's or the target's scatter."""
        ridge = self.source_ridge if source else self.ridge
        return Regularisation(ridge, self.ridge_kind == "relative", self.divide_scatter, self.shrinkage)

    def class_weights(self, weight: Vector64) -> Vector64 | None:
        """Return the class weights (C,) for the logits, or None if equal; an empty class counts as one row."""
        return None if self.class_priors == "equal" else np.maximum(weight, 1.0)

    def fusion(self, *, at_test: bool) -> FusionKind:
        """Return the kind of fusion, eq. (14), when adapting or at test."""
        if not self.use_clip:
            return "klda"
        return self.fusion_test if at_test else self.fusion_adapt


def _check(name: str, value: Any, annotation: Any, kind: type) -> None:
    """Raise ParamsError for an unknown choice, a value of the wrong type or a negative number.

    YAML 1.2 reads ``off`` and ``no`` as strings, which would be true.
    """
    if get_origin(annotation) is Literal and value not in get_args(annotation):
        raise ParamsError(f"{name}: {value!r} is not a choice{did_you_mean(str(value), get_args(annotation))}")
    expected = {bool: "true or false", int: "a whole number", float: "a number"}.get(kind)
    if expected and type(value) is not kind and (kind, type(value)) != (float, int):
        raise ParamsError(f"{name}: {expected}, not {value!r}")
    if kind in (int, float) and not 0 <= value < math.inf:
        raise ParamsError(f"{name}: a number from 0 on, not {value!r}")


CALIBRATED = MethodOptions()

# `calibrated` without the options that neither the paper nor the released code has.
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

# The equations as printed. Where the paper is silent: CLIP's own temperature, and a tiny ridge because the printed
# inverse does not exist with fewer than D samples.
PAPER = replace(
    _PLAIN,
    prior_count=0.0,
    weight_floor=0.0,
    statistics="printed",
    arithmetic="float64",  # with float32 products, rounding would exceed this ridge
    ridge=1e-4,
    source_ridge=1e-4,
)

# The computation of the authors' code: the column "released code" in docs/method.md. The unit noise of `rand` is a
# setting of the views, not of the method.
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
