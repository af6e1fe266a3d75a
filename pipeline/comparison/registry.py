"""Find a compared method by the name that `compare.methods` in params.yaml uses."""

import importlib
import pkgutil

from pipeline.comparison import methods
from pipeline.comparison.ceiling import CEILING
from pipeline.comparison.compared_method import ComparedMethod
from pipeline.comparison.referee_variants import referee_variant
from pipeline.comparison.unknown_classes import BASELINES
from pipeline.errors import ParamsError, did_you_mean
from pipeline.method.variants import VARIANTS

BUILT_IN = {**{name: referee_variant(name) for name in VARIANTS}, **BASELINES, "labelled-target": CEILING}

# the names in head.py, listed here for suggestions because the file imports torch
HEADS = tuple(f"{name}-head" for name in ("ewc", "lwf", "si", "mas", "rwalk", "icarl", "eeil", "il2m", "dann"))


def compared_method(name: str) -> ComparedMethod:
    """Return the method with this name, or raise a `ParamsError` that suggests the nearest name.

    A method that is not `BUILT_IN` is in METHODS of a file in pipeline/comparison/methods whose name is part of the
    method's name: ``a-b-c`` may be in a_b.py or c.py. Other files are not imported, because some of them need torch.
    """
    if name in BUILT_IN:
        return BUILT_IN[name]
    files = [info.name for info in pkgutil.iter_modules(methods.__path__)]
    words = f"_{name.replace('-', '_')}_"
    tried = sorted((file for file in files if f"_{file}_" in words), key=len, reverse=True)
    exported: dict[str, ComparedMethod] = {}
    for file in tried:
        exported |= getattr(importlib.import_module(f"{methods.__name__}.{file}"), "METHODS", {})
        if name in exported:
            return exported[name]
    if tried:
        paths = " and ".join(f"pipeline/comparison/methods/{file}.py" for file in tried)
        raise ParamsError(
            f"params.yaml: compare.methods: no {name!r} in METHODS of {paths}{did_you_mean(name, exported)}"
        )
    by_file = [file.replace("_", "-") + form for file in files for form in ("", "-pseudo")]
    raise ParamsError(
        f"params.yaml: compare.methods: no method {name!r}{did_you_mean(name, [*BUILT_IN, *by_file, *HEADS])}"
    )
