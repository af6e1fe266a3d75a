"""Naive oracle of kernel LDA, eqs. (11)–(13), on z itself, one sample and one class at a time."""

import numpy as np


def regularised(A, ridge):
    return A + ridge * np.trace(A) / len(A) * np.eye(len(A))


def scores(rows, means, A):
    inverse = np.linalg.inv(A)
    return np.array([[z @ inverse @ mu - 0.5 * mu @ inverse @ mu for mu in means] for z in rows])


def mahalanobis(rows, means, A):
    inverse = np.linalg.inv(A)
    return np.array([[-float((mu - z) @ inverse @ (mu - z)) for mu in means] for z in rows])


def oas(S, n):
    """Return the shrinkage of Chen et al. (2010), eq. (23), as printed."""
    p = len(S)
    tr, tr2 = np.trace(S), np.trace(S @ S)
    rho = ((1 - 2 / p) * tr2 + tr**2) / ((n + 1 - 2 / p) * (tr2 - tr**2 / p))
    return min(rho, 1.0)


def rao_blackwell_ledoit_wolf(S, n):
    """Return the shrinkage of Chen et al. (2010), eq. (17)."""
    p = len(S)
    tr, tr2 = np.trace(S), np.trace(S @ S)
    return min(((n - 2) / n * tr2 + tr**2) / ((n + 2) * (tr2 - tr**2 / p)), 1.0)
