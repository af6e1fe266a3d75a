"""Stage `select@PROBLEM`: which value of D, sigma or an option to take, chosen without a label of the target.

Every value of the section `select` is tried with the other settings as they are. Target labels are read afterwards, to
say how good the choice was. Writes results/SUITE/problems/PROBLEM/selection/values.csv (A_T and every label-free score
of each value, means over the seeds) and choices.csv (what each score chooses, its regret and its rank correlation).
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pipeline import paths
from pipeline.comparison.referee_variants import adapted_classifiers, predict_test
from pipeline.comparison.selection import SCORES, choices, label_free_scores
from pipeline.errors import ParamsError
from pipeline.extraction.executor import seeds_here
from pipeline.method.continual_metrics import final_accuracy
from pipeline.method.variants import MethodOptions
from pipeline.problem.bases import basis_recipe
from pipeline.problem.method_options import method_options
from pipeline.problem.problem import LabelledProblem
from pipeline.report.figures import percent
from pipeline.report.made_with import made_with
from pipeline.stage import Context, stage
from pipeline.store.basis_file import BasisRecipe
from pipeline.write_aside import write_aside, write_json

Result = tuple[float, dict[str, float]]  # A_T, and the label-free scores


@stage(
    per=("swept",),
    reads=("language", "method", "problems", "rff", "select", "swept", "vision"),
)
def select(context: Context, name: str) -> str:
    """Write results/SUITE/problems/PROBLEM/selection."""
    params = context.params
    options = method_options(params.method.variant, params.method.options)
    if options.predictor != "adapted":
        raise ParamsError(f"params.yaml: method.variant: {params.method.variant!r} does not adapt")
    problem = context.project.labelled_problem(name)
    settings = list(candidates(problem, params, options))

    def run_seed(index: int) -> list[Result]:
        return [run(problem, index, recipe, chosen) for _, _, recipe, chosen in settings]

    widest = max((recipe.D for _, _, recipe, _ in settings), default=1)
    seeds = seeds_here(
        run_seed, len(problem.target.seeds), D=widest, workers=params.runtime.workers
    )
    means = [mean_result([seed[k] for seed in seeds]) for k in range(len(settings))]
    with write_aside(paths.selection(context.suite, name)) as aside:
        aside.mkdir()
        write_json(aside / "made_with.json", made_with(params.selected()))
        write_values(aside / "values.csv", settings, means)
        return write_choices(aside / "choices.csv", settings, means)


Candidate = tuple[str, object, BasisRecipe, MethodOptions]


def candidates(
    problem: LabelledProblem, params: Any, options: MethodOptions
) -> Iterator[Candidate]:
    """Yield setting, value, bases and options of every value of the section `select`."""
    rff = params.rff.model_dump()
    for key in ("D", "sigma"):
        for value in getattr(params.select, key):
            yield key, value, basis_recipe(problem.source, **{**rff, key: value}), options
    recipe = basis_recipe(problem.source, **rff)
    for option, values in params.select.options.items():
        for value in values:
            given = {**params.method.options, option: value}
            yield option, value, recipe, method_options(params.method.variant, given)


def run(
    problem: LabelledProblem, index: int, recipe: BasisRecipe, options: MethodOptions
) -> Result:
    """Adapt to one seed; return A_T and the label-free scores of the last classifier."""
    seed = problem.seed(index, recipe.draw(index))
    classifiers = adapted_classifiers(seed, options)
    last = classifiers[-1]
    assert last is not None  # noqa: S101  the stage refuses variants that do not adapt
    predictions = predict_test(seed, options, classifiers)
    accuracy = final_accuracy(problem.accuracies(index, predictions))
    return accuracy, label_free_scores(seed, options, last)


def mean_result(results: Sequence[Result]) -> Result:
    """Return the mean over the seeds."""
    scores = {name: float(np.mean([s[name] for _, s in results])) for name in SCORES}
    return float(np.mean([accuracy for accuracy, _ in results])), scores


def write_values(path: Path, settings: Sequence[Candidate], means: Sequence[Result]) -> None:
    """Write A_T in percent and the scores of every value."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("setting", "value", "A_T", *SCORES))
        for (setting, value, _, _), (accuracy, scores) in zip(settings, means, strict=True):
            written = (f"{scores[name]:.6g}" for name in SCORES)
            writer.writerow((setting, value, percent(accuracy), *written))


def write_choices(path: Path, settings: Sequence[Candidate], means: Sequence[Result]) -> str:
    """Write what each score chooses for each setting, regret in percentage points; return a summary."""
    parts = []
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("setting", "score", "chosen", "best", "regret", "rank_correlation"))
        for setting in dict.fromkeys(setting for setting, *_ in settings):
            tried = {
                value: result
                for (name, value, _, _), result in zip(settings, means, strict=True)
                if name == setting
            }
            accuracy: Mapping[object, float] = {v: a for v, (a, _) in tried.items()}
            for choice in choices(accuracy, {v: scores for v, (_, scores) in tried.items()}):
                regret, rank = percent(choice.regret), f"{choice.rank_correlation:.2f}"
                row = (setting, choice.score, choice.chosen, choice.best, regret, rank)
                writer.writerow(row)
            parts.append(f"{len(tried)} values of {setting}")
    return ", ".join(parts) or "params.yaml lists no values under `select`"
