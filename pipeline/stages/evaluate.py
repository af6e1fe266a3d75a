"""Stage `evaluate@PROBLEM`: score the adapted model on the target's test images.

Reads target labels, unlike `source` and `adapt`. Writes results/SUITE/evaluations/PROBLEM.json (percent, mean and
standard deviation over the seeds, and the parameters used) and results/SUITE/problems/PROBLEM/tables/*.csv for
`dvc plots` and the report.
"""

from typing import Any

from pipeline import paths
from pipeline.config.params import Params
from pipeline.problem.evaluation import Evaluation
from pipeline.problem.method_options import method_options
from pipeline.report.made_with import made_with
from pipeline.report.problem_figures import label_space_figures
from pipeline.report.problem_tables import (
    EvaluatedProblem,
    TargetImages,
    kept_weights,
    problem_figures,
    problem_tables,
    write_problem_tables,
)
from pipeline.stage import Context, figure_settings, stage
from pipeline.store.target_store import open_target
from pipeline.write_aside import write_json


def settings(params: Params, name: str) -> dict[str, Any]:
    """Return the settings that are shown with the figures, and whether the target is private."""
    private = params.problems[name].target in params.data.private
    return {**figure_settings(params, name, "refinement"), "private": private}


@stage(
    per=("problems",),
    reads=("data", "language", "method", "problems", "refinement", "rff", "views", "vision"),
    settings=settings,
)
def evaluate(context: Context, name: str) -> str:
    """Write results/SUITE/evaluations/PROBLEM.json and results/SUITE/problems/PROBLEM/tables."""
    params = context.params
    options = method_options(params.method.variant, params.method.options)
    with context.executor(params.problems[name].target) as executor:
        problem = context.project.problem(name, lazy=executor.lazy)
        target = context.project.labelled_target(name, lazy=executor.lazy)
        evaluation = Evaluation(problem, target, open_target(paths.target_model(name)), options)
        scores = executor.for_each_seed(
            evaluation.score,
            len(target.seeds),
            images=int(target.tasks.test.sum(axis=0).max()),
            views=len(options.test_views),
            D=problem.bases.recipe.D,
        )
    parameters = made_with(params.selected()) | problem.bases.recipe.parameters()
    is_test = (target.tasks.test_mask(seed) for seed in target.seeds)
    weight, right = kept_weights(evaluation.pseudo_labels(), is_test, target.labels)
    evaluated = EvaluatedProblem(
        class_names=target.class_names,
        labels=target.labels,
        seeds=list(target.seeds),
        test_rows=[target.test_index(seed) for seed in target.seeds],
        scores=scores,
        quality=evaluation.pseudo_label_quality(),
        weight=weight,
        right=right,
    )
    private = target.name in params.data.private
    images = None if private else TargetImages(target.vision_rows("original"), target.images_at)
    write_problem_tables(paths.problem_tables(context.suite, name), problem_tables(evaluated, images, parameters))
    figures = {**problem_figures(evaluated), "made_with": parameters}
    if options.reject != "none" or params.problems[name].label_space is not None:
        by_seed = [evaluation.label_space_scores(seed_index) for seed_index in range(len(target.seeds))]
        figures["label_space"] = label_space_figures(by_seed)
    write_json(paths.evaluation(context.suite, name), figures)
    return (
        f"A_T {figures['A_T']} ± {figures['A_T_sd']}, source only {figures['source_only_A_T']}, "
        f"of {figures['test_images']} test images per seed"
    )
