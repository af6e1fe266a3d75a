"""Stage `evaluate@PROBLEM`: score the adapted model. The one stage of the method that reads target labels.

Writes results/SUITE/evaluations/PROBLEM.json (percent, mean and standard deviation over the seeds, with the parameters
they were made with) and results/SUITE/problems/PROBLEM/tables/*.csv for `dvc plots` and the report.
"""

from functools import partial
from typing import Any

import numpy as np

from pipeline import paths
from pipeline.datasets.manifest_files import iterate_images
from pipeline.method.adaptation import Referee
from pipeline.method.evaluation import Scores, pseudo_label_quality, score
from pipeline.method.kernel_rows import kernel_rows
from pipeline.method.label_space_measures import Answers, LabelSpaceScores, scores_after_tasks
from pipeline.method.prediction import predict
from pipeline.method.rejection import rejector
from pipeline.method.rows import RowReduction
from pipeline.method.variants import MethodOptions
from pipeline.params import Params
from pipeline.problem.adapted_model import check_options
from pipeline.problem.domain import LabelledDomain
from pipeline.problem.method_options import method_options
from pipeline.problem.problem import Problem
from pipeline.report.made_with import made_with
from pipeline.report.problem_figures import EvaluatedProblem, kept_weights, label_space_figures, problem_figures
from pipeline.report.problem_tables import TargetImages, problem_tables, write_problem_tables
from pipeline.stage import Context, stage
from pipeline.store.array_store import ArrayStore
from pipeline.store.target_store import labels_at, open_target, read_classifiers, read_pseudo_labels, read_rejections
from pipeline.write_aside import write_json


def settings(params: Params, name: str) -> dict[str, Any]:
    """Return what the figures are shown with, and what decides their tables."""
    problem = params.problems[name]
    sections = {"data", "language", "refinement", "views", "vision"}
    return {
        "made_with": made_with(params.model_dump(mode="json", include=sections)),
        "problem": problem.model_dump(exclude_none=True),
        "private": problem.target in params.data.private,
    }


@stage(
    per=("problems",),
    reads=("data", "language", "method", "problems", "refinement", "rff", "views", "vision"),
    settings=settings,
)
def evaluate(context: Context, name: str) -> str:
    """Write results/SUITE/evaluations/PROBLEM.json and results/SUITE/problems/PROBLEM/tables."""
    params = context.params
    options = method_options(params.method.variant, params.method.options)
    views = options.test_views
    model = open_target(paths.target_model(name))
    with context.executor(params.problems[name].target) as executor:
        problem = context.project.problem(name, lazy=executor.lazy)
        target = context.project.labelled_target(name, lazy=executor.lazy)
        problem.check_backbones()
        problem.bases.require_model(model)
        check_options(model, options)
        scores = executor.for_each_seed(
            partial(score_seed, problem=problem, target=target, model=model, options=options, views=views),
            len(target.seeds),
            images=int(target.tasks.test.sum(axis=0).max()),
            views=len(views),
            D=problem.D,
        )
    made = made_with(params.selected()) | problem.bases.recipe.asked()
    evaluated = evaluated_problem(target, model, scores)
    private = target.name in params.data.private
    images = None if private else TargetImages(target.vision_rows("original"), partial(paths_of, target))
    write_problem_tables(paths.problem_tables(context.suite, name), problem_tables(evaluated, images, made))
    figures = {**problem_figures(evaluated), "made_with": made}
    if options.reject != "none" or params.problems[name].label_space is not None:
        figures["label_space"] = label_space_figures(
            [
                label_space_seed(index, problem=problem, target=target, model=model, options=options)
                for index in range(len(target.seeds))
            ]
        )
    write_json(paths.evaluation(context.suite, name), figures)
    return (
        f"A_T {figures['A_T']} ± {figures['A_T_sd']}, source only {figures['source_only_A_T']}, "
        f"of {figures['test_images']} test images per seed"
    )


def score_seed(
    index: int,
    reduce_rows: RowReduction,
    *,
    problem: Problem,
    target: LabelledDomain,
    model: ArrayStore,
    options: MethodOptions,
    views: tuple[str, ...],
) -> Scores:
    """Return one seed's scores on its test images after every task."""
    test = target.test_index(target.seeds[index])
    return score(
        Referee(problem.bases.basis(index), options, target.prompts.logit_scale, reduce_rows),
        target.rows(test, views),
        target.labels[test],
        target.tasks.task[test],
        list(problem.source_models(index)),
        read_classifiers(model, index),
    )


def label_space_seed(
    index: int, *, problem: Problem, target: LabelledDomain, model: ArrayStore, options: MethodOptions
) -> list[LabelSpaceScores]:
    """Return the scores of a seed after each task, on the test images so far, those of unknown classes too."""
    test = target.test_index(target.seeds[index], unknown=True)
    rows, basis = target.rows(test, options.test_views), problem.bases.basis(index)
    features = kernel_rows(basis, rows, options.clip_in_kernel)
    states, directions = read_rejections(model, index), problem.class_directions(index)
    answers = []
    models = zip(problem.source_models(index), read_classifiers(model, index), strict=True)
    for k, (source, classifier) in enumerate(models):
        prediction = predict(features, rows.cosines, source, classifier, options, target.prompts.logit_scale)
        u, rejected = 1 - prediction.fused.max(axis=1), np.zeros(len(test), dtype=np.bool_)
        if states is not None:
            judge = rejector(states[k], directions)
            u = judge.unknownness(rows)
            rejected = u > judge.threshold
        answers.append(Answers(prediction.label, rejected, u))
    return scores_after_tasks(target.labels[test], target.tasks.task[test], answers)


def evaluated_problem(target: LabelledDomain, model: ArrayStore, scores: list[Scores]) -> EvaluatedProblem:
    """Return the scores of all seeds with the final pseudo-labels and the labels to compare them with."""
    rows, truth = target.vision.rows, target.labels
    labels = [read_pseudo_labels(model, index, rows) for index in range(len(target.seeds))]
    quality = [
        [
            pseudo_label_quality(labels_at(labels[index], train, len(classes)), truth[train])
            for task, classes in enumerate(target.class_sets)
            for train in [target.train_index(seed, task)]
        ]
        for index, seed in enumerate(target.seeds)
    ]
    masks = [target.tasks.is_test(seed) for seed in target.seeds]
    weight, right = kept_weights(labels, masks, truth)
    return EvaluatedProblem(
        class_names=target.class_names,
        labels=truth,
        seeds=list(target.seeds),
        test_rows=[target.test_index(seed) for seed in target.seeds],
        scores=scores,
        quality=np.array(quality),
        weight=weight,
        right=right,
    )


def paths_of(target: LabelledDomain, rows: set[int]) -> dict[int, tuple[str, str]]:
    """Return path and sha256 of some rows of the manifest."""
    images = enumerate(iterate_images(target.manifest))
    return {row: (image.path, image.sha256) for row, image in images if row in rows}
