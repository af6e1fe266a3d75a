"""Find a compared method by the name that `compare.methods` in params.yaml uses."""

import importlib
import pkgutil
from collections.abc import Mapping

from pipeline.comparison import methods
from pipeline.comparison.ceiling import CEILING
from pipeline.comparison.compared_method import ComparedMethod
from pipeline.comparison.referee_variants import referee_variant
from pipeline.comparison.unknown_classes import BASELINES
from pipeline.errors import ParamsError, did_you_mean
from pipeline.method.variants import VARIANTS

BUILT_IN = {**{name: referee_variant(name) for name in VARIANTS}, **BASELINES, "labelled-target": CEILING}


def compared_method(name: str) -> ComparedMethod:
    """Return the method of that name, or raise a `ParamsError` that suggests the nearest one.

    What is not `BUILT_IN` is in METHODS of a file in pipeline/comparison/methods: the one that has, with dashes for
    underscores, all of its name, or else most of its beginning or end. Other files are not imported, because some of
    them need torch.
    """
    if name in BUILT_IN:
        return BUILT_IN[name]
    files = {info.name for info in pkgutil.iter_modules(methods.__path__)}
    words = name.replace("-", "_").split("_")
    beginnings, ends = [words[:k] for k in range(len(words), 0, -1)], [words[k:] for k in range(1, len(words))]
    for file in map("_".join, beginnings + ends):
        if file in files:
            exported = _exported(file)
            if name in exported:
                return exported[name]
            where = f"pipeline/comparison/methods/{file}.py has no {name!r} in METHODS"
            raise ParamsError(f"params.yaml: compare.methods: {where}{did_you_mean(name, exported)}")
    known = [*BUILT_IN, *(method for file in files for method in _exported(file))]
    raise ParamsError(f"params.yaml: compare.methods: no method {name!r}{did_you_mean(name, known)}")


def _exported(file: str) -> Mapping[str, ComparedMethod]:
    return getattr(importlib.import_module(f"{methods.__name__}.{file}"), "METHODS", {})
