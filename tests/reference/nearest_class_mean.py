"""Naive oracle of the weighted nearest class mean, task by task, with stand-ins for classes without a row."""

from reference.basics import unit, weighted_mean


def means(tasks, fallback=None):
    """Return the mean of each class, in order of arrival, of tasks (classes, rows, labels, weights)."""
    found = []
    for classes, rows, labels, weights in tasks:
        for c in classes:
            own = [(unit(row), w) for row, label, w in zip(rows, labels, weights, strict=True) if label == c]
            found.append(weighted_mean(own) if own else fallback[c])
    return found


def predict(rows, means):
    answers = []
    for row in rows:
        gaps = [sum((a - b) ** 2 for a, b in zip(unit(row), mean, strict=True)) for mean in means]
        answers.append(gaps.index(min(gaps)))
    return answers
