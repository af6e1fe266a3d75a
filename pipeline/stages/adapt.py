"""Stage `adapt@PROBLEM`: adapt the source model to the target, one task after another.

For each task, labels the target's train images and adds them to the statistics. Writes cache/target/PROBLEM.zarr: the
classifier after each task of every seed, and the labels and weights of the images.

Reads the target's embeddings, prompts, tasks and splits, and the source *model*, but no source row and no label of
either domain. If `refinement` is on, it also reads the backbone, target images, and images.csv to find them. The paths
in images.csv may contain class names, but the code never uses these (docs/method.md).
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

from pipeline import paths
from pipeline.config.params import Params
from pipeline.datasets.manifest_files import read_images
from pipeline.errors import counted
from pipeline.extraction.embedding_settings import views_in_both
from pipeline.method.variants import MethodOptions
from pipeline.problem.method_options import method_options, options_as_json
from pipeline.problem.problem import Problem
from pipeline.problem.seed_adaptation import RefinedViews, adapt_seed
from pipeline.stage import Context, embedding_settings, stage
from pipeline.store.target_store import write_target


def settings(params: Params, name: str) -> dict[str, Any]:
    """Return the settings that decide the outputs: the label space, and refinement if it is on."""
    problem = params.problems[name]
    problem_settings = {"label_space": problem.label_space, "classes": problem.classes}
    if params.refinement.off:
        return problem_settings
    return problem_settings | {
        "refinement": params.refinement.model_dump(),
        "views": params.views.model_dump(),
        "domain_views": list(params.domains[problem.target].views),
        "model": params.models[params.vision].model_dump(mode="json", exclude={"views"}),
    }


@stage(per=("problems",), reads=("domains", "method", "models", "refinement", "views", "vision"), settings=settings)
def adapt(context: Context, name: str) -> str:
    """Write cache/target/PROBLEM.zarr."""
    method = context.params.method
    options = method_options(method.variant, method.options)
    with context.executor(context.project.problems[name].target) as executor:
        problem = context.project.problem(name, lazy=executor.lazy)
        problem.check_backbones()
        target = problem.target
        for_each_seed = partial(
            executor.for_each_seed,
            seeds=len(target.seeds),
            images=target.largest_task,
            views=len(options.views),
            D=problem.bases.width(options),
        )
        with refined_views(context, problem, options, for_each_seed) as refined:
            seeds = for_each_seed(partial(adapt_seed, problem=problem, options=options, refined=refined))
    write_target(
        paths.target_model(name),
        seeds,
        rows=target.vision.rows,
        attributes={
            "problem": name,
            "classes": target.class_names,
            # prediction requires the same method and bases
            "method": options_as_json(options),
            "bases": list(problem.bases.digests),
        },
    )
    message = f"{counted(len(target.class_sets), 'task')}, {counted(len(seeds), 'seed')}"
    return message if refined is None else f"{message}, refined {', '.join(refined.views)}"


def refined_views(
    context: Context, problem: Problem, options: MethodOptions, for_each_seed: Callable[..., list[Any]]
) -> AbstractContextManager[RefinedViews | None]:
    """Open the refined views of every seed's train images, or None if `refinement` is off."""
    if "refinement" not in context.settings:
        return nullcontext()
    from pipeline.extraction.images import images_of
    from pipeline.extraction.refine import refined_problem, views_to_refine  # imports torch
    from pipeline.method.adversarial_refinement import Ascent

    params, domain = context.params, problem.target.name
    refinement, model = params.refinement, params.models[params.vision]
    views = views_in_both(domain, params.domains[domain].views, params.vision, model.views)
    return refined_problem(
        problem,
        options,
        images_of(read_images(problem.target.manifest)),
        views_to_refine(domain, views, params.vision, model.library),
        embedding_settings(params, params.vision),
        ascent=Ascent(refinement.steps, refinement.step_size, refinement.radius),
        attention=refinement.mutual_attention,
        for_each_seed=for_each_seed,
        scratch=paths.SCRATCH,
    )
