"""The method's options, and the named sets of them: what the columns of docs/method.md say, as data.

`calibrated` is the default. `paper` is the equations as printed, `released` what the authors' code
computes; both are kept so that a published number can be traced. Ablations and reference rows are
variants too. A user may override any single option: ``replace(variant("paper"), ridge=0.1)``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Literal

from pipeline.errors import ParamsError, did_you_mean
from pipeline.method.fusion import FUSION_KINDS, FusionKind
from pipeline.method.kernel_lda import SHRINKAGES, Route, Shrinkage

Predictor = Literal["adapted", "source", "clip", "nearest_mean"]
Statistics = Literal["exact", "printed", "batch_centred"]
Arithmetic = Literal["float32", "float64"]
Logits = Literal["lda", "mahalanobis"]
ClassScope = Literal["seen", "all"]

CHOICES: dict[str, tuple[object, ...]] = {
    "predictor": ("adapted", "source", "clip", "nearest_mean"),
    "statistics": ("exact", "printed", "batch_centred"),
    "arithmetic": ("float32", "float64"),
    "class_priors": ("equal", "counted"),
    "ridge_kind": ("relative", "absolute"),
    "inverse": ("cholesky", "pinverse"),
    "logits": ("lda", "mahalanobis"),
    "fusion_adapt": FUSION_KINDS,
    "fusion_test": FUSION_KINDS,
    "clip_classes_at_test": ("seen", "all"),
}


@dataclass(frozen=True)
class MethodOptions:
    """Every choice the method leaves open; the defaults are `calibrated`.

    predictor: what answers at test: the adapted target model fused with CLIP; the source model
        alone; CLIP alone; the nearest source class mean on unit embeddings.
    views: of each target image that enter the statistics, ``original`` first.
    source_views: the source statistics take the same views; otherwise the original alone.
    statistics: ``exact``: sums that add, docs/method.md's last column; ``printed``: eqs. (16), (17) as
        they stand; ``batch_centred``: the released code's, each batch about the mean so far.
    arithmetic: of the exact statistics: ``float32`` products with float64 sums, or ``float64`` throughout, which
        any batching leaves unchanged to 1e-9.
    divide_scatter: scatter / Σω, a covariance; or the raw scatter, whose confidence grows with N.
    batch_images: images (with all their views) per batch; only ``batch_centred`` depends on it.
    ridge, ridge_kind: added to the diagonal: relative is λ·tr A/D, absolute is λ. A task's relative ridge is set by
        its first labels and stays in its rounds.
    source_ridge: the same for the source model.
    shrinkage: None, a number, ``oas`` or ``ledoit_wolf``, before the ridge; ``exact`` only.
    inverse: ``cholesky``, or the released code's ``pinverse``.
    source_covariance: pool the source's within-class scatter with the target's, each by its Σω.
    prior_count: source means enter the target's as so many samples.
    class_priors: ``equal``, or ``counted``: log of each class's share of the weight is added to its logit.
    logits: eqs. (11)–(13), or the released code's −(μ−z)ᵀS⁻¹(μ−z).
    temperature: divides the KLDA logits.
    use_clip: without it both fusions are the KLDA branch alone.
    clip_in_kernel: λ of CLIP's image embedding beside the vision model's in the kernel, see `joint_rows`; 0: none.
    clip_scale: ``model``: its own learned logit scale; or a number.
    clip_classes_at_test: softmax of the CLIP branch over the classes seen, or over all and sliced.
    fusion_adapt, fusion_test: see `pipeline.method.fusion`.
    threshold: a pseudo-label is kept if max p̂ reaches it.
    use_weights, weight_floor: eq. (18), or 1 for every sample; the least weight.
    rounds: how often a task is labelled again by its own new statistics, fused with CLIP.
    vote_views, vote_at_test: average the KLDA branch over the views to label, or to predict.
    """

    predictor: Predictor = "adapted"
    views: tuple[str, ...] = ("original", "zeros", "rand")
    source_views: bool = True
    statistics: Statistics = "exact"
    arithmetic: Arithmetic = "float32"
    divide_scatter: bool = True
    batch_images: int = 64
    ridge: float = 0.3
    ridge_kind: Literal["relative", "absolute"] = "relative"
    source_ridge: float = 0.1
    shrinkage: Shrinkage = None
    inverse: Route = "cholesky"
    source_covariance: bool = True
    prior_count: float = 5.0
    class_priors: Literal["equal", "counted"] = "equal"
    logits: Logits = "lda"
    temperature: float = 1.0
    use_clip: bool = True
    clip_in_kernel: float = 0.5
    clip_scale: Literal["model"] | float = "model"
    clip_classes_at_test: ClassScope = "seen"
    fusion_adapt: FusionKind = "max_probability"
    fusion_test: FusionKind = "max_probability"
    threshold: float = 0.0
    use_weights: bool = True
    weight_floor: float = 0.0
    rounds: int = 3
    vote_views: bool = False
    vote_at_test: bool = False

    def __post_init__(self) -> None:
        """Refuse what cannot be computed, naming the option."""
        for name, valid in CHOICES.items():
            value = getattr(self, name)
            if value not in valid:
                hint = did_you_mean(str(value), map(str, valid))
                raise ParamsError(f"{name}: {value!r} is not a choice{hint}")
        self._check_types()
        if not self.views or self.views[0] != "original":
            raise ParamsError(f"views: 'original' must come first, not {self.views!r}")
        self._check_numbers()
        if isinstance(self.shrinkage, str) and self.shrinkage not in SHRINKAGES:
            hint = did_you_mean(self.shrinkage, SHRINKAGES)
            raise ParamsError(f"shrinkage: no estimate {self.shrinkage!r}{hint}")
        if self.shrinkage is not None and self.statistics != "exact":
            raise ParamsError("shrinkage: needs statistics: exact")
        if isinstance(self.clip_scale, str) and self.clip_scale != "model":
            raise ParamsError(f"clip_scale: 'model' or a number, not {self.clip_scale!r}")

    def _check_types(self) -> None:
        """Refuse a word for a switch: YAML 1.2 reads ``off`` and ``no`` as words, and every word is true."""
        for field in fields(self):
            value, kind = getattr(self, field.name), type(field.default)
            if kind is bool and type(value) is not bool:
                raise ParamsError(f"{field.name}: true or false, not {value!r}")
            if kind is int and type(value) is not int:
                raise ParamsError(f"{field.name}: a whole number, not {value!r}")
            if kind is float and type(value) not in (int, float):
                raise ParamsError(f"{field.name}: a number, not {value!r}")

    def _check_numbers(self) -> None:
        from_zero = (
            "ridge",
            "source_ridge",
            "prior_count",
            "threshold",
            "rounds",
            "clip_in_kernel",
        )
        for name in from_zero:
            if not 0 <= getattr(self, name) < math.inf:
                raise ParamsError(f"{name}: a number from 0 on, not {getattr(self, name)!r}")
        if not 0 <= self.weight_floor <= 1:
            raise ParamsError(f"weight_floor: a number from 0 to 1, not {self.weight_floor!r}")
        for name in ("temperature", "batch_images", "clip_scale"):
            value = getattr(self, name)
            if not isinstance(value, str) and not 0 < value < math.inf:
                raise ParamsError(f"{name}: a number above 0, not {value!r}")

    @property
    def views_of_source(self) -> tuple[str, ...]:
        """The views that the source statistics take."""
        return self.views if self.source_views else ("original",)

    def clip_logit_scale(self, of_model: float) -> float:
        """Return the scale s of eq. (1), given the model's own."""
        return of_model if isinstance(self.clip_scale, str) else self.clip_scale

    def fusion(self, *, at_test: bool) -> FusionKind:
        """Return how the branches are fused, eq. (14)."""
        if not self.use_clip:
            return "klda"
        return self.fusion_test if at_test else self.fusion_adapt


