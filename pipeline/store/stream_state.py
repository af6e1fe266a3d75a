"""The state of a stream after a step: sums that add, and what they rest on. No row, no image, no path.

Everything that the next step needs of all earlier ones is here, whatever their number, so their images may be gone.

===================  =================  =============================================================
``count``, ``weight``, (1, K)           of each class seen: number of rows, Σω and Σω²
``squared_weight``
``sums``             (1, K, r)          Σωδ of each class, along the r directions kept (`kernel_directions`)
``scatter``          (1, r(r+1)/2)      Σωδδᵀ, lower triangle by columns
``prior_means``      (1, K, r)          the source's means of the classes
``prior_count``      (1, K)             how many rows they count as
``W``, ``b``         (1, D, K), (1, K)  the classifier after the step, of all D features
``text``             (1, C, d')         text embeddings of the classes seen, then of the others
``rejection_…``      see `rejection`    the sums of `RejectionState`; only where images are rejected
``directions``       (1, K', d)         of the first K' classes of the prompts: those seen, the source's; likewise
===================  =================  =============================================================

Classes are numbered in the order in which the stream met them.
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
NAMES = {"seed": "seed", "sha256": "the basis"}  # of what is not a key of `rff` in params.yaml


@dataclass(frozen=True)
class StreamOrigin:
    """What the numbers of a state rest on; two states with the same origin may be continued by each other's steps."""

    source: str
    basis: dict[str, Any]  # its sha256, with D, sigma, convention and seed for messages
    method: dict[str, Any]  # the options
    backbones: dict[str, Any]  # `EmbeddingStore.backbone` of the "vision" and "language" rows

    @property
    def settings(self) -> dict[str, Any]:
        """The settings by the names that messages give them."""
        basis = {NAMES.get(key, f"rff.{key}"): value for key, value in self.basis.items()}
        return basis | {f"method option {key}": value for key, value in self.method.items()}


@dataclass(frozen=True, eq=False)
class StreamState:
    """A stream after a step."""

    step: str
    steps_before: tuple[str, ...]  # the first one first
    classes: tuple[str, ...]  # the K classes seen, in the order in which the stream met them
    prompts: Prompts  # of the classes seen, in their order, then of the domain's other classes
    origin: StreamOrigin
    statistics: ExactStatistics  # of all images of all steps so far
    classifier: Classifier  # of the K classes
    summary: dict[str, Any]  # for the drift of the next step: shares of the classes, mean confidence
    rejection: RejectionState | None = None  # of all images so far, where images are rejected
    # (K', d) of the `rejecting_classes`, where images are rejected: as long as the stream lasts a class has the same
    directions: Matrix64 | None = None

    @property
    def rejecting_classes(self) -> list[str]:
        """The K' classes by which images are rejected: those seen, then the source's others; K where none is."""
        return self.prompts.classes[: len(self.classes if self.directions is None else self.directions)]

    def require_origin(self, now: StreamOrigin) -> None:
        """Refuse to be continued or used on another basis or with other options, naming both sides."""
        for what, found, current in differences(self.origin.settings, now.settings):
            raise self._refusal(what, found, current)

    def require_prompts(self, prompts: Prompts, domain: str) -> None:
        """Refuse a domain that lacks a class, or describes it to CLIP in other words or by other weights."""
        names = self.rejecting_classes
        if absent := [name for name in names if name not in prompts.classes]:
            raise StoreError(
                f"{paths.stream_state(self.step)}: knows the class {absent[0]!r}, for which {domain} has no prompt; "
                "add it to the class_names of its dataset"
            )
        was, now = self.prompts.provenance.get("weights"), prompts.provenance.get("weights")
        if was != now:
            raise self._refusal("weights of the text tower", was, now)
        recorded, given = self.prompts.sentences(), prompts.sentences()
        for name in names:
            for was, now in zip_longest(recorded.get(name, ()), given.get(name, ())):
                if was != now:
                    raise self._refusal(f"the prompt of {name!r}", was, now)
        if not np.allclose(prompts.of(names).text, self.prompts.text[: len(names)], atol=1e-4):
            raise self._refusal("text embeddings", "its own", f"those of {domain}")

    def _refusal(self, what: str, found: object, now: object) -> StoreError:
        return StoreError(
            f"{paths.stream_state(self.step)}: made with {what} = {found!r}, now it is {now!r}; put it back, or run "
            "dvc repro where the earlier images are, or start another stream"
        )


def write_stream_state(path: Path, state: StreamState) -> None:
    """Write a state aside, then rename it."""
    statistics = state.statistics
    arrays: dict[str, npt.NDArray[Any]] = {
        **statistics.rows.to_arrays(),
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
    """Read a whole state, checked."""
    store = open_arrays(path, SCHEMA)
    classes = store.attribute("classes", list, of=str)
    K = len(classes)
    prior_means = store.read("prior_means", 0, shape=(K, None))
    width = int(prior_means.shape[1])
    shapes = {"sums": (K, width), "scatter": (width * (width + 1) // 2,)}  # the others have one number per class
    names = [field.name for field in fields(ClassStatistics)]
    arrays = {name: store.read(name, 0, shape=shapes.get(name, (K,))) for name in names}
    statistics = ExactStatistics(
        ClassStatistics.from_arrays(arrays),
        prior_means,
        store.read("prior_count", 0, shape=(K,)),
        cast("Arithmetic", store.attribute("arithmetic", str)),
    )
    if not (np.isfinite(arrays["sums"]).all() and np.isfinite(prior_means).all()):
        raise unusable(path, "holds a number that is not finite")
    rejection = directions = None
    if REJECTION[0] in store.arrays:
        if "directions" not in store.arrays:
            raise unusable(path, "its sums of rejection are of an earlier version, and cannot be continued")
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
    """Return the classes that a stream has met, without reading its statistics."""
    return list(open_arrays(path, SCHEMA).attribute("classes", list, of=str))
