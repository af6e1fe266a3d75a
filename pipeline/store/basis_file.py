"""A basis as its recipe: (d, D, kernel, seed) decide every number, so the numbers themselves need not be kept.

At D = 6000 and d = 768 a basis is 18 MB per seed and drawn in a quarter of a second. The file keeps a digest of each,
so that another version of NumPy that draws differently is noticed and never mixed with statistics of the old draw.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from pipeline.errors import StoreError
from pipeline.method.random_fourier_features import Basis, Convention, draw_ensemble
from pipeline.store.array_store import ArrayStore
from pipeline.store.seal import content_crc
from pipeline.write_aside import write_aside

MOST_NUMBERS = 2**32  # of one seed's basis: 17 GB


@dataclass(frozen=True)
class BasisRecipe:
    """What a basis is drawn from, for every seed; ``sigmas`` differ only under `median`."""

    d: int
    D: int
    convention: Convention
    orthogonal: bool
    seeds: tuple[int, ...]
    sigmas: tuple[float, ...]
    members: int = 1  # bases of an ensemble, D columns each
    d_clip: int = 0  # width of CLIP's embeddings, which may enter the kernel
    # rff.convention and rff.sigma as params.yaml had them: under `median` the numbers above say neither
    asked_convention: str = ""
    asked_sigma: float = 0.0

    def draw(self, index: int) -> Basis:
        """Draw the basis of the seed at ``index``."""
        return draw_ensemble(
            self.d,
            self.D,
            self.sigmas[index],
            self.convention,
            self.seeds[index],
            orthogonal=self.orthogonal,
            members=self.members,
            d_clip=self.d_clip,
        )


def basis_digest(basis: Basis, *, rounded: bool = False) -> str:
    """Return sha256 of a basis's numbers; rounded: of their first twelve bits, which another BLAS leaves alone."""
    arrays: list[npt.NDArray[Any]] = [basis.omega, basis.beta]
    arrays += [] if basis.clip is None else [basis.clip]
    if rounded:
        arrays = [part for array in arrays for part in _twelve_bits(array)]
    return hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()


def _twelve_bits(numbers: npt.NDArray[np.floating]) -> tuple[npt.NDArray[np.int32], ...]:
    mantissa, exponent = np.frexp(numbers)
    return np.rint(4096 * mantissa).astype(np.int32), exponent.astype(np.int32)


def write_bases(path: Path, recipe: BasisRecipe, digests: list[str]) -> None:
    """Write the recipe and the digest of every seed's basis."""
    content: dict[str, Any] = {**recipe.__dict__, "sha256": digests}
    content["checksum"] = content_crc(content)
    with write_aside(path) as aside:
        aside.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


@dataclass(frozen=True)
class Bases:
    """The bases of a file, drawn when asked for."""

    path: Path
    recipe: BasisRecipe
    digests: tuple[str, ...]

    def require_of(self, store: ArrayStore) -> None:
        """Raise a `StoreError` unless the model in ``store`` was made under these bases."""
        if store.attribute("bases", list, of=str) != list(self.digests):
            raise StoreError(
                f"{store.path}: made under other bases than {self.path} has now; run dvc repro"
            )

    def basis(self, index: int) -> Basis:
        """Return the basis of the seed at ``index``, checked against the file."""
        drawn = self.recipe.draw(index)
        # orthogonal columns come from a QR factorisation, whose last bits are the machine's
        if basis_digest(drawn, rounded=self.recipe.orthogonal) != self.digests[index]:
            raise StoreError(
                f"{self.path}: this machine draws another basis for seed {self.recipe.seeds[index]}; "
                "install the versions in constraints.txt, or run dvc repro to make everything anew"
            )
        return drawn


def read_bases(path: Path) -> Bases:
    """Read what `write_bases` wrote: a flipped bit, or numbers that no basis has, are a `StoreError`."""
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        checksum = content.pop("checksum")
        if checksum != content_crc(content):
            raise StoreError(
                f"{path}: damaged (the checksum is wrong); run dvc repro --force basis"
            )
        digests = tuple(content.pop("sha256"))
        content |= {key: tuple(content[key]) for key in ("seeds", "sigmas")}
        recipe = BasisRecipe(**content)
        _check(recipe, digests)
    except FileNotFoundError:
        raise StoreError(f"{path}: no such file; run dvc repro or dvc pull") from None
    except (ValueError, KeyError, TypeError, AttributeError, OSError, RecursionError):
        raise StoreError(f"{path}: not a basis; run dvc repro") from None
    return Bases(path, recipe, digests)


def _check(recipe: BasisRecipe, digests: tuple[str, ...]) -> None:
    """Raise `ValueError` where a recipe cannot have been written by us: nothing absurd is ever drawn."""
    sizes = (recipe.d, recipe.D, recipe.members, recipe.d_clip, *recipe.seeds)
    if any(type(size) is not int or size < 0 for size in sizes) or not recipe.d * recipe.D:
        raise ValueError("sizes")
    if (recipe.d + recipe.d_clip) * recipe.D * recipe.members > MOST_NUMBERS or not recipe.members:
        raise ValueError("more numbers than any basis has")
    if any(type(sigma) is not float or not 0 < sigma < math.inf for sigma in recipe.sigmas):
        raise ValueError("sigmas")
    if recipe.convention not in get_args(Convention) or type(recipe.orthogonal) is not bool:
        raise ValueError("kind")
    if type(recipe.asked_convention) is not str or type(recipe.asked_sigma) is not float:
        raise ValueError("what was asked for")
    counts = {len(recipe.seeds), len(recipe.sigmas), len(digests)}
    if len(counts) != 1 or not recipe.seeds or any(type(digest) is not str for digest in digests):
        raise ValueError("one sigma and one digest for each seed")
