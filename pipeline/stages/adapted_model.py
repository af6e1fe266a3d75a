"""A problem's adapted model, read from the caches: all that classifies an image once its embeddings are there.

Made of what `basis`, `source`, `prompts` and `adapt` wrote, and used as `evaluate` uses it. Labels are not read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.errors import ParamsError, StoreError, listed
from pipeline.method.class_statistics import Matrix64
from pipeline.method.joint_rows import kernel_features
from pipeline.method.kernel_lda import Classifier
from pipeline.method.prediction import Prediction, cosines, predict
from pipeline.method.random_fourier_features import Basis
from pipeline.method.source_model import SourceModel
from pipeline.method.task_features import Rows
from pipeline.method.variants import MethodOptions
from pipeline.method.zero_shot import Matrix
from pipeline.params import Params, RandomFourierFeatures, named
from pipeline.stages import places
from pipeline.stages.adapt import SCHEMA, options_as_attributes
from pipeline.stages.method_options import method_options
from pipeline.store.array_store import ArrayStore, open_arrays
from pipeline.store.basis_file import Bases, read_bases
from pipeline.store.classifier_store import read_classifiers
from pipeline.store.embedding_store import EmbeddingStore, open_embeddings
from pipeline.store.prompt_store import open_prompts
from pipeline.store.source_store import read_source


@dataclass(frozen=True, eq=False)
class AdaptedModel:
    """One seed's model of a problem after a task.

    after_task: 1 … tasks. classes: all C names, of which the first ``seen`` can be predicted. text: (C, d') prompts.
    vision, language: the target's embeddings, whose provenance says which backbones the model belongs to.
    """

    problem: str
    seed: int
    after_task: int
    tasks: int
    classes: tuple[str, ...]
    basis: Basis
    source: SourceModel
    classifier: Classifier
    options: MethodOptions
    text: Matrix
    clip_scale: float
    vision: EmbeddingStore
    language: EmbeddingStore

    @property
    def seen(self) -> tuple[str, ...]:
        """The classes that can be predicted."""
        return self.classes[: len(self.classifier.b)]

    @property
    def views(self) -> tuple[str, ...]:
        """The views of an image that the vision model has to embed; CLIP embeds the original."""
        return self.options.views if self.options.vote_at_test else ("original",)

    def cosines(self, said: Matrix) -> Matrix64:
        """Return the cosines (n, C) of CLIP image embeddings (n, d') to every class's prompt."""
        return cosines(said, self.text)

    def predict(self, views: Mapping[str, Rows], said: Matrix) -> Prediction:
        """Predict from the vision model's rows (n, d) by view and CLIP's rows (n, d'), as `evaluate` does."""
        return predict(
            kernel_features(self.basis, views, said, self.options.clip_in_kernel),
            self.cosines(said),
            source=self.source,
            classifier=self.classifier,
            options=self.options,
            clip_scale=self.clip_scale,
        )


def read_adapted(
    params: Params, name: str, *, seed: int | None = None, after_task: int | None = None
) -> AdaptedModel:
    """Read the model of a problem: by default the first seed's, after the last task."""
    problem = named("problems", params.problems, name)
    options = method_options(params.method)
    store = open_arrays(places.target_model(name), SCHEMA)
    bases = read_bases(places.bases(problem.source))
    _check_options(store, options)
    _check_basis(bases, params.rff)
    bases.require_of(store)
    index = _seed_index(bases.recipe.seeds, seed)
    seen = store.attributes["seen"]
    if after_task is not None and not 1 <= after_task <= len(seen):
        raise ParamsError(f"--after-task {after_task}: {name} has the tasks 1 to {len(seen)}")
    task = len(seen) if after_task is None else after_task
    prompts = open_prompts(places.prompts(problem.target))
    classes = list(store.attributes["classes"])
    if prompts.classes != classes:
        raise StoreError(
            f"{places.prompts(problem.target)}: its classes are not those of {store.path}; run dvc repro"
        )
    return AdaptedModel(
        problem=name,
        seed=bases.recipe.seeds[index],
        after_task=task,
        tasks=len(seen),
        classes=tuple(classes),
        basis=bases.basis(index),
        source=list(read_source(places.source_model(problem.source), index, classes))[task - 1],
        classifier=read_classifiers(store, index, seen)[task - 1],
        options=options,
        text=prompts.text,
        clip_scale=prompts.logit_scale,
        vision=open_embeddings(places.embeddings(problem.target, params.vision)),
        language=open_embeddings(places.embeddings(problem.target, params.language)),
    )


def _seed_index(seeds: tuple[int, ...], seed: int | None) -> int:
    if seed is None:
        return 0
    if seed not in seeds:
        raise ParamsError(f"--seed {seed}: the models were made for the seeds {listed(seeds)}")
    return seeds.index(seed)


def _check_options(store: ArrayStore, options: MethodOptions) -> None:
    """Refuse a model that was adapted under other options than params.yaml has now."""
    made: dict[str, Any] = store.attributes["method"]
    for key, wanted in options_as_attributes(options).items():
        if made.get(key) != wanted:
            raise StoreError(
                f"{store.path}: adapted with method option {key} = {made.get(key)!r}, but params.yaml says "
                f"{wanted!r}; run dvc repro, or put the section `method` back"
            )


def _check_basis(bases: Bases, rff: RandomFourierFeatures) -> None:
    """Refuse bases that were drawn under other settings than params.yaml has now."""
    recipe = bases.recipe
    pairs: dict[str, tuple[object, object]] = {
        "D": (recipe.D, rff.D),
        "bases": (recipe.members, rff.bases),
        "orthogonal": (recipe.orthogonal, rff.orthogonal),
        "sigma": (recipe.asked_sigma, rff.sigma),
        "convention": (recipe.asked_convention, rff.convention),
    }
    for key, (made, wanted) in pairs.items():
        if made != wanted:
            raise StoreError(
                f"{bases.path}: drawn with rff.{key} = {made!r}, but params.yaml says {wanted!r}; "
                "run dvc repro, or put the section `rff` back"
            )
