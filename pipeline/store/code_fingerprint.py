"""Which code made a row: so that progress kept from before a change of code is not mistaken for current.

Comments, docstrings and layout do not count: only what Python would execute.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType


def code_fingerprint(modules: Iterable[ModuleType]) -> str:
    """Return sha256 of the modules' syntax trees, docstrings left out, and of the C beside them, as it is."""
    digest = hashlib.sha256()
    for module in sorted(modules, key=lambda module: module.__name__):
        digest.update(f"{module.__name__}\n{_essence(inspect.getsource(module))}\n".encode())
        for compiled in sorted(Path(inspect.getfile(module)).parent.glob(f"{_stem(module)}.[ch]")):
            digest.update(compiled.read_bytes())
    return digest.hexdigest()


def _stem(module: ModuleType) -> str:
    return module.__name__.rpartition(".")[2]


def _essence(source: str) -> str:
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                node.body = node.body[1:]
    return ast.dump(tree)
