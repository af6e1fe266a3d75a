"""Read and validate the result files of the stages; figures are in percent unless stated otherwise.

Every error names the file and the stage to run again.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import numpy as np
from pydantic import AfterValidator, BaseModel, Field, FiniteFloat, TypeAdapter, ValidationError, model_validator

from pipeline import paths
from pipeline.errors import StoreError
from pipeline.report.made_with import MadeWith

if TYPE_CHECKING:
    from pandas import DataFrame


Content = TypeVar("Content")
Percent = Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]
Reason = Annotated[str, AfterValidator(lambda text: " ".join(text.split()) or "no reason given")]

VALUES = {"of": str, "setting": str, "value": str, "A_T": float}  # columns of values.csv; one per score follows
CHOICES = {
    **dict.fromkeys(("setting", "score", "chosen", "best"), str),
    "regret": float,
    "rank_correlation": str,  # empty if undefined
}
# classifier -> what to do if it only guesses
REMEDIES = {
    "CLIP": "set method.variant: no_clip in params.yaml, write other prompts (templates and class_names in "
    "suite.yaml), or use other weights of the language model",
    "the vision model": "use other weights of the vision model, or check its preprocessing",
    "the source model": "use other weights of the vision model, or check the labels of the source",
}
# group of a method in result files -> its heading in tables
GROUPS = {
    "reference": "references",
    "ablation": "ablations",
    "referee": "REFEREE",
    "peer": "peers",
    "head": "heads",
    "ceiling": "ceiling, not a method",
}


class ProbeFigures(BaseModel):
    """Figures of a domain's features; accuracies are None if the domain has no labels."""

    images: int
    test_images: int  # per seed
    classes: int
    zero_shot: float | None  # fraction of all images
    nearest_mean: float | None  # fraction of the test images, mean over the seeds
    nearest_mean_sd: float | None
    view_cosine: dict[str, float]


class LabelSpaceFigures(BaseModel):
    """How well known and unknown test images are told apart, after the last task and after each task."""

    shared: Percent | None
    unknown: Percent | None
    h_score: Percent | None
    h_score_sd: float | None
    auroc: Percent | None
    per_task: dict[str, tuple[Percent | None, ...]]


class ProblemFigures(BaseModel):
    """Figures of the adapted model on a problem."""

    A_T: FiniteFloat
    A_T_sd: FiniteFloat
    forgetting: FiniteFloat
    source_only_A_T: FiniteFloat
    clip_only_A_T: FiniteFloat
    test_images: int  # per seed
    classes: int
    made_with: dict[str, Any]  # see `pipeline.report.made_with`
    pseudo_label_accuracy: FiniteFloat | None = None  # None: no pseudo-label was kept
    weight_auroc: FiniteFloat | None = None  # None: all are right, or all are wrong
    ece: dict[str, FiniteFloat] = {}
    label_space: LabelSpaceFigures | None = None  # None: closed set, and no image can be rejected


class MethodFigures(BaseModel):
    """Figures of one method on one problem: final accuracy A_T over the seeds, or the reason why it failed."""

    title: str
    group: Literal["reference", "ablation", "referee", "peer", "head", "ceiling"]
    source_samples: bool  # whether it reads source samples while adapting: not source-free
    A_T: Percent = math.nan
    A_T_sd: Percent = math.nan
    A_T_per_seed: tuple[Percent, ...] = ()
    failed: Reason = ""
    label_space: LabelSpaceFigures | None = None  # None: never answers `unknown`

    @model_validator(mode="after")
    def _has_figures_or_failed(self) -> MethodFigures:
        if not self.failed and (math.isnan(self.A_T + self.A_T_sd) or not self.A_T_per_seed):
            raise ValueError("A_T, A_T_sd, A_T_per_seed: one is missing or empty")
        return self


class Comparison(BaseModel):
    """Figures of all methods on one problem."""

    made_with: dict[str, Any]
    test_images: int  # per seed
    methods: dict[str, MethodFigures] = Field(min_length=1)
    image_covariance: dict[str, dict[str, float]] = {}  # covariance of A_T over the images, in percent², by method pair


class StepFigures(BaseModel):
    """Label-free figures of a step of a stream, as returned by `step_figures`."""

    step: str
    steps_before: list[str]
    images: int
    corrected: int
    shares: dict[str, FiniteFloat]
    mean_confidence: FiniteFloat
    agreement: FiniteFloat
    estimated_accuracy: FiniteFloat


class ScoredValue(BaseModel):
    """A value of D or sigma with its A_T (a fraction) and defined label-free scores, as means over the seeds."""

    value: int | float
    accuracy: FiniteFloat
    scores: dict[str, FiniteFloat]


class ScoredValues(BaseModel):
    """The values of D or sigma that `select` chooses from; empty if the variant does not adapt."""

    made_with: dict[str, Any]
    values: list[ScoredValue]


@dataclass(frozen=True, eq=False)
class Sweeps:
    """A_T of one problem over values of settings, and the values that label-free scores choose."""

    accuracy: Mapping[str, DataFrame]  # by setting, `D` and `sigma`: values in ascending order, A_T, sd
    values: DataFrame  # columns `VALUES` and one per score; one row per value of a setting
    choices: DataFrame  # columns `CHOICES`; one row per setting and score; empty if the variant does not adapt
    made_with: Mapping[str, MadeWith]  # parameters of each table, by the name shown to people


