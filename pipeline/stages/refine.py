"""Stage `refine@PROBLEM`: the two steps that only the paper's text has, off by default (docs/method.md).

On, it refines the target's views adversarially against the source model, lets them attend to the original, or both,
and writes their embeddings for `adapt` to use. It reads target images, pseudo-labels and the source *model*; no label.
Off, it writes an empty store and loads no backbone. Writes cache/refined/PROBLEM.zarr.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from pipeline import paths
from pipeline.datasets.manifest_files import read_images
from pipeline.errors import ParamsError
from pipeline.extraction.views import views_in_both, views_to_refine
from pipeline.method.variants import MethodOptions
from pipeline.problem.method_options import method_options
from pipeline.problem.problem import Problem
from pipeline.stage import Context, stage
from pipeline.store.array_store import ArrayStore
from pipeline.store.pseudo_label_store import open_pseudo_labels
from pipeline.store.refined_store import write_refined

if TYPE_CHECKING:
    from pipeline.extraction.refine import TaskToRefine

SECTIONS = ("domains", "language", "method", "models", "problems", "refinement", "views", "vision")


@stage(per=("problems",), reads=SECTIONS)
def refine(context: Context, name: str) -> str:
    """Write cache/refined/PROBLEM.zarr."""
    if context.params.refinement.off:
        write_refined(paths.refined(name), {}, {"problem": name})
        return "off (refinement.steps: 0, mutual_attention: false)"
    return refine_target(context, name)


def refine_target(context: Context, name: str) -> str:
    """Refine and embed the views of every seed's train images."""
    from pipeline.extraction.images import images_of
    from pipeline.extraction.refine import refine_views  # imports torch
    from pipeline.method.adversarial_refinement import Ascent

    params, problem = context.params, context.project.problem(name)
    target, settings = problem.target, params.refinement
    model = params.models[params.vision]
    asked = views_in_both(
        target.name, params.domains[target.name].views, params.vision, model.views
    )
    views = views_to_refine(target.name, asked, params.vision, model.library)
    options = method_options(params.method.variant, params.method.options)
    if target.hidden or target.label_space is not None or options.reject != "none":
        raise ParamsError(
            f"params.yaml: refinement: views are refined towards labels of the closed set, and {name} has hidden "
            "classes, a label space or rejected images; set refinement.steps: 0 and mutual_attention: false"
        )
    labels = open_pseudo_labels(paths.pseudo_labels(name))
    with refine_views(
        images_of(read_images(target.manifest / "images.csv")),
        views,
        context.embedding_settings(params.vision),
        ascent=Ascent(settings.steps, settings.step_size, settings.radius),
        attention=settings.mutual_attention,
        train=np.array([~target.tasks.is_test(seed) for seed in target.seeds]),
        tasks_of=partial(tasks_of_seed, problem, options, labels),
        scratch=paths.SCRATCH,
    ) as refined:
        attributes = {
            "problem": name,
            "refinement": settings.model_dump(),
            "weights": refined.weights,
        }
        write_refined(paths.refined(name), refined.views, attributes)
    return f"{', '.join(views)} of {target.vision.rows} images, {len(target.seeds)} seeds"


def tasks_of_seed(
    problem: Problem, options: MethodOptions, labels: ArrayStore, index: int
) -> Iterator[TaskToRefine]:
    """Yield the train images of each task with the source classifier that their views are refined against."""
    from pipeline.extraction.refine import task_to_refine

    target, basis = problem.target, problem.bases.basis(index)
    label = labels.read("label", index)
    for task, source in enumerate(problem.source_models(index)):
        rows = target.train_index(target.seeds[index], task)
        yield task_to_refine(
            rows,
            label[rows],
            target.class_sets[task],
            basis=basis,
            classifier=source.classifier,
            clip_rows=np.asarray(target.clip_rows[rows]) if options.clip_in_kernel else None,
            share=options.clip_in_kernel,
        )
