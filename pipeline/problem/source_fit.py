"""Kernel LDA of a labelled source, seed by seed, and how far each seed's basis is from its kernel."""

from dataclasses import dataclass, replace

from pipeline.method.backbone_weights import column_factors
from pipeline.method.kernel_directions import lifted
from pipeline.method.random_fourier_features import KernelError, kernel_error
from pipeline.method.rows import Matrix, RowReduction, take, unit_rows
from pipeline.method.source_model import SourceModel, fit_source
from pipeline.method.variants import MethodOptions
from pipeline.problem.domain import LabelledDomain
from pipeline.store.array_layout import ArrayLayout
from pipeline.store.basis_file import Bases, BasisRecipe
from pipeline.store.source_store import write_scatters


@dataclass(frozen=True, eq=False)
class SourceFit:
    """The labelled rows of a source, and what they are fitted with, seed by seed."""

    domain: LabelledDomain
    bases: Bases
    options: MethodOptions

    @property
    def views(self) -> list[str]:
        """The views that enter the source statistics: those asked for that the domain was embedded in."""
        return [view for view in self.options.views_of_source if view in self.domain.vision.views]

    @property
    def width(self) -> int:
        """Columns of the statistics."""
        return self.bases.width(self.options)

    def fit_seed(self, index: int, reduce_rows: RowReduction, *, scatters: ArrayLayout | None) -> list[SourceModel]:
        """Write a seed's scatters into the store under way; return its models after each task without them."""
        domain, basis = self.domain, self.bases.reduced(index, self.options)
        train = domain.train_index(domain.seeds[index])
        models = fit_source(
            basis,
            domain.views_at(train, self.views),
            domain.labels[train],
            domain.class_sets,
            self.options,
            clip=take(domain.clip_rows, train),
            reduce_rows=reduce_rows,
        )
        return write_scatters(
            scatters, index, (replace(model, classifier=lifted(basis, model.classifier)) for model in models)
        )


def draw_seed(index: int, _: RowReduction, *, recipe: BasisRecipe, sample: Matrix) -> tuple[str, float, KernelError]:
    """Return digest, gamma and kernel error, on a sample of rows weighted as in the kernel, of a seed's basis."""
    basis = recipe.draw(index)
    digest, gamma = recipe.digest(basis), basis.gamma
    if recipe.weights:
        sample = unit_rows(sample) * column_factors(recipe.widths, recipe.weights[index])
        basis = recipe.draw_unweighted(index)
    return digest, gamma, kernel_error(basis, sample)
