"""Deep SLDA (Hayes & Kanan, 2020): running class means and one shared covariance, linear discriminants, no kernel.

w_c = Λμ_c, b_c = −½ μ_cᵀΛμ_c, Λ = [(1−ε)Σ + εI]⁻¹, ε = 1e-4.

Deviations: rows are unit embeddings, so that ε means the same for every backbone (the authors take them as they
are). The printed update of Σ weighs a row by t/(t+1), t being all rows so far, and the released code takes a
class's first row about zero. Here the weight is the class's own, which makes Σ the within-class covariance
exactly: neither rows nor tasks have an order. There is no base set to start Σ from: the first task starts it.

`streaming-lda` is fitted to the source. `streaming-lda-pseudo` to the target's pseudo-labelled rows, weights and all; a
class with no kept row has the source's mean; where nothing was ever kept, Σ is 0: the nearest source mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pipeline.comparison.labelled_tasks import LabelledTask, pseudo_labelled_tasks, source_tasks
from pipeline.comparison.problem import ComparedMethod, SeedProblem
from pipeline.method import class_statistics, kernel_lda
from pipeline.method.class_statistics import ClassStatistics, Labels, Matrix64
from pipeline.method.kernel_lda import Classifier
from pipeline.method.zero_shot import unit_rows

SHRINKAGE = 1e-4


@dataclass(frozen=True, eq=False)
class Discriminants:
    """After a task: the means (K, d) of the classes seen, and their classifier."""

    means: Matrix64
    classifier: Classifier


def discriminants(
    tasks: Iterable[LabelledTask], d: int, fallback: Sequence[Discriminants] | None = None
) -> list[Discriminants]:
    """Return the discriminants after each task, folding in one after another.

    fallback: after each task, whose means stand in for those of classes without a row.
    """
    statistics = class_statistics.zeros(0, d)
    after = []
    for t, task in enumerate(tasks):
        statistics = statistics.grown(task.seen)
        class_statistics.add_rows(statistics, unit_rows(task.rows), task.labels, task.weights)
        means = kernel_lda.filled_means(statistics, fallback[t].means if fallback else None)
        after.append(Discriminants(means, _classifier(means, statistics)))
    return after


def _classifier(means: Matrix64, statistics: ClassStatistics) -> Classifier:
    covariance = statistics.within_scatter() / (statistics.total_weight or 1.0)
    return kernel_lda.discriminants(means, (1 - SHRINKAGE) * covariance, ridge=SHRINKAGE)


def of_source(problem: SeedProblem) -> list[Discriminants]:
    """Return the source's discriminants after each task."""
    key, d = "streaming-lda: source", problem.basis.d
    return problem.shared(key, lambda: discriminants(source_tasks(problem), d))


def of_pseudo_labels(problem: SeedProblem) -> list[Discriminants]:
    """Return the target's discriminants after each task; of the source only means are read."""
    return discriminants(pseudo_labelled_tasks(problem), problem.basis.d, of_source(problem))


def _predict(problem: SeedProblem, after: Sequence[Discriminants]) -> list[Labels]:
    test = unit_rows(problem.test.views["original"])
    return [model.classifier.scores(test).argmax(axis=1) for model in after]


METHODS = {
    "streaming-lda": ComparedMethod(
        lambda problem: _predict(problem, of_source(problem)), "streaming LDA", "peer"
    ),
    "streaming-lda-pseudo": ComparedMethod(
        lambda problem: _predict(problem, of_pseudo_labels(problem)),
        "streaming LDA, pseudo-labels",
        "peer",
    ),
}
