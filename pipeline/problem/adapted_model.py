"""Open the adapted model of a problem or a stream, to classify images by their embeddings.

Opening fails if the model was made with other settings than params.yaml has now; the error message names both values.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pipeline import paths
from pipeline.errors import InputError, ParamsError, StoreError, listed
from pipeline.method.kernel_lda import Classifier
from pipeline.method.kernel_rows import kernel_rows
from pipeline.method.prediction import Prediction, predict
from pipeline.method.random_fourier_features import Basis
from pipeline.method.rejection import Rejector, rejector
from pipeline.method.rows import Rows, UnlabelledRows
from pipeline.method.source_model import SourceModel
from pipeline.method.variants import MethodOptions
from pipeline.method.zero_shot import cosine_rows
from pipeline.problem.domain import Domain
from pipeline.problem.method_options import check_options, options_as_json
from pipeline.problem.problem import Problem
from pipeline.store.array_store import differences
from pipeline.store.basis_file import Bases
from pipeline.store.stream_state import StreamOrigin, read_stream_state
from pipeline.store.target_store import open_target, read_classifiers, read_rejections


@dataclass(frozen=True, eq=False)
class AdaptedModel:
    """The model of one seed of a problem after a task."""

    problem: Problem  # the stores of its target say which backbones the model needs
    seed: int
    after_task: int  # counted from 1
    tasks: int  # number of tasks
    classes: tuple[str, ...]  # all C class names; the first ``len(classes_seen)`` can be predicted
    basis: Basis
    source: SourceModel
    classifier: Classifier
    options: MethodOptions
    rejector: Rejector | None = None  # decides which images are unknown; None if the model never rejects images

    @property
    def classes_seen(self) -> tuple[str, ...]:
        """The classes that can be predicted."""
        return self.classes[: len(self.classifier.b)]

    @property
    def views(self) -> tuple[str, ...]:
        """The views of an image that the vision model must embed; CLIP embeds only the original."""
        return self.options.test_views

    @property
    def clip_scale(self) -> float:
        """CLIP's own logit scale."""
        return self.problem.target.prompts.logit_scale

    def predict(self, views: Mapping[str, Rows] | Rows, clip_rows: Rows) -> Prediction:
        """Predict from embeddings exactly as `evaluate` does.

        Parameters
        ----------
        views : mapping of str to Rows of shape (n, d), or Rows of shape (n, d)
            The vision model's embeddings of the images in each of `views`, by name. Rows of a cache can be passed alone
            because they know their other views; so can an array if the model needs only the original. Rows that are
            read on indexing are never all in memory.
        clip_rows : Rows of shape (n, d')
            CLIP's embeddings of the same images.

        Returns
        -------
        Prediction
            ``label`` (n,), positions in ``classes_seen``; the probabilities (n, K) of both branches and of their
            fusion; and ``unknown`` (n,) if the model rejects images.
        """
        by_view = views
        if not isinstance(by_view, Mapping):
            in_view = getattr(views, "in_view", None)  # `FeatureRows` have the images' other views
            by_view = {"original": by_view} if in_view is None else {view: in_view(view) for view in self.views}
        if missing := [view for view in self.views if view not in by_view]:
            raise InputError(f"predict: the model needs the views {listed(self.views)}; give {listed(missing)} as well")
        similarity = cosine_rows(clip_rows, self.problem.target.prompts.text)
        rows = UnlabelledRows(by_view, similarity, clip_rows)
        features = kernel_rows(self.basis, rows, self.options.clip_in_kernel)
        prediction = predict(features, similarity, self.source, self.classifier, self.options, self.clip_scale)
        if self.rejector is None:
            return prediction
        return replace(prediction, unknown=self.rejector.confidence(rows))


def open_adapted_model(
    problem: Problem,
    options: MethodOptions,
    rff: Mapping[str, object],
    *,
    seed: int | None = None,
    after_task: int | None = None,
) -> AdaptedModel:
    """Read the model of a problem, by default that of the first seed after the last task; tasks count from 1.

    ``options`` and ``rff`` are the current values in params.yaml.
    """
    store = open_target(problem.target.root / paths.target_model(problem.name))
    check_options(store, options)
    check_basis(problem, rff)
    problem.bases.require_model(store)
    seeds = problem.bases.recipe.seeds
    if seed is not None and seed not in seeds:
        raise ParamsError(f"seed {seed}: the models were made for the seeds {listed(seeds)}")
    seed_index = 0 if seed is None else seeds.index(seed)
    classifiers, rejections = read_classifiers(store, seed_index), read_rejections(store, seed_index)
    tasks = len(classifiers)
    task = tasks if after_task is None else after_task
    if not 1 <= task <= tasks:
        raise ParamsError(f"after task {task}: {problem.name} has the tasks 1 to {tasks}")
    return AdaptedModel(
        problem=problem,
        seed=seeds[seed_index],
        after_task=task,
        tasks=tasks,
        classes=tuple(problem.target.prompts.classes),
        basis=problem.bases.basis(seed_index),
        source=list(problem.source_models(seed_index))[task - 1],
        classifier=classifiers[task - 1],
        options=options,
        rejector=None if rejections is None else rejector(rejections[task - 1], problem.class_directions(seed_index)),
    )


def open_stream_model(step: str, target: Domain, options: MethodOptions, rff: Mapping[str, object]) -> AdaptedModel:
    """Read the model of a stream after a step; its tasks are the steps of the stream.

    The embeddings of ``target`` say which backbones new images need. It is the step's domain, or the source if the
    step's embeddings are gone. ``options`` and ``rff`` are the current values in params.yaml.
    """
    state = read_stream_state(target.root / paths.stream_state(step))
    if options.predictor not in ("adapted", "clip"):
        raise ParamsError(
            f"params.yaml: method: predictor: {options.predictor} is the source's; a stream predicts by `adapted`"
        )
    source = state.origin.source
    target.prompts = state.prompts  # classes in the order in which the stream met them
    problem = Problem(step, source, target)
    check_basis(problem, rff)
    state.require_origin(origin_of(source, problem.bases, options, state.origin.backbones))
    target.require_backbones(state.origin.backbones, paths.stream_state(step))
    means = state.statistics.prior_means
    steps, step_rejector = len(state.steps_before) + 1, None
    if state.rejection is not None and state.directions is not None:
        step_rejector = rejector(state.rejection, state.directions)
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
        rejector=step_rejector,
    )


def origin_of(source: str, bases: Bases, options: MethodOptions, backbones: Mapping[str, Any]) -> StreamOrigin:
    """Return the origin of a stream from ``source``: the settings that it depends on, and the first seed's basis."""
    settings = bases.recipe.parameters()
    basis = {key: settings[f"rff.{key}"] for key in ("D", "sigma", "convention", "orthogonal")}
    basis |= {"seed": bases.recipe.seeds[0], "sha256": bases.digests[0]}
    return StreamOrigin(source, basis, options_as_json(options), dict(backbones))


def check_basis(problem: Problem, rff: Mapping[str, object]) -> None:
    """Raise StoreError if the bases were drawn with other settings than params.yaml has now."""
    recorded = problem.bases.recipe.parameters()
    current = {key: rff.get(key.removeprefix("rff."), recorded[key]) for key in recorded}  # seeds are checked by number
    for key, old, new in differences(recorded, current):
        raise StoreError(
            f"{problem.bases.path}: drawn with {key} = {old!r}, but params.yaml says {new!r}; run dvc repro, or put "
            "the section `rff` back"
        )
