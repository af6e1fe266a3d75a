"""Independent implementation of the column "released code" in docs/method.md, float64, sample by sample.

Rows are features z (lists of float64 vectors), and nothing is vectorised over samples. A task is one batch: the
authors' program calls its update once per task, with all rows of the task.
"""

import copy

import numpy as np

from reference.basics import fused, margin_ratio, ratio, softmax, weight

RIDGE, FLOOR, WARM_START, SCALE = 1e-6, 0.2, 25.0, 1.0


class Model:
    def __init__(self, D):
        self.means, self.counts = {}, {}
        self.S = np.zeros((D, D))

    def warm_start(self, c, mean):
        self.means[c], self.counts[c] = np.array(mean), WARM_START

    def batch(self, rows, labels, weights):
        for z, c, w in zip(rows, labels, weights, strict=True):  # running weighted means
            count = self.counts.get(c, 0.0)
            mean = self.means.get(c, np.zeros(len(z)))
            if count + w > 0:
                self.means[c] = (count * mean + w * z) / (count + w)
                self.counts[c] = count + w
        for z, c, w in zip(rows, labels, weights, strict=True):  # centred on the mean so far
            self.S += w * np.outer(z - self.means[c], z - self.means[c])

    def logits(self, z, classes):
        inverse = np.linalg.pinv(self.S + RIDGE * np.eye(len(z)))
        return [-float((self.means[c] - z) @ inverse @ (self.means[c] - z)) for c in classes]


def source_models(tasks):
    """Return a copy of the model after each task, given a list of tasks (rows, labels)."""
    model, models = Model(len(tasks[0][0][0])), []
    for rows, labels in tasks:
        model.batch(rows, labels, [1.0] * len(rows))
        models.append(copy.deepcopy(model))
    return models


def adapt(models, tasks):
    """Return (labels, fused, weights) of each task and the target model after each task.

    Tasks are (classes, views, cosines): ``views`` is a list of lists of rows, and ``cosines`` are over all classes.
    """
    target = Model(len(tasks[0][1][0][0]))
    results, snapshots = [], []
    for source, (classes, views, cosines) in zip(models, tasks, strict=True):
        labels, fusions, weights = [], [], []
        for z, cosine in zip(views[0], cosines, strict=True):
            p = softmax(source.logits(z, classes))
            q = softmax([SCALE * cosine[c] for c in classes])
            mixed = fused(p, q, margin_ratio(p, q))
            fusions.append(mixed)
            labels.append(classes[mixed.index(max(mixed))])
            weights.append(weight(mixed, FLOOR))
        for c in classes:
            target.warm_start(c, source.means[c])
        rows = [z for view in views for z in view]
        target.batch(rows, labels * len(views), weights * len(views))
        results.append((labels, fusions, weights))
        snapshots.append(copy.deepcopy(target))
    return results, snapshots


def predict(model, rows, cosines, seen):
    """Return fused scores over the classes seen; the CLIP softmax is over all classes and then cut to these."""
    scores = []
    for z, cosine in zip(rows, cosines, strict=True):
        p = softmax(model.logits(z, seen))
        all_classes = softmax([SCALE * v for v in cosine])
        q = [all_classes[c] for c in seen]
        scores.append(fused(p, q, ratio(p, q)))
    return scores
