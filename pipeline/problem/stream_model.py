"""A stream's model after a step, as `predict` and `export` use it: the state, a basis, and no image of the past."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pipeline import paths
from pipeline.errors import ParamsError
from pipeline.method.rejection import rejector
from pipeline.method.source_model import SourceModel
from pipeline.method.variants import MethodOptions
from pipeline.problem.adapted_model import AdaptedModel, check_basis
from pipeline.problem.domain import Domain
from pipeline.problem.problem import Problem
from pipeline.problem.stream_origin import origin_of, require_same_origin
from pipeline.store.stream_state import read_stream_state


def open_stream_model(
    step: str,
    domain: str,
    options: MethodOptions,
    rff: Mapping[str, object],
    *,
    vision: str,
    language: str,
    root: Path = Path(),
) -> AdaptedModel:
    """Read a stream's model after a step.

    Parameters
    ----------
    step : str
        The key of the step.
    domain : str
        A domain whose embeddings the two models made: they say which backbones new images need. The step's own, or
        the source where the step's are gone.
    options, rff
        As params.yaml has them now; a state that was made under others is refused.
    vision, language : str
        The names of the two models.
    root : Path
        The project's folder; by default the current one.

    Returns
    -------
    AdaptedModel
        Its tasks are the steps of the stream.
    """
    state = read_stream_state(root / paths.stream_state(step))
    if options.predictor not in ("adapted", "clip"):
        raise ParamsError(
            f"params.yaml: method: predictor: {options.predictor} is the source's; a stream predicts by `adapted`"
        )
    source = state.origin.source
    target = Domain(domain, vision, language, root=root)
    target.prompts = state.prompts  # of the classes in the order in which the stream met them
    problem = Problem(step, source, target)
    check_basis(problem, rff)
    now = origin_of(source, problem.bases, options, state.origin.backbones)
    require_same_origin(state, now)
    target.require_backbones(state.origin.backbones, paths.stream_state(step))
    means = state.statistics.prior_means
    steps, judge = len(state.steps_before) + 1, None
    if state.rejection is not None and state.class_means is not None:
        judge = rejector(state.rejection, state.class_means)
    return AdaptedModel(
        problem=problem,
        seed=problem.bases.recipe.seeds[0],
        after_task=steps,
        tasks=steps,
        classes=tuple(state.prompts.classes),
        basis=problem.bases.basis(0),
        source=SourceModel(means, state.classifier, means),  # only its number of classes is used
        classifier=state.classifier,
        options=options,
        judge=judge,
    )
