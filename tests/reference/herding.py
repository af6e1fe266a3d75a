"""Naive oracle of iCaRL's herding, Algorithm 4: try every row, keep the one whose mean is nearest."""

import numpy as np


def herding(rows, m):
    rows, chosen = np.array(rows), []
    while len(chosen) < min(m, len(rows)):
        left = [i for i in range(len(rows)) if i not in chosen]
        gaps = {i: rows[[*chosen, i]].mean(axis=0) - rows.mean(axis=0) for i in left}
        chosen.append(min(left, key=lambda i: np.sum(gaps[i] ** 2)))
    return chosen
