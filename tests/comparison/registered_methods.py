"""List the methods that the registry finds in files, so that the tests include every new file."""

import importlib
import pkgutil

from pipeline.comparison import methods

MODULES = [
    importlib.import_module(f"{methods.__name__}.{info.name}") for info in pkgutil.iter_modules(methods.__path__)
]


def methods_made_by(function):
    """Return the names, without ``-pseudo``, of the methods in files that import this function."""
    files = [module for module in MODULES if hasattr(module, function)]
    return [name for module in files for name in module.METHODS if not name.endswith("-pseudo")]


FITTED, TRANSDUCTIVE = methods_made_by("peer_methods"), methods_made_by("transductive_methods")


def both_forms(names):
    return [f"{name}{form}" for name in names for form in ("", "-pseudo")]
