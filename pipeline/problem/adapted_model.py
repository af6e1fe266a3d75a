"""A problem's adapted model, read from the caches: all that classifies an image once its embeddings are there."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
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
from pipeline.method.zero_shot import CosineRows
from pipeline.problem.problem import Problem
from pipeline.store.array_store import ArrayStore
from pipeline.store.target_store import open_target, read_classifiers, read_rejections


@dataclass(frozen=True, eq=False)
class AdaptedModel:
    """One seed's model of a problem after a task."""

    problem: Problem  # whose target's stores say which backbones the model belongs to
    seed: int
    after_task: int  # counted from 1
    tasks: int  # how many there are
    classes: tuple[str, ...]  # all C class names; the first ``len(classes_seen)`` can be predicted
    basis: Basis
    source: SourceModel
    classifier: Classifier
    options: MethodOptions
    judge: Rejector | None = None  # says which images are unknown; None where none is rejected

    @property
    def classes_seen(self) -> tuple[str, ...]:
        """The classes that can be predicted."""
        return self.classes[: len(self.classifier.b)]

    @property
    def views(self) -> tuple[str, ...]:
        """The views of an image that the vision model has to embed; CLIP embeds the original."""
        return self.options.test_views

    @property
    def clip_scale(self) -> float:
        """CLIP's own logit scale."""
        return self.problem.target.prompts.logit_scale

    def predict(self, views: Mapping[str, Rows] | Rows, clip_rows: Rows) -> Prediction:
        """Predict from embeddings exactly as `evaluate` does.

        Parameters
        ----------
        views : Rows of shape (n, d), or mapping of str to these
            The vision model's embeddings of the images in every one of `views`, by name; rows of a cache know their
            other views; arrays will do if the original is all the model needs. Rows that are read when they are
            indexed are never all in memory.
        clip_rows : Rows of shape (n, d')
            CLIP's embeddings of the same images.

        Returns
        -------
        Prediction
            ``label`` (n,), positions in ``classes_seen``, and the probabilities (n, K) of both branches and of their
            fusion; ``unknown`` (n,) where images are rejected.
        """
        by_view = views
        if not isinstance(by_view, Mapping):
            in_view = getattr(views, "in_view", None)  # `FeatureRows` know the images' other views
            by_view = {"original": by_view} if in_view is None else {view: in_view(view) for view in self.views}
        if missing := [view for view in self.views if view not in by_view]:
            raise InputError(f"predict: the model needs the views {listed(self.views)}; give {listed(missing)} as well")
        similarity = CosineRows(clip_rows, self.problem.target.prompts.text)
        rows = UnlabelledRows(by_view, similarity, clip_rows)
        features = kernel_rows(self.basis, rows, self.options.clip_in_kernel)
        prediction = predict(features, similarity, self.source, self.classifier, self.options, self.clip_scale)
        if self.judge is None:
            return prediction
        return replace(prediction, unknown=self.judge.confidence(rows))


def open_adapted_model(
    problem: Problem,
    options: MethodOptions,
    rff: Mapping[str, object],
    *,
    seed: int | None = None,
    after_task: int | None = None,
) -> AdaptedModel:
    """Read the model of a problem: by default the first seed's, after the last task; tasks count from 1.

    A model that was made under other ``options`` or another section `rff` than params.yaml has now is refused.
    """
    store = open_target(problem.target.root / paths.target_model(problem.name))
    check_options(store, options)
    check_basis(problem, rff)
    problem.bases.require_model(store)
    seeds = problem.bases.recipe.seeds
    if seed is not None and seed not in seeds:
        raise ParamsError(f"seed {seed}: the models were made for the seeds {listed(seeds)}")
    index = 0 if seed is None else seeds.index(seed)
    classifiers, rejections = read_classifiers(store, index), read_rejections(store, index)
    tasks = len(classifiers)
    if after_task is not None and not 1 <= after_task <= tasks:
        raise ParamsError(f"after task {after_task}: {problem.name} has the tasks 1 to {tasks}")
    task = tasks if after_task is None else after_task
    return AdaptedModel(
        problem=problem,
        seed=seeds[index],
        after_task=task,
        tasks=tasks,
        classes=tuple(problem.target.prompts.classes),
        basis=problem.bases.basis(index),
        source=list(problem.source_models(index))[task - 1],
        classifier=classifiers[task - 1],
        options=options,
        judge=None if rejections is None else rejector(rejections[task - 1], problem.class_directions(index)),
    )


def options_as_json(options: MethodOptions) -> dict[str, Any]:
    """Return the method's options as plain JSON values, for a store's attributes."""
    return {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in asdict(options).items()
        if (key, value) != ("reject", "none")  # so that models from before there was the option stay usable
    }


def check_options(store: ArrayStore, options: MethodOptions) -> None:
    """Refuse a model that was adapted under other options than params.yaml has now."""
    recorded = store.attribute("method", dict)
    wanted = options_as_json(options)
    for key in {**wanted, **recorded}:
        value = wanted.get(key)
        if recorded.get(key) != value:
            raise StoreError(
                f"{store.path}: adapted with method option {key} = {recorded.get(key)!r}, but params.yaml says "
                f"{value!r}; run dvc repro, or put the section `method` back"
            )


def check_basis(problem: Problem, rff: Mapping[str, object]) -> None:
    """Refuse bases that were drawn under other settings than params.yaml has now."""
    for key, value in problem.bases.recipe.asked().items():
        now = rff.get(key.removeprefix("rff."), value)  # the seeds are checked by their numbers
        if value != now:
            raise StoreError(
                f"{problem.bases.path}: drawn with {key} = {value!r}, but params.yaml says {now!r}; "
                "run dvc repro, or put the section `rff` back"
            )
