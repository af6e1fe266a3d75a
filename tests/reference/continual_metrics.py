"""Naive oracles of docs/method.md step 10, of forgetting and of the expected calibration error."""


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