CALIBRATED = MethodOptions()

# The equations as printed. Where the paper says nothing, the plain reading: CLIP at its own
# temperature, a vanishing ridge because the printed inverse does not exist below D samples.
PAPER = MethodOptions(
    prior_count=0.0,
    clip_in_kernel=0.0,
    source_views=False,
    source_covariance=False,
    statistics="printed",
    arithmetic="float64",  # float32 products would drown so small a ridge
    ridge=1e-4,
    source_ridge=1e-4,
    rounds=0,
)

# What the authors' code computes, docs/method.md's middle column. The unit noise of `rand` is a setting
# of the views, not of the method. Their pinverse of scatter + 1e-6 I, a positive definite matrix,
# is its inverse: Cholesky gives the same probabilities (a test holds both to the oracle), sooner.
RELEASED = MethodOptions(
    clip_in_kernel=0.0,
    source_views=False,
    source_covariance=False,
    statistics="batch_centred",
    divide_scatter=False,
    ridge=1e-6,
    source_ridge=1e-6,
    ridge_kind="absolute",
    prior_count=25.0,
    logits="mahalanobis",
    clip_scale=1.0,
    clip_classes_at_test="all",
    fusion_adapt="margin",
    fusion_test="max_probability",
    weight_floor=0.2,
    rounds=0,
)

VARIANTS: dict[str, MethodOptions] = {
    "calibrated": CALIBRATED,
    "paper": PAPER,
    "released": RELEASED,
    "no_clip": replace(CALIBRATED, use_clip=False, clip_in_kernel=0.0),
    "no_augmentation": replace(CALIBRATED, views=("original",)),
    "no_weighting": replace(CALIBRATED, use_weights=False),
    "clip_zero_shot": replace(CALIBRATED, predictor="clip"),
    "source_only": replace(CALIBRATED, predictor="source"),
    "nearest_mean": replace(CALIBRATED, predictor="nearest_mean"),
}


def variant(name: str) -> MethodOptions:
    """Return the options of a named variant."""
    if name not in VARIANTS:
        raise ParamsError(f"variant: no {name!r}{did_you_mean(name, VARIANTS)}")
    return VARIANTS[name]