def read_probe(suite: str, domain: str) -> ProbeFigures:
    """Read the figures of a domain's features."""
    return read_json(paths.probe(suite, domain), ProbeFigures, f"probe@{domain}")


def read_evaluation(suite: str, problem: str) -> ProblemFigures:
    """Read the figures of the adapted model on a problem."""
    return read_json(paths.evaluation(suite, problem), ProblemFigures, f"evaluate@{problem}")


def read_comparison(suite: str, problem: str) -> Comparison:
    """Read the figures of all methods on a problem."""
    return read_json(paths.comparison(suite, problem), Comparison, f"compare@{problem}")


def read_step(suite: str, step: str) -> StepFigures:
    """Read the figures of a step of a stream."""
    return read_json(paths.step_figures(suite, step), StepFigures, f"step@{step}")


def read_scored_values(suite: str, problem: str, setting: str) -> ScoredValues:
    """Read A_T and the scores of all values of ``setting``, D or sigma, for `select`."""
    path = paths.sensitivity(suite, problem) / f"{setting}.json"
    return read_json(path, ScoredValues, f"sensitivity_{setting}@{problem}")


def read_sweeps(suite: str, problem: str) -> Sweeps:
    """Read the sweeps of a problem."""
    sweeps, selection, stage = paths.sensitivity(suite, problem), paths.selection(suite, problem), f"select@{problem}"
    accuracy, made_with = {}, {}
    for name in ("D", "sigma"):
        columns = {"of": str, name: float, "A_T": float, "sd": float}
        table = read_result_table(sweeps / f"{name}.csv", columns, f"sensitivity_{name}@{problem}")
        accuracy[name] = table.drop(columns="of")
        made_with[f"accuracy over {name} of {problem}"] = read_scored_values(suite, problem, name).made_with
    made_with[f"values chosen of {problem}"] = read_json(selection / "made_with.json", dict[str, Any], stage)
    values = read_result_table(selection / "values.csv", VALUES, stage)
    choices = read_result_table(selection / "choices.csv", CHOICES, stage)
    return Sweeps(accuracy, values, choices, made_with)


def read_json(path: Path, kind: type[Content], stage: str) -> Content:
    """Read a JSON file that the DVC stage ``stage`` writes, validated as a ``kind``."""
    try:
        return TypeAdapter(kind).validate_json(_read_text(path, stage), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        raise _malformed(path, f"{key}: {first['msg']}" if key else first["msg"], stage) from None


def read_result_table(path: Path, columns: Mapping[str, type[Any]], stage: str) -> DataFrame:
    """Read a CSV file that the DVC stage ``stage`` writes.

    It must begin with ``columns``, of the given types; all further columns hold floats. No cell may be missing, and
    every number must be finite.
    """
    import pandas as pd

    header, *lines = list(csv.reader(io.StringIO(_read_text(path, stage)))) or [[]]
    if header[: len(columns)] != list(columns):
        raise _malformed(path, f"its columns do not begin with {','.join(columns)}", stage)
    if any(len(line) != len(header) for line in lines):
        raise _malformed(path, f"a line does not have {len(header)} values", stage)
    try:
        # not pd.read_csv, which reads a class called NA as a missing value
        table = pd.DataFrame(lines, columns=header, dtype=str).astype(dict.fromkeys(header, float) | dict(columns))
    except ValueError as error:
        raise _malformed(path, str(error), stage) from None
    if not np.isfinite(table.select_dtypes("number").to_numpy()).all():
        raise _malformed(path, "a number is not finite", stage)
    return table


def _malformed(path: Path, reason: str, stage: str) -> StoreError:
    """Return the one-line error for a file that is not as ``stage`` writes it."""
    return StoreError(f"{path}: {' '.join(reason.split())}; run dvc repro --force {stage}")


def _read_text(path: Path, stage: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise StoreError(f"{path}: no such file; run dvc repro {stage}, or dvc pull --allow-missing") from None
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(f"{path}: cannot be read ({error}); run dvc repro {stage}") from None


def at_chance(accuracy: float, classes: int, images: int) -> bool:
    """Tell whether an accuracy in percent is at most three standard errors above guessing one of the classes.

    Examples
    --------
    >>> at_chance(9.6, classes=10, images=1000), at_chance(30.0, classes=10, images=1000)
    (True, False)
    """
    chance = 1 / classes
    return accuracy / 100 <= chance + 3 * math.sqrt(chance * (1 - chance) / max(images, 1))


def guess_warnings(figures: ProbeFigures | ProblemFigures, name: str) -> list[str]:
    """Return a warning for each classifier that does not adapt and is no better than guessing, with the remedy.

    ``name`` is that of the domain or problem.
    """
    n, test = figures.classes, figures.test_images
    if isinstance(figures, ProbeFigures):
        by_clip, by_vision = (fraction and 100 * fraction for fraction in (figures.zero_shot, figures.nearest_mean))
        classifiers = {"CLIP": (by_clip, figures.images), "the vision model": (by_vision, test)}
    else:
        classifiers = {"CLIP": (figures.clip_only_A_T, test), "the source model": (figures.source_only_A_T, test)}
    return [
        f"{classifier} guesses on {name}: {accuracy:.1f}% of {images} images right, where guessing one of {n} classes "
        f"gives {100 / n:.1f}%; {REMEDIES[classifier]}"
        for classifier, (accuracy, images) in classifiers.items()
        if accuracy is not None
        and at_chance(accuracy, n, images)
        and not at_chance(100, n, images)  # with so few images, no accuracy differs from guessing
    ]
