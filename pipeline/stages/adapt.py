"""Stage `adapt@PROBLEM`: add the target's tasks to its statistics one after another (docs/method.md, steps 8 and 9).

Reads the target's embeddings of all views (refined ones where `refine` made them), its pseudo-labels, and the source
*model*: no source row, no label of either side. Of earlier tasks only the statistics are kept. Writes
cache/target/PROBLEM.zarr: the classifier after each task of every seed, and the final labels.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from pipeline import paths
from pipeline.method.adaptation import adapt_task, empty_statistics
from pipeline.method.kernel_directions import lifted
from pipeline.method.kernel_lda import Classifier
from pipeline.method.rejection import RejectionState
from pipeline.method.row_reduction import RowReduction
from pipeline.method.variants import MethodOptions
from pipeline.problem.adapted_model import options_as_json
from pipeline.problem.method_options import method_options
from pipeline.problem.prepared_task import prepared_tasks
from pipeline.problem.problem import Problem
from pipeline.stage import Context, stage
from pipeline.store.array_store import ArrayStore
from pipeline.store.pseudo_label_store import (
    TaskLabels,
    labels_at,
    open_pseudo_labels,
    read_pseudo_labels,
)
from pipeline.store.refined_store import open_refined, read_refined
from pipeline.store.target_store import write_target


@stage(per=("problems",), reads=("language", "method", "problems", "vision"))
def adapt(context: Context, name: str) -> str:
    """Write cache/target/PROBLEM.zarr."""
    params = context.params
    options = method_options(params.method.variant, params.method.options)
    with context.executor(params.problems[name].target) as executor:
        problem = context.project.problem(name, lazy=executor.lazy)
        problem.check_backbones()
        target = problem.target
        seeds = executor.for_each_seed(
            partial(
                adapt_seed,
                problem=problem,
                first_labels=open_pseudo_labels(paths.pseudo_labels(name)),
                refined_views=open_refined(paths.refined(name)),
                options=options,
            ),
            len(target.seeds),
            images=target.largest_task,
            views=len(options.views),
            D=problem.bases.width(options),
        )
    classifiers, labels, rejections = zip(*seeds, strict=True)
    attributes = {
        "problem": name,
        "classes": target.class_names,
        # whoever predicts with the model must have the same method and bases
        "method": options_as_json(options),
        "bases": list(problem.bases.digests),
    }
    rows = target.vision.rows
    write_target(
        paths.target_model(name),
        classifiers,
        labels,
        rows=rows,
        attributes=attributes,
        rejections=rejections,
    )
    return f"{len(target.class_sets)} tasks, {len(seeds)} seeds"


def adapt_seed(
    index: int,
    reduce_rows: RowReduction,
    *,
    problem: Problem,
    first_labels: ArrayStore,
    refined_views: ArrayStore,
    options: MethodOptions,
) -> tuple[list[Classifier], list[TaskLabels], list[RejectionState]]:
    """Return a seed's classifier after each task, the row numbers and final labels of each task, what rejects."""
    target, basis = problem.target, problem.bases.reduced(index, options)
    labels = read_pseudo_labels(first_labels, index, target.vision.rows)
    shape = (target.vision.rows, target.vision.width)
    refined = read_refined(refined_views, index, dict.fromkeys(options.views, shape))
    statistics = empty_statistics(basis, options)
    classifiers: list[Classifier] = []
    final_labels: list[TaskLabels] = []
    rejections: list[RejectionState] = []
    for task in prepared_tasks(
        problem,
        index,
        basis,
        options.views,
        options,
        reduce_rows=reduce_rows,
        with_scatter=options.source_covariance,
    ):
        rows, images = task.rows, task.images
        images = replace(images, views={**images.views, **{v: x[rows] for v, x in refined.items()}})
        statistics, adapted = adapt_task(
            basis,
            statistics,
            images,
            labels_at(labels, rows, len(images.classes)),
            source=task.source,
            options=options,
            clip_scale=target.prompts.logit_scale,
            reduce_rows=reduce_rows,
        )
        classifiers.append(lifted(basis, adapted.classifier))
        final_labels.append((rows, adapted.labels))
        if task.rejection is not None:
            rejections.append(task.rejection)
    return classifiers, final_labels, rejections
