"""Find a compared method by the name that `compare.methods` in params.yaml uses."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping

from pipeline.comparison import methods
from pipeline.comparison.ceiling import CEILING, LABELLED_TARGET
from pipeline.comparison.compared_method import ComparedMethod
from pipeline.comparison.referee_variants import referee_variant
from pipeline.comparison.unknown_classes import BASELINES
from pipeline.errors import ParamsError, did_you_mean
from pipeline.method.variants import VARIANTS

PSEUDO = "-pseudo"  # suffix of the form of a peer that is fitted to the target's pseudo-labels


def compared_method(name: str) -> ComparedMethod:
    """Return the method of that name, or raise a `ParamsError` that suggests the nearest one.

    It is a variant of REFEREE, or a file in pipeline/comparison/methods, with dashes for underscores and possibly
    ``-pseudo`` at its end, or one of `BASELINES`, or `LABELLED_TARGET`, the ceiling.
    """
    if name == LABELLED_TARGET:
        return CEILING
    if name in VARIANTS:
        return referee_variant(name)
    if name in BASELINES:
        return BASELINES[name]
    module = name.removesuffix(PSEUDO).replace("-", "_")
    files = sorted(info.name for info in pkgutil.iter_modules(methods.__path__))
    if module in files:
        return _exported(module, name)
    peers = [file.replace("_", "-") for file in files]
    pseudo = [f"{peer}{PSEUDO}" for peer in peers if not peer.endswith("-head")]
    hint = did_you_mean(name, [*VARIANTS, *BASELINES, LABELLED_TARGET, *peers, *pseudo])
    raise ParamsError(f"params.yaml: compare.methods: no method {name!r}{hint}")


def _exported(module: str, name: str) -> ComparedMethod:
    file = importlib.import_module(f"{methods.__name__}.{module}")
    exported: Mapping[str, ComparedMethod] = getattr(file, "METHODS", {})
    if name not in exported:
        where = f"pipeline/comparison/methods/{module}.py has no {name!r} in METHODS"
        raise ParamsError(f"params.yaml: compare.methods: {where}{did_you_mean(name, exported)}")
    return exported[name]
