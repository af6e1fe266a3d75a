"""Draw a resample of a suite of imported features: ``python -m benchmarks.imbalanced [--balanced] SEED FROM TO``.

FROM holds vision.npz and clip_space.npz (see suites/pacs3.yaml); TO gets files of the same names with fewer rows. In
every domain the shares of the classes are 1 to 0.15, geometric, in an order of the domain's own. With --balanced every
class has the mean of these shares: as many images, none rarer than another.
"""

import sys
from pathlib import Path

import numpy as np

LEAST = 0.15


def kept_rows(paths, seed, *, balanced=False):
    """Return which of the rows with these paths, DOMAIN/CLASS/FILE, are kept."""
    domain, label = np.array([path.split("/")[:2] for path in paths]).T
    rng, classes, keep = np.random.default_rng(seed), np.unique(label), np.zeros(len(paths), bool)
    for name in np.unique(domain):
        shares = np.geomspace(1, LEAST, len(classes))[rng.permutation(len(classes))]
        if balanced:
            shares[:] = shares.mean()
        for c, share in zip(classes, shares, strict=True):
            rows = np.flatnonzero((domain == name) & (label == c))
            keep[rng.permutation(rows)[: round(share * len(rows))]] = True
    return keep


def main(seed, source, target, *, balanced=False):
    """Write the resample."""
    target.mkdir(parents=True, exist_ok=True)
    for name in ("vision.npz", "clip_space.npz"):
        arrays = dict(np.load(source / name))
        keep = kept_rows(arrays["paths"], seed, balanced=balanced)
        drawn = {
            key: values[keep] if values.ndim and len(values) == len(keep) else values for key, values in arrays.items()
        }
        np.savez(target / name, **drawn)


if __name__ == "__main__":
    *flag, seed, source, target = sys.argv[1:]
    main(int(seed), Path(source), Path(target), balanced=flag == ["--balanced"])
