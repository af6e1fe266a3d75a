"""Stage `pseudo_label@PROBLEM`: label the target's train images by the source model and CLIP, steps 2, 5 and 7.

Reads the target's embeddings, prompts, tasks and splits, and the source *model*: no source row, no label of either
side. Writes cache/pseudo_labels/PROBLEM.zarr.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from pipeline import paths
from pipeline.method.adaptation import pseudo_label as label_task
from pipeline.method.row_reduction import RowReduction
from pipeline.method.variants import MethodOptions
from pipeline.problem.method_options import method_options
from pipeline.problem.prepared_task import prepared_tasks
from pipeline.problem.problem import Problem
from pipeline.stage import Context, stage
from pipeline.store.pseudo_label_store import TaskLabels, write_pseudo_labels


@stage(per=("problems",), reads=("language", "method", "problems", "vision"))
def pseudo_label(context: Context, name: str) -> str:
    """Write cache/pseudo_labels/PROBLEM.zarr."""
    params = context.params
    options = method_options(params.method.variant, params.method.options)
    with context.executor(params.problems[name].target) as executor:
        problem = context.project.problem(name, lazy=executor.lazy)
        problem.check_backbones()
        target = problem.target
        seeds = executor.for_each_seed(
            partial(label_seed, problem=problem, options=options),
            len(target.seeds),
            images=target.largest_task,
            views=len(options.label_views),
            D=problem.bases.width(options),
        )
    write_pseudo_labels(paths.pseudo_labels(name), seeds, target.vision.rows, name)
    kept = np.concatenate([labels.kept for tasks in seeds for _, labels in tasks]).mean()
    return f"{target.vision.rows} rows, {kept:.1%} of the train images kept"


def label_seed(
    index: int, reduce_rows: RowReduction, *, problem: Problem, options: MethodOptions
) -> list[TaskLabels]:
    """Return the row numbers and pseudo-labels of each task of a seed."""
    target, basis = problem.target, problem.bases.reduced(index, options)
    return [
        (
            task.rows,
            label_task(
                basis,
                task.images,
                task.source,
                options,
                target.prompts.logit_scale,
                reduce_rows=reduce_rows,
            ),
        )
        for task in prepared_tasks(
            problem, index, basis, options.label_views, options, reduce_rows=reduce_rows
        )
    ]
