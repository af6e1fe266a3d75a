"""Basis files: a recipe gives the same basis again; damaged files and other draws are refused."""

import json
from dataclasses import replace

import numpy as np
import pytest

from pipeline.errors import StoreError
from pipeline.method.random_fourier_features import draw_basis
from pipeline.store.array_store import content_crc
from pipeline.store.basis_file import BasisRecipe, basis_digest, read_bases, write_bases

RECIPE = BasisRecipe(4, 70, "gamma", False, (0, 5), (0.1, 0.1))


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "b.json"
    write_bases(path, RECIPE, [basis_digest(RECIPE.draw(i)) for i in range(2)])
    return path


def test_a_recipe_gives_the_same_basis_again(file):
    bases = read_bases(file)
    assert bases.recipe == RECIPE
    expected = draw_basis(4, 70, 0.1, "gamma", 5)
    assert np.array_equal(bases.basis(1).omega, expected.omega)
    assert np.array_equal(bases.basis(1).beta, expected.beta)


def rewrite(file, **changes):
    """Change the file and update its checksum, as an attacker could."""
    content = json.loads(file.read_text()) | changes
    del content["checksum"]
    file.write_text(json.dumps({**content, "checksum": content_crc(content)}))


@pytest.mark.parametrize(
    "changes",
    [
        {"D": 10**12}, {"D": 0}, {"d": -4}, {"d_clip": 2**40}, {"sigmas": [0.1]}, {"sigmas": [0.1, float("nan")]},
        {"convention": "other"}, {"seeds": []}, {"more": 1}, {"widths": [4]}, {"weights": [[1.0]], "widths": [4]},
    ],
)  # fmt: skip
def test_impossible_recipes_are_refused_before_anything_is_drawn(file, changes):
    rewrite(file, **changes)
    with pytest.raises(StoreError, match="not a basis"):
        read_bases(file)


def test_a_machine_that_draws_another_basis_is_detected(file):
    rewrite(file, sha256=[basis_digest(RECIPE.draw(0)), "0" * 64])
    read_bases(file).basis(0)
    with pytest.raises(StoreError, match=r"seed 5; install .*constraints.txt.*dvc repro"):
        read_bases(file).basis(1)


def test_orthogonal_bases_are_recognised_despite_different_last_bits(tmp_path):
    """The last bits of a QR factorisation depend on the number of threads and on the processor."""
    path, recipe = tmp_path / "bases.json", replace(RECIPE, orthogonal=True)
    basis = recipe.draw(0)
    close = replace(basis, omega=np.nextafter(basis.omega, np.float32(np.inf)))
    different = replace(basis, omega=basis.omega * np.float32(1.01))
    digests = [basis_digest(other, rounded=True) for other in (basis, close, different)]
    assert digests[0] == digests[1] != digests[2]
    assert basis_digest(basis) != basis_digest(close)
    write_bases(path, recipe, [recipe.digest(recipe.draw(i)) for i in range(2)])
    np.testing.assert_array_equal(read_bases(path).basis(0).omega, basis.omega)
