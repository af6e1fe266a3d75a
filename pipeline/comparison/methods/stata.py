"""StatA (Zanella et al., CVPR 2025): TransCLIP's mixture with its parameters anchored to the text embeddings.

Every class is a Gaussian with its own diagonal covariance. The anchors are the class's text embedding t_c and
Σ⁰ = Σ ŷ (x − t)² / n:

    β_c = n_c / (1 + n_c)                  n_c: number of rows whose largest z is c
    μ_c = unit(β_c unit(Σzx / Σz) + (1 − β_c) t_c)
    Σ_c = β_c Σz(x − μ_c)² / Σz + (1 − β_c) (Σ⁰ + (t_c − μ_c)²)

A class without rows therefore stays at its anchors. Assignments z (as in `transclip`) and parameters are updated in
turn ten times, starting from the anchors.

Deviations from the authors' program: Likelihoods include their log-determinant, and variances have the floor described
in `transclip`. CLIP's logit scale is the model's own (100 in theirs). Σ⁰ is divided once by n (theirs divides once per
chunk of 2,500 rows). Choices for continual use: The rows are those of one task and z covers the task's classes. A class
is final after its task. Test rows get one assignment step over the classes seen, without neighbours.

`stata` and `stata-pseudo` are the two forms of `unlabelled_tasks`; the anchors of the second are the source's means.
"""

import numpy as np

from pipeline.comparison.methods import transclip
from pipeline.comparison.unlabelled_tasks import Space, UnlabelledTask, transductive_methods
from pipeline.method.rows import Labels, Matrix64, unit_rows

ALPHA = 1.0  # number of rows that an anchor counts as


def run(space: Space) -> list[Labels]:
    """Return the class (n,) of each test row after each task."""
    likelihoods: list[Matrix64] = []
    predictions: list[Labels] = []
    for task in space.tasks:
        likelihoods.append(transclip.log_likelihood(space.test, *fit(task)))
        logits = space.test_logits[:, : task.classes_seen] + np.hstack(likelihoods) / transclip.TEMPERATURE
        predictions.append(logits.argmax(axis=1))
    return predictions


def fit(task: UnlabelledTask) -> tuple[Matrix64, Matrix64]:
    """Return the means and the variances (c, d) of a task's classes."""
    n, d = task.rows.shape
    if n == 0:
        return task.anchors, np.full((len(task.classes), d), 1 / d)
    mean, square = transclip.weighted_moments(task.rows, task.prior)
    spread = _about(task.anchors, mean, square)
    anchor_variances = np.maximum(task.prior.sum(axis=0) @ spread / n, 0)  # Σ⁰, shared
    mu, variances = task.anchors, np.tile(anchor_variances, (len(task.classes), 1))
    z, neighbours = task.prior, transclip.neighbour_sums(task)
    for _ in range(transclip.ITERATIONS):
        z = transclip.assignments(transclip.log_likelihood(task.rows, mu, variances), task.prior, z, neighbours)
        count = np.bincount(z.argmax(axis=1), minlength=len(task.classes))
        beta = (count / (ALPHA + count))[:, None]
        mean, square = transclip.weighted_moments(task.rows, z)
        mu = unit_rows(beta * unit_rows(mean) + (1 - beta) * task.anchors)
        anchored = anchor_variances + (task.anchors - mu) ** 2
        variances = beta * _about(mu, mean, square) + (1 - beta) * anchored
    return mu, variances


def _about(centres: Matrix64, mean: Matrix64, square: Matrix64) -> Matrix64:
    """Return the mean of (x − centre)² (c, d), given the means of x and x²."""
    return np.maximum(square - 2 * centres * mean + centres**2, 0)


METHODS = transductive_methods("stata", "StatA (task by task)", run)
