"""Stage `basis@SOURCE`: the random Fourier bases, one per seed, shared by a source and its targets.

Writes cache/bases/SOURCE.json, the recipe of every seed's basis, and results/SUITE/bases/SOURCE.json, how well the
bases approximate their kernel on a sample of the source's vision rows. Where several vision models are joined, their
weights are chosen here, by source images that are held out (`backbone_weights`): the only use of labels.
"""

from __future__ import annotations

import numpy as np

from pipeline import paths
from pipeline.method.backbone_weights import column_factors
from pipeline.method.random_fourier_features import KernelError, kernel_error
from pipeline.method.rows import Matrix, unit_rows
from pipeline.problem.bases import basis_recipe
from pipeline.stage import Context, stage
from pipeline.store.basis_file import BasisRecipe, write_bases
from pipeline.write_aside import write_json

SAMPLE = 500  # rows on which the kernel is compared: 124,750 pairs


@stage(per=("sources",), reads=("language", "rff", "vision"))
def basis(context: Context, source: str) -> str:
    """Write cache/bases/SOURCE.json and results/SUITE/bases/SOURCE.json."""
    domain = context.project.labelled_domain(source)
    recipe = basis_recipe(domain, **context.params.rff.model_dump())
    bases = [recipe.draw(index) for index in range(len(recipe.seeds))]
    rows = domain.vision_rows("original")
    sample = np.asarray(rows[np.arange(0, len(rows), max(1, len(rows) // SAMPLE))[:SAMPLE]])
    errors = np.array([error_on(sample, recipe, index) for index in range(len(bases))])  # (S, 3)
    digests = [recipe.digest(drawn) for drawn in bases]
    write_bases(paths.bases(source), recipe, digests)
    names = ("kernel_rms", "kernel_max", "distance_rms")
    figures = {
        "D": recipe.D,
        "gamma": float(f"{bases[0].gamma:.6g}"),
        **{name: float(f"{value:.3g}") for name, value in zip(names, errors.mean(axis=0), strict=True)},
    }
    write_json(paths.basis_error(context.suite, source), figures)
    chosen = f"; weights {np.mean(recipe.weights, axis=0).round(2)}" if recipe.weights else ""
    return f"D {recipe.D}, relative error of distances {figures['distance_rms']:.1%}{chosen}"


def error_on(sample: Matrix, recipe: BasisRecipe, index: int) -> KernelError:
    """Return how far the basis of a seed is from its kernel on a sample of rows, weighted as in the kernel."""
    if recipe.weights:
        sample = unit_rows(sample) * column_factors(recipe.widths, recipe.weights[index])
    return kernel_error(recipe.draw_unweighted(index), sample)
