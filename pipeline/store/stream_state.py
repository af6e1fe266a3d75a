"""Store the state of a stream after a step: additive sums and their origin, without rows, images or paths.

The next step needs nothing else from any earlier step, so the earlier images may be deleted.

===================  =================  =============================================================
``count``, ``weight``, (1, K)           number of rows, Σω and Σω² of each class seen
``squared_weight``
``sums``             (1, K, r)          Σωδ of each class, along the r directions kept (`kernel_directions`)
``scatter``          (1, r(r+1)/2)      Σωδδᵀ, lower triangle by columns
``prior_means``      (1, K, r)          the source's class means
``prior_count``      (1, K)             number of rows that each of them counts as
``W``, ``b``         (1, D, K), (1, K)  the classifier after the step, on all D features
``text``             (1, C, d')         text embeddings of the classes seen, then of the others
``rejection_…``      see `rejection`    the sums of `RejectionState`; only if images are rejected
``directions``       (1, K', d)         for the first K' classes of ``text``; only if images are rejected
===================  =================  =============================================================

Classes are numbered in the order in which they first appeared in the stream.
"""

from dataclasses import dataclass, fields
from itertools import zip_longest
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from pipeline import paths
from pipeline.errors import StoreError
from pipeline.method.class_statistics import ClassStatistics
from pipeline.method.kernel_lda import Classifier
from pipeline.method.rejection import RejectionState
from pipeline.method.rows import Matrix64
from pipeline.method.task_statistics import ExactStatistics
from pipeline.method.variants import Arithmetic
from pipeline.store.array_store import differences, open_arrays, unusable, write_arrays
from pipeline.store.prompt_store import Prompts, prompts_of
from pipeline.store.target_store import REJECTION

SCHEMA = "referee-stream/2"
NAMES = {"seed": "seed", "sha256": "the basis"}  # names of settings that are not keys of `rff` in params.yaml


@dataclass(frozen=True)
class StreamOrigin:
    """The inputs on which a state's numbers depend; a step may only continue a state of the same origin."""

    source: str
    basis: dict[str, Any]  # its sha256, and D, sigma, convention and seed for messages
    method: dict[str, Any]  # options of the method
    backbones: dict[str, Any]  # `EmbeddingStore.backbone` of the "vision" and "language" rows

    @property
    def settings(self) -> dict[str, Any]:
        """The settings by the names used in messages."""
        basis = {NAMES.get(key, f"rff.{key}"): value for key, value in self.basis.items()}
        return basis | {f"method option {key}": value for key, value in self.method.items()}


@dataclass(frozen=True, eq=False)
class StreamState:
    """The state of a stream after a step."""

    step: str
    steps_before: tuple[str, ...]  # oldest first
    classes: tuple[str, ...]  # the K classes seen, in order of first appearance
    prompts: Prompts  # of the classes seen, in this order, then of the domain's other classes
    origin: StreamOrigin
    statistics: ExactStatistics  # over the images of all steps so far
    classifier: Classifier  # for the K classes
    summary: dict[str, Any]  # class shares and mean confidence, for the drift of the next step
    rejection: RejectionState | None = None  # over all images so far; None if images are never rejected
    # (K', d) for the `rejecting_classes`, if images are rejected; a class keeps its direction throughout the stream
    directions: Matrix64 | None = None

    @property
    def rejecting_classes(self) -> list[str]:
        """The K' classes used for rejection: the K seen, then the source's others; K' = K if nothing is rejected."""
        return self.prompts.classes[: len(self.classes if self.directions is None else self.directions)]

    def require_origin(self, origin: StreamOrigin) -> None:
        """Raise StoreError naming both values unless the state has this origin."""
        for setting, recorded, current in differences(self.origin.settings, origin.settings):
            raise self._mismatch(setting, recorded, current)

    def require_prompts(self, prompts: Prompts, domain: str) -> None:
        """Raise StoreError if a domain lacks a class, or has other prompts or text weights than the state."""
        names = self.rejecting_classes
        if absent := [name for name in names if name not in prompts.classes]:
            raise StoreError(
                f"{paths.stream_state(self.step)}: knows the class {absent[0]!r}, for which {domain} has no prompt; "
                "add it to the class_names of its dataset"
            )
        recorded, current = self.prompts.provenance.get("weights"), prompts.provenance.get("weights")
        if recorded != current:
            raise self._mismatch("weights of the text tower", recorded, current)
        old_sentences, new_sentences = self.prompts.sentences(), prompts.sentences()
        for name in names:
            for old, new in zip_longest(old_sentences.get(name, ()), new_sentences.get(name, ())):
                if old != new:
                    raise self._mismatch(f"the prompt of {name!r}", old, new)
        if not np.allclose(prompts.for_classes(names).text, self.prompts.text[: len(names)], atol=1e-4):
            raise self._mismatch("text embeddings", "its own", f"those of {domain}")

    def _mismatch(self, setting: str, recorded: object, current: object) -> StoreError:
        return StoreError(
            f"{paths.stream_state(self.step)}: made with {setting} = {recorded!r}, now it is {current!r}; put it back, "
            "or run dvc repro where the earlier images are, or start another stream"
        )


