"""Store a basis as the recipe (d, D, kernel, seed) from which it is drawn.

At D = 6000 and d = 768 a basis is 18 MB per seed and drawn in a quarter of a second. The file also has a digest of
each basis, so that a NumPy version that draws other numbers is detected before they mix with existing statistics.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from pydantic import ConfigDict, Field, TypeAdapter

from pipeline.errors import StoreError
from pipeline.method.backbone_weights import weighted
from pipeline.method.kernel_directions import directions_kept, reduced
from pipeline.method.random_fourier_features import Basis, Convention, draw_basis, kernel_gamma
from pipeline.method.variants import MethodOptions
from pipeline.store.array_store import ArrayStore, content_crc
from pipeline.write_aside import write_json

MAX_NUMBERS = 2**32  # maximum size of one seed's basis, 17 GB

Count = Annotated[int, Field(gt=0, le=MAX_NUMBERS)]
SeedNumber = Annotated[int, Field(ge=0, lt=2**63)]
Sigma = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@dataclass(frozen=True)
class BasisRecipe:
    """Everything that determines the bases of all seeds, with bounds on values read from a file."""

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    d: Count  # width of the vision embeddings
    D: Count  # number of Fourier features
    convention: Convention  # how sigma is interpreted
    orthogonal: bool  # orthogonal instead of independent columns
    seeds: Annotated[tuple[SeedNumber, ...], Field(min_length=1)]
    sigmas: tuple[Sigma, ...]  # one per seed; they differ only under `rff.convention: median`
    d_clip: Annotated[int, Field(ge=0)] = 0  # width of CLIP's embeddings, if they are part of the kernel
    asked_convention: str = ""  # rff.convention and rff.sigma in params.yaml;
    asked_sigma: float = 0.0  # they differ from the values above under `median`
    # for several vision models side by side: the width of each, and per seed the weight of each
    widths: tuple[Count, ...] = ()
    weights: tuple[tuple[Weight, ...], ...] = ()

    def draw(self, seed_index: int) -> Basis:
        """Draw the basis of a seed."""
        basis = self.draw_unweighted(seed_index)
        return weighted(basis, self.widths, self.weights[seed_index]) if self.weights else basis

    def draw_unweighted(self, seed_index: int) -> Basis:
        """Draw the basis of a seed with equal weights for all vision models."""
        sigma, seed = self.sigmas[seed_index], self.seeds[seed_index]
        basis = draw_basis(self.d, self.D, sigma, self.convention, seed, orthogonal=self.orthogonal, d_clip=self.d_clip)
        return replace(basis, largest_gamma=self.largest_gamma)

    @property
    def largest_gamma(self) -> float:
        """The largest gamma of the seeds' kernels."""
        return max(kernel_gamma(sigma, self.convention) for sigma in self.sigmas)

    @property
    def is_possible(self) -> bool:
        """Whether a basis fits into memory, each seed has a sigma and weights, and the models' widths add up to d."""
        if (self.d + self.d_clip) * self.D > MAX_NUMBERS or len(self.sigmas) != len(self.seeds):
            return False
        if not self.weights:
            return not self.widths
        per_model = {len(weights) for weights in self.weights}
        return (len(self.weights), per_model, sum(self.widths)) == (len(self.seeds), {len(self.widths)}, self.d)

    def parameters(self) -> dict[str, Any]:
        """Return the parameters in params.yaml that led to this recipe, by their dotted names."""
        return {
            "data.seeds": list(self.seeds),
            "rff.D": self.D,
            "rff.sigma": self.asked_sigma,
            "rff.convention": self.asked_convention,
            "rff.orthogonal": self.orthogonal,
        }

    def digest(self, basis: Basis) -> str:
        """Return the digest that identifies a basis of this recipe."""
        # orthogonal columns come from a QR factorisation, whose last bits depend on the machine
        return basis_digest(basis, rounded=self.orthogonal)


def basis_digest(basis: Basis, *, rounded: bool = False) -> str:
    """Return the sha256 of a basis, if ``rounded`` of the first twelve bits of its numbers."""
    arrays: list[npt.NDArray[Any]] = [basis.omega, basis.beta]
    arrays += [] if basis.clip_omega is None else [basis.clip_omega]
    if rounded:
        parts = [np.frexp(array) for array in arrays]
        arrays = [x.astype(np.int32) for mantissa, exponent in parts for x in (np.rint(4096 * mantissa), exponent)]
    return hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()


def write_bases(path: Path, recipe: BasisRecipe, digests: Sequence[str]) -> None:
    """Write the recipe and the digest of each seed's basis."""
    content: dict[str, Any] = {**asdict(recipe), "sha256": list(digests)}
    if not recipe.weights:  # one vision model
        del content["widths"], content["weights"]
    content["checksum"] = content_crc(content)
    write_json(path, content)


@dataclass(frozen=True)
class Bases:
    """The bases described by a file, drawn on demand."""

    path: Path
    recipe: BasisRecipe
    digests: tuple[str, ...]

    def basis(self, seed_index: int) -> Basis:
        """Draw the basis of a seed and check it against the recorded digest."""
        basis = self.recipe.draw(seed_index)
        if self.recipe.digest(basis) != self.digests[seed_index]:
            raise StoreError(
                f"{self.path}: this machine draws another basis for seed {self.recipe.seeds[seed_index]}; "
                "install the versions in constraints.txt, or run dvc repro to recompute everything"
            )
        return basis

    def width(self, options: MethodOptions) -> int:
        """Return the number of columns of statistics computed with these bases, the same for every seed."""
        recipe = self.recipe
        d = recipe.d + (recipe.d_clip if options.clip_in_kernel else 0)
        return directions_kept(d, recipe.D, recipe.largest_gamma, options)

    def reduced(self, seed_index: int, options: MethodOptions) -> Basis:
        """Return the basis of a seed, reduced to the directions that matter for statistics."""
        return reduced(self.basis(seed_index), options)

    def require_model(self, store: ArrayStore) -> None:
        """Raise StoreError unless the model in ``store`` was made with these bases."""
        if store.attribute("bases", list, item_type=str) != list(self.digests):
            raise StoreError(f"{store.path}: made with other bases than {self.path} has now; run dvc repro")


def read_bases(path: Path) -> Bases:
    """Read a file written by `write_bases`; raise StoreError if it is damaged or inconsistent."""
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        checksum = content.pop("checksum")
        if checksum != content_crc(content):
            raise StoreError(f"{path}: damaged (the checksum is wrong); run dvc repro --force source")
        digests = TypeAdapter(tuple[str, ...]).validate_python(content.pop("sha256"))
        recipe = TypeAdapter(BasisRecipe).validate_json(json.dumps(content))
    except FileNotFoundError:
        raise StoreError(f"{path}: no such file; run dvc repro or dvc pull") from None
    except (ValueError, KeyError, TypeError, AttributeError, OSError, RecursionError):
        raise StoreError(f"{path}: not a basis; run dvc repro") from None
    if not recipe.is_possible or len(digests) != len(recipe.seeds):
        raise StoreError(f"{path}: not a basis; run dvc repro")
    return Bases(path, recipe, digests)
