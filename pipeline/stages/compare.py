"""Stage `compare@PROBLEM`: every method of `compare.methods` on the same cached features, in one process.

Reads the caches of both domains and the target's labels, to score with. Writes
results/SUITE/problems/PROBLEM/comparison.json: the parameters they were made with, the number of test images, one entry
per method, in percent, mean and standard deviation over the seeds, and the covariance of their final accuracies over
the images, from which the error of a difference follows (not which image is right: that would tell labels).

A method that cannot run on a problem (`paper` where a class has too little weight for eq. 17) does not end the stage:
its entry holds the reason instead of figures. The stage fails where no method can run.
"""

import sys
from collections.abc import Sequence
from typing import Any

from pipeline import paths
from pipeline.comparison.compared_method import ComparedMethod
from pipeline.comparison.method_scores import Scored, covariance_of_methods, run_methods
from pipeline.comparison.registry import compared_method
from pipeline.config.params import Params
from pipeline.errors import InputError, counted
from pipeline.report.made_with import made_with
from pipeline.report.problem_figures import accuracy_figures, label_space_figures
from pipeline.stage import Context, figure_settings, stage
from pipeline.store.basis_file import read_bases
from pipeline.write_aside import write_json


def settings(params: Params, name: str) -> dict[str, Any]:
    """Return the methods, and what their figures are shown with."""
    return {"methods": params.compare.methods, **figure_settings(params, name)}


@stage(
    per=("problems",), reads=("compare", "data", "language", "problems", "rff", "views", "vision"), settings=settings
)
def compare(context: Context, name: str) -> str:
    """Write results/SUITE/problems/PROBLEM/comparison.json."""
    params = context.params
    bases = read_bases(paths.bases(params.problems[name].source))
    with context.executor(params.problems[name].target) as executor:
        problem = context.project.labelled_problem(name, lazy=executor.lazy)
        methods = {method: compared_method(method) for method in params.compare.methods}
        methods = {method: one for method, one in methods.items() if one.answers is None or problem.has_unknown}
        scored = run_methods(problem, bases, list(methods), executor.for_each_item)
    seeds = problem.target.seeds
    entries = {method: entry(one, scored[method], seeds) for method, one in methods.items()}
    failed = {method: made["failed"] for method, made in entries.items() if "failed" in made}
    if len(failed) == len(entries):
        reasons = "; ".join(f"{method}: {reason}" for method, reason in failed.items())
        raise InputError(f"compare {name}: no method could run ({reasons})")
    final = {method: made["A_T"] for method, made in entries.items() if method not in failed}
    content = {
        "made_with": made_with(params.selected()) | bases.recipe.asked(),
        "test_images": max(len(problem.target.test_index(seed)) for seed in seeds),
        "methods": entries,
        "image_covariance": covariance_of_methods(problem, scored, final),
    }
    write_json(paths.comparison(context.suite, name), content)
    for method, reason in failed.items():
        sys.stderr.write(f"compare {name}: {method} failed: {reason}\n")
    final = {method: a_t for method, a_t in final.items() if methods[method].group != "ceiling"}
    if not final:
        return "no method, the ceiling alone"
    best = max(final, key=final.__getitem__)
    return f"{counted(len(methods), 'method')}, largest A_T {final[best]} ({best})"


def entry(method: ComparedMethod, outcomes: Sequence[Scored | str], seeds: Sequence[int]) -> dict[str, Any]:
    """Return what is written of a method: its figures over all seeds or, where it failed on one, the first reason."""
    described = {"title": method.title, "group": method.group, "source_samples": method.source_samples}
    scored = [one for one in outcomes if not isinstance(one, str)]
    for seed, outcome in zip(seeds, outcomes, strict=True):
        if isinstance(outcome, str):
            return {**described, "failed": f"seed {seed}: {outcome}"}
    figures = accuracy_figures([one.accuracy for one in scored])
    unknown = [one.unknown for one in scored if one.unknown is not None]
    return {**described, **figures, **({"label_space": label_space_figures(unknown)} if unknown else {})}
