"""REFEREE as a feature-cache pipeline: frozen embeddings once, source-free continual adaptation in seconds.

The names in `__all__` are the public Python API and follow semantic versioning; everything else may change.

>>> cache = open_cache(".")                                  # doctest: +SKIP
>>> rows = cache.rows("mnist", "vit", view="original")       # doctest: +SKIP
>>> train, test = rows.split(seed=0)                         # doctest: +SKIP
>>> train.numpy().shape, train.labels.shape                  # doctest: +SKIP
((4500, 128), (4500,))

`pipeline.api.feature_cache` has an example that runs; docs/how-to/python.md has more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipeline.errors import RefereeError

if TYPE_CHECKING:
    from pipeline.api.feature_cache import FeatureCache, open_cache
    from pipeline.api.feature_rows import FeatureRows
    from pipeline.api.kernel_lda_classifier import KernelLDAClassifier

__all__ = ["FeatureCache", "FeatureRows", "KernelLDAClassifier", "RefereeError", "open_cache"]


def __getattr__(name: str) -> Any:
    """Import a public name on first use, because every stage imports this package and needs none of them."""
    from importlib import import_module

    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    modules = {"FeatureRows": "feature_rows", "KernelLDAClassifier": "kernel_lda_classifier"}
    return getattr(import_module(f"{__name__}.api.{modules.get(name, 'feature_cache')}"), name)