def write_stream_state(path: Path, state: StreamState) -> None:
    """Write a state."""
    statistics = state.statistics
    arrays: dict[str, npt.NDArray[Any]] = {
        **statistics.totals.to_arrays(),
        "prior_means": statistics.prior_means,
        "prior_count": statistics.prior_count,
        "W": state.classifier.W,
        "b": state.classifier.b,
        "text": state.prompts.text,
    }
    if state.rejection is not None and state.directions is not None:
        sums = (state.rejection.embedding, state.rejection.moments, state.rejection.histogram)
        arrays |= dict(zip(REJECTION, sums, strict=True)) | {"directions": state.directions}
    attributes = {
        "step": state.step,
        "steps_before": list(state.steps_before),
        "classes": list(state.classes),
        "prompts": state.prompts.attributes,
        **vars(state.origin),
        "arithmetic": statistics.arithmetic,
        "summary": state.summary,
    }
    write_arrays(path, SCHEMA, {name: values[None] for name, values in arrays.items()}, attributes)


def read_stream_state(path: Path) -> StreamState:
    """Read and validate a state."""
    store = open_arrays(path, SCHEMA)
    classes = store.attribute("classes", list, item_type=str)
    K = len(classes)
    prior_means = store.read("prior_means", 0, shape=(K, None))
    width = int(prior_means.shape[1])
    shapes = {"sums": (K, width), "scatter": (width * (width + 1) // 2,)}  # all others have one number per class
    names = [field.name for field in fields(ClassStatistics)]
    arrays = {name: store.read(name, 0, shape=shapes.get(name, (K,))) for name in names}
    statistics = ExactStatistics(
        ClassStatistics.from_arrays(arrays),
        prior_means,
        store.read("prior_count", 0, shape=(K,)),
        cast("Arithmetic", store.attribute("arithmetic", str)),
    )
    if not (np.isfinite(arrays["sums"]).all() and np.isfinite(prior_means).all()):
        raise unusable(path, "has a number that is not finite")
    rejection = directions = None
    if REJECTION[0] in store.arrays:
        if "directions" not in store.arrays:
            raise unusable(path, "its rejection sums are from an earlier version and cannot be continued")
        rejection = RejectionState(*(store.read(name, 0) for name in REJECTION))
        directions = store.read("directions", 0, shape=(rejection.moments.shape[1], None))
    basis, method, backbones = (store.attribute(name, dict) for name in ("basis", "method", "backbones"))
    return StreamState(
        step=store.attribute("step", str),
        steps_before=tuple(store.attribute("steps_before", list)),
        classes=tuple(classes),
        prompts=prompts_of(store, store.attribute("prompts", dict)),
        origin=StreamOrigin(store.attribute("source", str), basis, method, backbones),
        statistics=statistics,
        classifier=Classifier(store.read("W", 0, shape=(None, K)), store.read("b", 0, shape=(K,))),
        summary=store.attribute("summary", dict),
        rejection=rejection,
        directions=directions,
    )


def read_stream_classes(path: Path) -> list[str]:
    """Return the classes seen by a stream, without reading its statistics."""
    return list(open_arrays(path, SCHEMA).attribute("classes", list, item_type=str))
