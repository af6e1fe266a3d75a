"""A stream's model after a step, as `predict` and `export` use it: the state, a basis, and no image of the past."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline import paths
from pipeline.errors import ParamsError, StoreError
from pipeline.method.source_model import SourceModel
from pipeline.method.variants import MethodOptions
from pipeline.problem.adapted_model import AdaptedModel, options_as_json
from pipeline.problem.domain import Domain
from pipeline.problem.problem import Problem
from pipeline.problem.stream import basis_facts
from pipeline.store.prompt_store import Prompts
from pipeline.store.stream_state import StreamState, read_stream_state


class StreamDomain(Domain):
    """A domain whose prompts are those of a stream's state: classes in the order in which the stream met them."""

    def __init__(self, name: str, *, vision: str, language: str, prompts: Prompts) -> None:
        super().__init__(name, vision=vision, language=language)
        self.prompts = prompts


def open_stream_model(
    step: str,
    domain: str,
    options: MethodOptions,
    rff: Mapping[str, object],
    *,
    vision: str,
    language: str,
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

    Returns
    -------
    AdaptedModel
        Its tasks are the steps of the stream.
    """
    path = paths.stream_state(step)
    state = read_stream_state(path)
    if options.predictor not in ("adapted", "clip"):
        raise ParamsError(
            f"params.yaml: method: predictor: {options.predictor} is the source's; a stream predicts by `adapted`"
        )
    _require_settings(state, options_as_json(options), rff)
    target = StreamDomain(domain, vision=vision, language=language, prompts=state.prompts)
    target.vision.require_backbone(state.origin.backbones.get("vision", {}), path)
    target.clip.require_backbone(state.origin.backbones.get("language", {}), path)
    problem = Problem(step, state.origin.source, target)
    if basis_facts(problem.bases) != state.origin.basis:
        raise StoreError(
            f"{path}: made with another basis than {problem.bases.path} has now; run dvc repro"
        )
    means = state.statistics.prior_means
    steps = len(state.steps_before) + 1
    return AdaptedModel(
        problem=problem,
        seed=problem.bases.recipe.seeds[0],
        after_task=steps,
        tasks=steps,
        classes=tuple(state.prompts.classes),
        basis=problem.bases.basis(0),
        source=SourceModel(
            means, state.classifier, means
        ),  # only the number of its classes is used
        classifier=state.classifier,
        options=options,
    )


def _require_settings(
    state: StreamState, options: Mapping[str, object], rff: Mapping[str, object]
) -> None:
    """Refuse a state that was made under other settings than params.yaml has now."""
    path = paths.stream_state(state.step)
    now = {f"method option {key}": value for key, value in options.items()}
    now |= {f"rff.{key}": rff[key] for key in ("D", "sigma", "convention", "orthogonal")}
    recorded = {f"method option {key}": value for key, value in state.origin.method.items()}
    recorded |= {f"rff.{key}": value for key, value in state.origin.basis.items()}
    for key, value in now.items():
        if recorded.get(key) != value:
            raise StoreError(
                f"{path}: made with {key} = {recorded.get(key)!r}, but params.yaml says {value!r}; run dvc repro, or "
                "put it back"
            )
