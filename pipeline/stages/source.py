"""Stage `source@SOURCE`: kernel LDA of the labelled source after each task.

The only stage of the method that reads source rows and labels. Writes cache/source/SOURCE.zarr: class means, scatter
and a classifier after each task, for every seed. This is all that the target's stages may read of the source.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from pipeline import paths
from pipeline.errors import listed
from pipeline.method.kernel_directions import lifted
from pipeline.method.row_reduction import RowReduction
from pipeline.method.rows import take
from pipeline.method.source_model import SourceModel, fit_source
from pipeline.method.variants import MethodOptions
from pipeline.problem.domain import LabelledDomain
from pipeline.problem.method_options import method_options
from pipeline.stage import Context, stage
from pipeline.store.basis_file import Bases, read_bases
from pipeline.store.source_store import write_scatters, writing_source


@stage(per=("sources",), reads=("language", "method", "vision"))
def source(context: Context, name: str) -> str:
    """Write cache/source/SOURCE.zarr, and inside it a model for each label space of the dataset."""
    params = context.params
    options = method_options(params.method.variant, params.method.options)
    message = fit(context, name, options, None)
    for space in context.project.domain(name).label_spaces:
        message += f"; {space}: {fit(context, name, options, space)}"
    return message


def fit(context: Context, name: str, options: MethodOptions, label_space: str | None) -> str:
    """Write the model of a source in a label space."""
    bases = read_bases(paths.bases(name))
    with context.executor(name) as executor:
        domain = context.project.source_domain(name, lazy=executor.lazy, label_space=label_space)
        backbones = {"vision": domain.vision.backbone, "language": domain.clip.backbone}
        seeds, tasks = len(domain.seeds), len(domain.class_sets)
        path = paths.source_model(name, label_space)
        with writing_source(path, domain.class_names, backbones, seeds=seeds, tasks=tasks) as writer:
            if options.source_covariance:
                writer.reserve_scatter(bases.width(options))
            fitted = executor.for_each_seed(
                partial(fit_seed, domain=domain, bases=bases, options=options, store=writer.path),
                seeds,
                images=domain.largest_task,
                views=len(source_views(domain, options)),
                D=bases.width(options),
            )
            for index, models in enumerate(fitted):
                writer.keep(index, models)
    absent = [view for view in options.views_of_source if view not in domain.vision.views]
    without = f"; without {listed(absent)}, which domains.{name}.views lacks" if absent else ""
    return f"{len(domain.classes)} classes in {tasks} tasks, {seeds} seeds{without}"


def source_views(domain: LabelledDomain, options: MethodOptions) -> list[str]:
    """Return the views that enter the source statistics: those asked for that the domain was embedded in."""
    return [view for view in options.views_of_source if view in domain.vision.views]


def fit_seed(
    index: int, reduce_rows: RowReduction, *, domain: LabelledDomain, bases: Bases, options: MethodOptions, store: Path
) -> list[SourceModel]:
    """Write a seed's scatters into the store under way; return its models without them."""
    train, basis = domain.train_index(domain.seeds[index]), bases.reduced(index, options)
    models = fit_source(
        basis,
        domain.views_at(train, source_views(domain, options)),
        domain.labels[train],
        domain.class_sets,
        options,
        clip=take(domain.clip_rows, train),
        reduce_rows=reduce_rows,
    )
    return write_scatters(
        store, index, (replace(model, classifier=lifted(basis, model.classifier)) for model in models)
    )
