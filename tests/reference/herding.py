"""Naive oracle of iCaRL's herding, Algorithm 4: try every row, keep the one whose mean is nearest."""


def mean_of(rows):
    return [sum(column) / len(rows) for column in zip(*rows, strict=True)]


def distance(a, b):
    return sum((x - y) ** 2 for x, y in zip(a, b, strict=True))


def herding(rows, m):
    rows = [[float(v) for v in row] for row in rows]
    mean = mean_of(rows)
    chosen = []
    while len(chosen) < min(m, len(rows)):
        left = [i for i in range(len(rows)) if i not in chosen]
        chosen.append(min(left, key=lambda i: distance(mean, mean_of([rows[j] for j in [*chosen, i]]))))
    return chosen
