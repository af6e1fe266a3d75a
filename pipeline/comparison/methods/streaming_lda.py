"""Deep SLDA (Hayes & Kanan, 2020): running class means and one shared covariance, linear discriminants, no kernel.

w_c = Λμ_c, b_c = −½ μ_cᵀΛμ_c, Λ = [(1−ε)Σ + εI]⁻¹, ε = 1e-4.

Deviations from the authors: Rows are unit embeddings, so that ε means the same for every backbone, and may have
weights. The printed update of Σ weights a row by t/(t+1), where t is the number of all rows so far, and the released
code centres a class's first row at zero. Here t counts the rows of the class, so that Σ is exactly the within-class
covariance for any order of rows and tasks. Σ starts with the first task, not with a base set.

`streaming-lda` is fitted to the source, `streaming-lda-pseudo` to the target's weighted pseudo-labelled rows. A class
with no kept row has the source's mean. If no row was ever kept, Σ is 0 and the nearest source mean decides.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from pipeline.comparison.labelled_tasks import Fallback, TaskRows, peer_methods, target_test_rows
from pipeline.method import class_statistics
from pipeline.method.kernel_lda import Classifier, Regularisation, filled_means, solve
from pipeline.method.rows import Labels, Matrix64, unit_rows
from pipeline.problem.seed import Seed

SHRINKAGE = 1e-4  # ε
UNDIVIDED = Regularisation(SHRINKAGE, divide=False)


@dataclass(frozen=True, eq=False)
class Discriminants:
    """State after a task: the means (C, d) of the classes seen, and their classifier."""

    means: Matrix64
    classifier: Classifier


def fit(seed: Seed, tasks: Iterable[TaskRows], fallback: Fallback[Discriminants] | None) -> list[Discriminants]:
    """Return the discriminants after each task."""
    statistics = class_statistics.zeros(0, seed.basis.d)
    fitted = []
    for t, task in enumerate(tasks):
        statistics = statistics.grown(task.classes_seen)
        statistics.update(unit_rows(task.rows), task.labels, task.weights)
        means = filled_means(statistics.means(), fallback()[t].means if fallback else None)
        within = statistics.within()
        covariance = (1 - SHRINKAGE) * (within.triangle / (within.total or 1.0))
        classifier = solve(means, replace(within, triangle=covariance), UNDIVIDED, ridge=SHRINKAGE)
        fitted.append(Discriminants(means, classifier))
    return fitted


def predict(seed: Seed, fitted: Sequence[Discriminants]) -> list[Labels]:
    """Return the class (n,) of each test row after each task."""
    test = unit_rows(target_test_rows(seed))
    return [model.classifier.scores(test).argmax(axis=1) for model in fitted]


METHODS = peer_methods("streaming-lda", "streaming LDA", fit, predict)
