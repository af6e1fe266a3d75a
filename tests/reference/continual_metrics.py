"""Naive oracles of docs/method.md step 10, forgetting, calibration and the covariance of final accuracies."""


def accuracy(predictions, labels, tasks, j):
    members = [i for i in range(len(labels)) if tasks[i] == j]
    return sum(predictions[i] == labels[i] for i in members) / len(members)


def matrix(predictions, labels, tasks):
    T = len(predictions)
    return [[accuracy(predictions[k], labels, tasks, j) if j <= k else None for j in range(T)] for k in range(T)]


def average(a, k):
    return sum(a[k][: k + 1]) / (k + 1)


def forgetting(a):
    T = len(a)
    return sum(max(a[k][j] for k in range(j, T)) - a[T - 1][j] for j in range(T - 1)) / (T - 1)


def ece(probabilities, labels, bins):
    total = 0.0
    for b in range(bins):
        inside = []
        for p, y in zip(probabilities, labels, strict=True):
            top = max(p)
            if b / bins < top <= (b + 1) / bins:
                inside.append((top, list(p).index(top) == y))
        if inside:
            confidence = sum(c for c, _ in inside) / len(inside)
            right = sum(r for _, r in inside) / len(inside)
            total += len(inside) / len(labels) * abs(right - confidence)
    return total


def image_covariance(right, tasks, images):
    """Return the sum over distinct images of the products of their contributions to the A_T of two methods."""
    seeds, methods = len(right), len(right[0])
    total = [[0.0] * methods for _ in range(methods)]
    for image in sorted({i for rows in images for i in rows}):
        contribution = [0.0] * methods
        for s in range(seeds):
            for position, i in enumerate(images[s]):
                if i != image:
                    continue
                task = tasks[s][position]
                members = [p for p, t in enumerate(tasks[s]) if t == task]
                weight = 1 / (seeds * len(set(tasks[s])) * len(members))
                for m in range(methods):
                    mean = sum(right[s][m][p] for p in members) / len(members)
                    contribution[m] += weight * (right[s][m][position] - mean)
        for a in range(methods):
            for b in range(methods):
                total[a][b] += contribution[a] * contribution[b]
    return total
