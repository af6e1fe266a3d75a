"""Stage `compare@PROBLEM`: run every method of `compare.methods` on the same cached features, in one process.

Reads the caches of both domains, and the target's labels for scoring. Writes
results/SUITE/problems/PROBLEM/comparison.json: the parameters, the number of test images, an entry per method (percent,
mean and standard deviation over the seeds), and the covariance over the images of the methods' final accuracies. The
covariance gives the error of a difference; which images are right is not written, because that would reveal labels.

If a method cannot run on a problem (`paper` if a class has too little weight for eq. 17), its entry gives the reason
instead of figures. The stage fails only if no method can run.
"""

import sys
from collections.abc import Sequence
from typing import Any

from pipeline import paths
from pipeline.comparison.compared_method import ComparedMethod
from pipeline.comparison.method_scores import MethodScores, covariance_of_methods, run_methods
from pipeline.comparison.registry import compared_method
from pipeline.config.params import Params
from pipeline.errors import InputError, counted
from pipeline.report.made_with import made_with
from pipeline.report.problem_figures import accuracy_figures, label_space_figures
from pipeline.stage import Context, figure_settings, stage
from pipeline.store.basis_file import read_bases
from pipeline.write_aside import write_json


def settings(params: Params, name: str) -> dict[str, Any]:
    """Return the methods, and the settings that are shown with their figures."""
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
        methods = {key: compared_method(key) for key in params.compare.methods}
        methods = {key: method for key, method in methods.items() if method.answers is None or problem.has_unknown}
        outcomes = run_methods(problem, bases, list(methods), executor.for_each_item)
    seeds = problem.target.seeds
    entries = {key: method_entry(method, outcomes[key], seeds) for key, method in methods.items()}
    failed = {key: entry["failed"] for key, entry in entries.items() if "failed" in entry}
    if len(failed) == len(entries):
        reasons = "; ".join(f"{key}: {reason}" for key, reason in failed.items())
        raise InputError(f"compare {name}: no method could run ({reasons})")
    final = {key: entry["A_T"] for key, entry in entries.items() if key not in failed}
    content = {
        "made_with": made_with(params.selected()) | bases.recipe.parameters(),
        "test_images": max(len(problem.target.test_index(seed)) for seed in seeds),
        "methods": entries,
        "image_covariance": covariance_of_methods(problem, outcomes, final),
    }
    write_json(paths.comparison(context.suite, name), content)
    for key, reason in failed.items():
        sys.stderr.write(f"compare {name}: {key} failed: {reason}\n")
    final = {key: a_t for key, a_t in final.items() if methods[key].group != "ceiling"}
    if not final:
        return "no method, only the ceiling"
    best = max(final, key=final.__getitem__)
    return f"{counted(len(methods), 'method')}, largest A_T {final[best]} ({best})"


def method_entry(
    method: ComparedMethod, outcomes: Sequence[MethodScores | str], seeds: Sequence[int]
) -> dict[str, Any]:
    """Return the entry of a method in comparison.json: figures over all seeds, or the reason of its first failure."""
    description = {"title": method.title, "group": method.group, "source_samples": method.source_samples}
    scores = [outcome for outcome in outcomes if not isinstance(outcome, str)]
    for seed, outcome in zip(seeds, outcomes, strict=True):
        if isinstance(outcome, str):
            return {**description, "failed": f"seed {seed}: {outcome}"}
    figures = accuracy_figures([outcome.accuracy for outcome in scores])
    unknown = [outcome.unknown for outcome in scores if outcome.unknown is not None]
    return {**description, **figures, **({"label_space": label_space_figures(unknown)} if unknown else {})}
