"""The methods that the registry finds in files: a new file is tested as the others are, by what made its methods."""

import importlib
import pkgutil

from pipeline.comparison import methods

MODULES = [
    importlib.import_module(f"{methods.__name__}.{info.name}") for info in pkgutil.iter_modules(methods.__path__)
]


def made_by(function):
    """Return the methods of the files that make theirs by a function of this name, each by the shorter of two names."""
    files = [module for module in MODULES if hasattr(module, function)]
    return [name for module in files for name in module.METHODS if not name.endswith("-pseudo")]


FITTED, TRANSDUCTIVE = made_by("peer_methods"), made_by("transductive_methods")


def both_forms(names):
    return [f"{name}{form}" for name in names for form in ("", "-pseudo")]
