"""TransCLIP (Zanella et al., NeurIPS 2024): a Gaussian mixture of all unlabelled rows, held near CLIP's opinion.

Every class is a Gaussian; the classes share a diagonal covariance. Assignments z (`class_gaussians`), means
μ_c = unit(Σzx / Σz) and variances σ² = Σ z (x − μ)² / n follow each other ten times, from the means of the eight rows
that CLIP is surest of in each class and variances 1/d. This is the authors' zero-shot program; CLIP's logit scale is
the model's own (100 in theirs).

Where continual use forces a choice: the rows are those of one task and z covers the task's classes. A class's mean is
final after its task. σ² of the classes seen is the mean of the tasks' σ², weighted by their rows, which is what the
formula gives for all rows at once. Test rows get one assignment step over the classes seen, without neighbours.

`transclip` and `transclip-pseudo` are the two forms of `unlabelled_tasks`. No class is ever without a row: z > 0.
"""

from __future__ import annotations

import numpy as np

from pipeline.comparison import class_gaussians as gaussians
from pipeline.comparison.unlabelled_tasks import Space, UnlabelledTask, transductive_methods
from pipeline.method.rows import Labels, Matrix64, Vector64, unit_rows

MOST_CONFIDENT = 8  # rows of each class that the first mean is taken of


def run(space: Space) -> list[Labels]:
    """Return the class (n,) of each test row after each task."""
    means: list[Matrix64] = []
    summed, n = np.zeros(space.test.shape[1]), 0
    predictions: list[Labels] = []
    for task in space.tasks:
        mu, variances = fit(task)
        means.append(mu)
        summed, n = summed + len(task.rows) * variances, n + len(task.rows)
        likelihood = gaussians.log_likelihood(space.test, np.vstack(means), summed[None] / max(n, 1))
        logits = space.test_logits[:, : task.classes_seen] + likelihood / gaussians.TEMPERATURE
        predictions.append(logits.argmax(axis=1))
    return predictions


def fit(task: UnlabelledTask) -> tuple[Matrix64, Vector64]:
    """Return the means (c, d) and shared variances (d,) of a task; the anchors if it has no row."""
    n, d = task.rows.shape
    variances = np.full(d, 1 / d)
    if n == 0:
        return task.anchors, variances
    z, neighbours = task.prior, gaussians.neighbour_sums(task)
    mu = first_means(task)
    for _ in range(gaussians.ITERATIONS):
        z = gaussians.assignments(gaussians.log_likelihood(task.rows, mu, variances[None]), task.prior, z, neighbours)
        mean, square = gaussians.weighted_moments(task.rows, z)
        mu = unit_rows(mean)
        # Σ_c z_c (x − μ_c)² = Σ_c (Σ z_c) (mean of x² − 2 μ_c · mean of x + μ_c²)
        spread = square - 2 * mu * mean + mu**2
        variances = np.maximum(z.sum(axis=0) @ spread / n, 0)
    return mu, variances


def first_means(task: UnlabelledTask) -> Matrix64:
    """Return the unit means (c, d) of the rows that the first opinion is surest of, weighted by it."""
    best = np.argsort(-task.prior, axis=0, kind="stable")[:MOST_CONFIDENT]
    sure = np.zeros_like(task.prior)
    np.put_along_axis(sure, best, np.take_along_axis(task.prior, best, axis=0), axis=0)
    return unit_rows(gaussians.weighted_moments(task.rows, sure)[0])


METHODS = transductive_methods("transclip", "TransCLIP (task by task)", run)
