"""What `compare` and `sensitivity` measured on a problem: accuracies in percent."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from pipeline.report.result_file import malformed, read_json, read_table

if TYPE_CHECKING:
    from pandas import DataFrame

Percent = Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]
Reason = Annotated[str, AfterValidator(lambda text: " ".join(text.split()) or "no reason given")]
Sweep = Mapping[float, tuple[float, float]]  # value of the parameter -> (A_T, sd)

SWEPT = ("D", "sigma")
VALUES = {"of": str, "setting": str, "value": str, "A_T": float}  # then a column per score
CHOICES = {
    **dict.fromkeys(("setting", "score", "chosen", "best"), str),
    "regret": float,
    "rank_correlation": str,  # empty where it is not defined
}

# group of a method in results files: its heading in tables
GROUPS = {
    "reference": "references",
    "ablation": "ablations",
    "referee": "REFEREE",
    "peer": "peers",
    "head": "heads",
    "ceiling": "ceiling, not a method",
}


@dataclass(frozen=True, eq=False)
class Selection:
    """What label-free scores choose on one problem."""

    values: DataFrame  # columns `VALUES` and one per score; a row per value of a setting
    choices: DataFrame  # columns `CHOICES`; a row per setting and score; empty if the variant does not adapt
    made_with: Mapping[str, Any]


class LabelSpaceFigures(BaseModel):
    """How well known and unknown test images are told apart, in percent: after the last task, and after each."""

    model_config = ConfigDict(frozen=True)

    shared: Percent | None
    unknown: Percent | None
    h_score: Percent | None
    h_score_sd: float | None
    auroc: Percent | None
    per_task: dict[str, tuple[Percent | None, ...]]


class MethodFigures(BaseModel):
    """One method on one problem, as `compare` writes it: final accuracy A_T over the seeds, or why it failed."""

    model_config = ConfigDict(frozen=True)

    title: str
    group: Literal["reference", "ablation", "referee", "peer", "head", "ceiling"]
    source_samples: bool  # read while adapting: not source-free
    A_T: Percent = math.nan
    A_T_sd: Percent = math.nan
    A_T_per_seed: tuple[Percent, ...] = ()
    failed: Reason = ""
    label_space: LabelSpaceFigures | None = None  # of methods that may answer `unknown`

    @model_validator(mode="after")
    def _has_figures_or_failed(self) -> MethodFigures:
        if not self.failed and (math.isnan(self.A_T + self.A_T_sd) or not self.A_T_per_seed):
            raise ValueError("A_T, A_T_sd, A_T_per_seed: one is missing or empty")
        return self


class Comparison(BaseModel):
    """All methods on one problem, as `compare` writes them."""

    model_config = ConfigDict(frozen=True)

    made_with: dict[str, Any]  # see `pipeline.report.made_with`
    test_images: int  # per seed
    methods: dict[str, MethodFigures]
    image_covariance: dict[str, dict[str, float]] = {}  # of A_T in percent, of the methods that ran


def read_comparison(path: Path, stage: str) -> Comparison:
    """Read the methods of one problem from the JSON file that the DVC stage ``stage`` wrote."""
    compared = read_json(path, Comparison, stage)
    if not compared.methods:
        raise malformed(path, "no methods in it", stage)
    return compared


def read_sweeps(folder: Path, stage: str) -> tuple[dict[str, Sweep], dict[str, Any]]:
    """Read A_T over the values of ``D`` and ``sigma`` on one problem, and what it was made with.

    ``folder`` is the one that `sensitivity` wrote.
    """
    sweeps = {name: _read_sweep(folder / f"{name}.csv", name, stage) for name in SWEPT}
    return sweeps, read_json(folder / "made_with.json", dict[str, Any], stage)


def read_selection(folder: Path, stage: str) -> Selection:
    """Read what label-free scores choose on one problem; ``folder`` is the one that `sensitivity` wrote."""
    return Selection(
        read_table(folder / "values.csv", VALUES, stage),
        read_table(folder / "choices.csv", CHOICES, stage),
        read_json(folder / "made_with.json", dict[str, Any], stage),
    )


def _read_sweep(path: Path, name: str, stage: str) -> Sweep:
    """Return the sweep of one parameter, by ascending value."""
    columns = {"of": str, name: float, "A_T": float, "sd": float}
    table = read_table(path, columns, stage).drop(columns="of").sort_values(name)
    accuracies = table[["A_T", "sd"]].to_numpy()
    if table.empty or (table[name] <= 0).any() or table[name].duplicated().any():
        raise malformed(path, f"the values of {name} must be above 0 and differ", stage)
    if (accuracies < 0).any() or (accuracies > 100).any():
        raise malformed(path, "an accuracy is not from 0 to 100", stage)
    return {value: (mean, sd) for value, mean, sd in table.to_numpy().tolist()}
