"""Find a compared method by the name that `compare.methods` in params.yaml uses."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import replace

from pipeline.comparison import methods
from pipeline.comparison.compared_method import ComparedMethod
from pipeline.comparison.referee_variants import predict_test, referee_variant, source_models
from pipeline.comparison.unknown_classes import BASELINES
from pipeline.errors import ParamsError, did_you_mean
from pipeline.method.variants import CALIBRATED, VARIANTS
from pipeline.problem.problem import LabelledProblem

PSEUDO = "-pseudo"  # suffix of the form of a peer that is fitted to the target's pseudo-labels
LABELLED_TARGET = "labelled-target"
OPTIONS = replace(CALIBRATED, source_ridge=CALIBRATED.ridge)

# The ceiling of a comparison is **not a method**: the method's classifier, fitted to the target's true labels. It is
# run like every method, on a `Seed` whose target has no labels, but of another problem: target → target, in which the
# source is the target's own train images with their labels. So no way for target labels into a method is opened, and
# what it fits is what the method would fit if all its pseudo-labels were right: the same views, kernel and ridge, and
# the views vote at test. Only the source's scatter, which the method pools with the target's, is not there: where the
# target has few images, the method on true labels would be better still.
CEILING = ComparedMethod(
    lambda seed: predict_test(seed, OPTIONS, [model.classifier for model in source_models(seed, OPTIONS)]),
    title="fitted to the target's labels (a ceiling, not a method)",
    group="ceiling",
)


def seen_by(method: ComparedMethod, problem: LabelledProblem) -> LabelledProblem:
    """Return the problem whose seeds a method is run on: its own, or target → target for the ceiling."""
    if method.group != "ceiling":
        return problem
    return LabelledProblem(problem.name, problem.target, problem.target)


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
