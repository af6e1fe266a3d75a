"""AnaCP (Momeni et al., arXiv 2511.13880): a closed-form projection that draws rows to spread-out class targets.

1. Targets t_c push neighbouring classes apart. The class means are whitened, 1 is added to each of their singular
   values, and the result is transformed back and scaled to length 1 (`spread_means`).
2. Contrastive projection: random features z = gelu(Rᵀx) of unit rows x, and Θ = (Σzzᵀ + λI)⁻¹ Σ z t_yᵀ, the ridge
   regression from z to the target of the row's class. There are three heads, each with its own R; u(x) is the mean of
   their outputs, scaled to length 1.
3. Classifier: 100 rows of each class are drawn from N(μ_c, Σ) with a covariance Σ shared by all classes, and a second
   ridge regression maps gelu(Sᵀu) to the class. It is refitted after each task, because Θ and the targets change.

Only sums are kept: of x and of z by class, Σ and Σzzᵀ.

Deviations from the authors' program: There are 1,500 features (`FEATURES`) instead of 5,000, as the title says, and λ
is scaled with them. Rows may have weights. Σ is the exact within-class covariance (theirs counts the rows of a task
twice from the second task on) plus 1e-4 in every task (theirs: in the first). Vanishing singular values stay zero,
because adding 1 to them would move all targets in a direction determined by rounding. There is no fine-tuning in the
first task, which needs gradients. As in their program, transforming back multiplies by Σ^(−½) again instead of Σ^½.

`anacp` is fitted to the source, `anacp-pseudo` to the target's weighted pseudo-labelled rows. A class with no kept row
is replaced by the source's mean, counted once for every source row of the class.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.special

from pipeline.comparison.labelled_tasks import Fallback, TaskRows, peer_methods, target_test_rows
from pipeline.method import class_statistics
from pipeline.method.class_statistics import ClassStatistics, symmetric
from pipeline.method.rows import BLOCK_IMAGES, Labels, Matrix64, Vector64, row_blocks, unit_rows
from pipeline.problem.seed import Seed

FEATURES = 1500  # the authors' is 5,000
RIDGE = 0.02  # λ as a share of FEATURES: the authors' 100 of 5,000
HEADS = 3
REPLAYED = 100  # rows drawn per class
JITTER = 1e-4  # added to the variances
VANISHING = 1e-9  # bound below which singular values count as zero, as a share of the largest


@dataclass(frozen=True, eq=False)
class Fitted:
    """State after a task: scores (n, C) of the test rows, Σω (C,), means of x (C, d) and of each head's z (C, M)."""

    scores: Matrix64
    weight: Vector64
    means: Matrix64
    features: list[Matrix64]


def draws(seed: Seed) -> list[Matrix64]:
    """Return each head's R (d, M), followed by the classifier's S (d, M), drawn with the seed's number."""
    rng, size = np.random.default_rng(seed.number), (seed.basis.d, FEATURES)
    return seed.shared("anacp: projections", lambda: [rng.standard_normal(size) for _ in range(HEADS + 1)])


def gelu(x: Matrix64) -> Matrix64:
    """Return x Φ(x), where Φ is the normal distribution function."""
    return np.asarray(x * scipy.special.ndtr(x))


def fit(seed: Seed, tasks: Iterable[TaskRows], fallback: Fallback[Fitted] | None) -> list[Fitted]:
    """Return the scores and sums after each task."""
    *heads, S = draws(seed)
    test = unit_rows(target_test_rows(seed))
    plain = class_statistics.zeros(0, seed.basis.d)
    lifted = [class_statistics.zeros(0, FEATURES) for _ in heads]
    fitted = []
    for t, task in enumerate(tasks):
        plain = plain.grown(task.classes_seen)
        lifted = [sums.grown(task.classes_seen) for sums in lifted]
        for block in row_blocks(len(task.rows), BLOCK_IMAGES):
            x, y, w = unit_rows(task.rows[block]), task.labels[block], task.weights[block]
            plain.update(x, y, w)
            for sums, R in zip(lifted, heads, strict=True):
                sums.update(gelu(x @ R), y, w)
        empty = np.flatnonzero(plain.weight <= 0)
        if len(empty) and fallback is not None:
            source = fallback()[t]
            plain.update(source.means[empty], empty, source.weight[empty])
            for sums, means in zip(lifted, source.features, strict=True):
                sums.update(means[empty], empty, source.weight[empty])
        rng = np.random.default_rng([seed.number, t])
        scores = task_scores(plain, lifted, heads, S, test=test, rng=rng)
        features = [sums.means() for sums in lifted]
        fitted.append(Fitted(scores, plain.weight.copy(), plain.means(), features))
    return fitted


def task_scores(
    plain: ClassStatistics,
    lifted: Sequence[ClassStatistics],
    heads: Sequence[Matrix64],
    S: Matrix64,
    *,
    test: Matrix64,
    rng: np.random.Generator,
) -> Matrix64:
    """Return the scores (n, C) of test rows (n, d), given the sums so far; ``rng`` draws the replayed rows."""
    means = plain.means()
    covariance = symmetric(plain.within().triangle) / plain.total_weight
    covariance[np.diag_indices_from(covariance)] += JITTER
    targets = spread_means(means, covariance)
    thetas = [ridge_regression(symmetric(sums.scatter), sums.sums.T @ targets) for sums in lifted]

    def features(x: Matrix64) -> Matrix64:
        outputs = [unit_rows(gelu(x @ R) @ theta) for R, theta in zip(heads, thetas, strict=True)]
        return gelu(np.mean(outputs, axis=0) @ S)

    labels = np.repeat(np.arange(len(means)), REPLAYED)
    noise = rng.standard_normal((len(labels), means.shape[1]))
    replayed = means[labels] + noise @ scipy.linalg.cholesky(covariance, lower=True).T
    h = features(replayed)
    W = ridge_regression(h.T @ h, h.T @ np.eye(len(means))[labels])
    return features(test) @ W


def spread_means(means: Matrix64, covariance: Matrix64) -> Matrix64:
    """Return the unit targets (C, d) of class means (C, d) under a covariance (d, d)."""
    # divide and conquer, because the default driver fails on the many equal eigenvalues of a task with few rows
    eigenvalues, V = scipy.linalg.eigh(covariance, driver="evd")
    whitening = (V / np.sqrt(eigenvalues)) @ V.T  # Σ^(−½)
    centre = means.mean(axis=0)
    U, singular, Vh = np.linalg.svd((means - centre) @ whitening, full_matrices=False)
    spread = np.where(singular > VANISHING * singular.max(initial=0), singular + 1, 0)
    return unit_rows(((U * spread) @ Vh) @ whitening + centre)


def ridge_regression(scatter: Matrix64, right: Matrix64) -> Matrix64:
    """Return (scatter + λI)⁻¹ right (M, k)."""
    regular = scatter.copy()
    regular[np.diag_indices_from(regular)] += RIDGE * len(scatter)
    return np.asarray(scipy.linalg.solve(regular, right, assume_a="pos", check_finite=False))


def predict(seed: Seed, fitted: Sequence[Fitted]) -> list[Labels]:  # noqa: ARG001
    """Return the class (n,) of each test row after each task."""
    return [model.scores.argmax(axis=1) for model in fitted]


METHODS = peer_methods("anacp", f"AnaCP ({FEATURES:,} features)", fit, predict)
