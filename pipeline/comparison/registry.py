"""Find a compared method by the name that params.yaml's `compare.methods` uses."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping

from pipeline.comparison import methods
from pipeline.comparison.problem import ComparedMethod
from pipeline.comparison.referee_variants import referee_variant
from pipeline.errors import ParamsError, did_you_mean
from pipeline.method.variants import VARIANTS

PSEUDO = "-pseudo"  # suffix of a peer that is fitted to the target's pseudo-labels, in the file of the peer


def compared_method(name: str) -> ComparedMethod:
    """Return a method: a variant of REFEREE, or one of the file named after it in pipeline/comparison/methods."""
    if name in VARIANTS:
        return referee_variant(name)
    module = name.removesuffix(PSEUDO).replace("-", "_")
    files = {info.name for info in pkgutil.iter_modules(methods.__path__)}
    if module in files:
        return _exported(module, name)
    peers = [file.replace("_", "-") for file in sorted(files)]
    pseudo = [f"{peer}{PSEUDO}" for peer in peers if not peer.endswith("-head")]
    known = [*VARIANTS, *peers, *pseudo]
    raise ParamsError(
        f"params.yaml: compare.methods: no method {name!r}{did_you_mean(name, known)}"
    )


def _exported(module: str, name: str) -> ComparedMethod:
    file = importlib.import_module(f"{methods.__name__}.{module}")
    found: Mapping[str, ComparedMethod] = getattr(file, "METHODS", {})
    if name not in found:
        where = f"pipeline/comparison/methods/{module}.py has no {name!r} in METHODS"
        raise ParamsError(f"params.yaml: compare.methods: {where}{did_you_mean(name, found)}")
    return found[name]
