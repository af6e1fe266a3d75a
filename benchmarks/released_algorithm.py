"""Implement the algorithm of the authors' released code, as described in docs/method.md, without using `pipeline`.

It uses float64 features, the full product of each task's centred rows, a pseudo-inverse after each task, and
Mahalanobis products sample by sample. It is the baseline of `benchmarks.statistics` and is not meant to be fast.
"""

from __future__ import annotations

import numpy as np
import torch

RIDGE, FLOOR, WARM_START = 1e-6, 0.2, 25.0


class Model:
    """Running means and one raw scatter."""

    def __init__(self, D: int) -> None:
        self.means: dict[int, torch.Tensor] = {}
        self.counts: dict[int, float] = {}
        self.scatter = torch.zeros(D, D, dtype=torch.float64)
        self.inverse = torch.zeros(D, D, dtype=torch.float64)

    def add_task(self, z: torch.Tensor, labels: list[int], weights: torch.Tensor) -> None:
        """Move the means, then add the scatter of a task's rows about them."""
        for c in set(labels):
            mask = torch.tensor([label == c for label in labels])
            count, mean = self.counts.get(c, 0.0), self.means.get(c, torch.zeros(z.shape[1]))
            total = count + float(weights[mask].sum())
            self.means[c] = (count * mean + (weights[mask, None] * z[mask]).sum(0)) / total
            self.counts[c] = total
        centred = z - torch.stack([self.means[c] for c in labels])
        self.scatter += (weights[:, None] * centred).T @ centred

    def invert(self) -> None:
        """Update the pseudo-inverse of the regularised scatter; call it once per task."""
        eye = torch.eye(len(self.scatter), dtype=torch.float64)
        self.inverse = torch.pinverse(self.scatter + RIDGE * eye)

    def logits(self, z: torch.Tensor, classes: list[int]) -> torch.Tensor:
        """Return −(μ−z)ᵀS⁻¹(μ−z) of one sample for ``classes``."""
        difference = torch.stack([self.means[c] for c in classes]) - z
        return -((difference @ self.inverse) * difference).sum(1)


def features(x: np.ndarray, omega: np.ndarray, beta: np.ndarray) -> torch.Tensor:
    """Return z(x) of rows (n, d), eq. (7)."""
    unit = torch.from_numpy(x / np.linalg.norm(x, axis=1, keepdims=True))
    return np.sqrt(2 / len(beta)) * torch.cos(unit @ torch.from_numpy(omega) + torch.from_numpy(beta))


def margin(p: torch.Tensor) -> float:
    """Return the difference between the two largest values."""
    top = torch.topk(p, min(2, len(p))).values
    return float(top[0] - top[1]) if len(top) > 1 else float(top[0])


def run(source, target, test, omega, beta) -> list[list[int]]:
    """Return the test predictions after each task.

    source: (rows, labels) per task; target: (classes, views, cosines) per task; test: (rows, cosines).
    """
    D = omega.shape[1]
    source_model, target_model = Model(D), Model(D)
    predictions: list[list[int]] = []
    classes_seen: list[int] = []
    for (rows, labels), (classes, views, cosines) in zip(source, target, strict=True):
        z = features(rows, omega, beta)
        source_model.add_task(z, list(labels), torch.ones(len(z), dtype=torch.float64))
        source_model.invert()
        _adapt(source_model, target_model, classes, [features(v, omega, beta) for v in views], cosines)
        target_model.invert()
        classes_seen += list(classes)
        predictions.append(_predict(target_model, features(test[0], omega, beta), test[1], classes_seen))
    return predictions


def _adapt(source: Model, target: Model, classes, views, cosines) -> None:
    labels, weights = [], []
    for z, cosine in zip(views[0], cosines, strict=True):
        p = torch.softmax(source.logits(z, list(classes)), 0)
        q = torch.softmax(torch.from_numpy(cosine[classes]), 0)
        total = margin(p) + margin(q)
        alpha = min(max(margin(p) / total if total else 0.5, 0.2), 0.8)
        fused = alpha * p + (1 - alpha) * q
        labels.append(int(classes[int(fused.argmax())]))
        entropy = float(-(fused * torch.log(fused.clamp_min(1e-300))).sum())
        weights.append(max(1 - entropy / np.log(len(classes)), FLOOR))
    for c in classes:
        target.means[int(c)], target.counts[int(c)] = source.means[int(c)].clone(), WARM_START
    weight = torch.tensor(weights * len(views), dtype=torch.float64)
    target.add_task(torch.cat(views), labels * len(views), weight)


def _predict(model: Model, rows, cosines, classes_seen: list[int]) -> list[int]:
    predicted = []
    for z, cosine in zip(rows, cosines, strict=True):
        p = torch.softmax(model.logits(z, classes_seen), 0)
        q = torch.softmax(torch.from_numpy(cosine), 0)[classes_seen]
        alpha = float(p.max() / (p.max() + q.max()))
        predicted.append(classes_seen[int((alpha * p + (1 - alpha) * q).argmax())])
    return predicted
