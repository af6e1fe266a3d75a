"""A stream's model after a step, and what its numbers rest on: source, basis, options, backbones and prompts.

`predict` and `export` use the model: the state, a basis, and no image of the past. A state made with other settings
cannot be continued, used or exported: the line that refuses it names both sides.
"""

from collections.abc import Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from pipeline import paths
from pipeline.errors import ParamsError, StoreError
from pipeline.method.rejection import rejector
from pipeline.method.source_model import SourceModel
from pipeline.method.variants import MethodOptions
from pipeline.problem.adapted_model import AdaptedModel, check_basis, options_as_json
from pipeline.problem.domain import Domain
from pipeline.problem.problem import Problem
from pipeline.store.basis_file import Bases
from pipeline.store.prompt_store import Prompts
from pipeline.store.stream_state import StreamOrigin, StreamState, read_stream_state

NAMES = {"seed": "seed", "sha256": "the basis"}  # of what is not a key of `rff` in params.yaml


def origin_of(source: str, bases: Bases, options: MethodOptions, backbones: Mapping[str, Any]) -> StreamOrigin:
    """Return what a stream from ``source`` rests on under these settings; its basis is that of the first seed."""
    recipe = bases.recipe
    basis = {
        "D": recipe.D,
        "sigma": recipe.asked_sigma,
        "convention": recipe.asked_convention,
        "orthogonal": recipe.orthogonal,
        "seed": recipe.seeds[0],
        "sha256": bases.digests[0],
    }
    return StreamOrigin(source, basis, options_as_json(options), dict(backbones))


def require_same_origin(state: StreamState, now: StreamOrigin) -> None:
    """Refuse a state that rests on another basis or on other options, naming both sides."""
    recorded, current = _settings(state.origin), _settings(now)
    for what in {**recorded, **current}:
        if recorded.get(what) != current.get(what):
            raise refusal(state, what, recorded.get(what), current.get(what))


def require_same_prompts(state: StreamState, domain: Domain) -> None:
    """Refuse a domain that lacks a class of the state, or describes it to CLIP in other words or by other weights."""
    path = paths.stream_state(state.step)
    absent = [name for name in state.rejecting_classes if name not in domain.class_names]
    if absent:
        raise StoreError(
            f"{path}: knows the class {absent[0]!r}, for which {domain.name} has no prompt; add it to the "
            "class_names of its dataset"
        )
    was, now = state.prompts.provenance.get("weights"), domain.prompts.provenance.get("weights")
    if was != now:
        raise refusal(state, "weights of the text tower", was, now)
    recorded, given = sentences(state.prompts), sentences(domain.prompts)
    for name in state.rejecting_classes:
        for was, now in zip_longest(recorded.get(name, ()), given.get(name, ())):
            if was != now:
                raise refusal(state, f"the prompt of {name!r}", was, now)
    index = [domain.prompts.classes.index(name) for name in state.rejecting_classes]
    if not np.allclose(domain.prompts.text[index], state.prompts.text[: len(index)], atol=1e-4):
        raise refusal(state, "text embeddings", "its own", f"those of {domain.name}")


def sentences(prompts: Prompts) -> dict[str, list[str]]:
    """Return the sentences that describe each class; none where texts were imported."""
    every = prompts.provenance.get("prompts") or []
    each = len(every) // len(prompts.classes)
    return {name: every[i * each : (i + 1) * each] for i, name in enumerate(prompts.classes)}


def refusal(state: StreamState, what: str, found: object, now: object) -> StoreError:
    """Return the error of a state that was made with something else."""
    return StoreError(
        f"{paths.stream_state(state.step)}: made with {what} = {found!r}, now it is {now!r}; put it back, or run "
        "dvc repro where the earlier images are, or start another stream"
    )


def _settings(origin: StreamOrigin) -> Mapping[str, Any]:
    """Return the settings of a stream by the names that messages give them."""
    basis = {NAMES.get(key, f"rff.{key}"): value for key, value in origin.basis.items()}
    return basis | {f"method option {key}": value for key, value in origin.method.items()}


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
    """Read a stream's model after a step; its tasks are the steps of the stream.

    The embeddings of ``domain`` say which backbones new images need: the step's own, or the source's where the step's
    are gone. A state that was made under other ``options`` or ``rff`` than params.yaml has now is refused.
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
    if state.rejection is not None and state.directions is not None:
        judge = rejector(state.rejection, state.directions)
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
