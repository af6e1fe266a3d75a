"""Stage `source@SOURCE`: draw the random Fourier bases and fit kernel LDA to a source after each of its tasks.

Reads source rows and labels, unlike `adapt` and `evaluate`. Writes cache/bases/SOURCE.json, the recipe of every seed's
basis, and cache/source/SOURCE.zarr: class means, scatter and classifier after each task, for every seed. The stages of
a target may read nothing else of the source. For information, results/SUITE/bases/SOURCE.json says how well the bases
approximate their kernel on a sample of the vision rows.
"""

from functools import partial
from typing import Any

import numpy as np

from pipeline import paths
from pipeline.errors import counted, listed
from pipeline.extraction.executor import Executor
from pipeline.method.backbone_weights import FEATURES
from pipeline.method.random_fourier_features import KernelError
from pipeline.method.variants import MethodOptions
from pipeline.problem.domain import LabelledDomain
from pipeline.problem.method_options import method_options
from pipeline.problem.source_fit import basis_recipe, draw_seed, fit_seed
from pipeline.stage import Context, stage
from pipeline.store.array_store import writing
from pipeline.store.basis_file import Bases, BasisRecipe, write_bases
from pipeline.store.source_store import SCHEMA, reserve_scatters, write_models
from pipeline.write_aside import write_json

SAMPLE = 500  # number of rows on which the kernel is compared: 124,750 pairs


@stage(per=("sources",), reads=("language", "method", "rff", "vision"))
def source(context: Context, name: str) -> str:
    """Write the bases, their errors and cache/source/SOURCE.zarr, which also holds a model for each label space."""
    method = context.params.method
    options = method_options(method.variant, method.options)
    with context.executor(name) as executor:
        domain = context.project.source_domain(name, lazy=executor.lazy)
        recipe = basis_recipe(
            domain,
            **context.params.rff.model_dump(),
            map_seeds=lambda function, seeds: executor.for_each_seed(
                lambda index, _: function(index), len(seeds), images=domain.vision.rows, views=1, D=FEATURES
            ),
        )
        bases, figures = draw_bases(domain, recipe, executor)
        message = fit(domain, bases, options, executor)
        for space in domain.label_spaces:
            part = context.project.source_domain(name, lazy=executor.lazy, label_space=space)
            message += f"; {space}: {fit(part, bases, options, executor)}"
    write_bases(bases.path, recipe, bases.digests)
    write_json(paths.basis_error(context.suite, name), figures)
    weights = f", weights {np.mean(recipe.weights, axis=0).round(2)}" if recipe.weights else ""
    return f"{message}; D {recipe.D}, relative error of distances {figures['distance_rms']:.1%}{weights}"


def draw_bases(domain: LabelledDomain, recipe: BasisRecipe, executor: Executor) -> tuple[Bases, dict[str, Any]]:
    """Return the bases of all seeds, and their mean errors in approximating the kernel."""
    rows = domain.vision_rows("original")
    sample = np.asarray(rows[np.arange(0, len(rows), max(1, len(rows) // SAMPLE))[:SAMPLE]])
    results = executor.for_each_seed(
        partial(draw_seed, recipe=recipe, sample=sample), len(recipe.seeds), images=SAMPLE, views=1, D=recipe.D
    )
    errors = zip(KernelError._fields, np.mean([error for _, _, error in results], axis=0), strict=True)
    figures = {
        "D": recipe.D,
        "gamma": float(f"{np.mean([gamma for _, gamma, _ in results]):.6g}"),  # differs between seeds under `median`
        **{name: float(f"{value:.3g}") for name, value in errors},
    }
    return Bases(paths.bases(domain.name), recipe, tuple(digest for digest, _, _ in results)), figures


def fit(domain: LabelledDomain, bases: Bases, options: MethodOptions, executor: Executor) -> str:
    """Fit kernel LDA in the domain's label space, write the model and return the message to print."""
    views, width = [view for view in options.views_of_source if view in domain.vision.views], bases.width(options)
    backbones = {"vision": domain.vision.backbone, "language": domain.clip.backbone}
    seeds, tasks = len(domain.seeds), len(domain.class_sets)
    path = paths.source_model(domain.name, domain.label_space)
    with writing(path, SCHEMA) as store:
        scatters = reserve_scatters(store, seeds, tasks, width) if options.source_covariance else None
        fit_one = partial(fit_seed, domain=domain, bases=bases, options=options, views=views, scatters=scatters)
        models = executor.for_each_seed(fit_one, seeds, images=domain.largest_task, views=len(views), D=width)
        write_models(store, domain.class_names, backbones, models)
    absent = [view for view in options.views_of_source if view not in views]
    note = f"; without {listed(absent)}, which domains.{domain.name}.views lacks" if absent else ""
    return f"{counted(len(domain.classes), 'class')} in {counted(tasks, 'task')}, {counted(seeds, 'seed')}{note}"
