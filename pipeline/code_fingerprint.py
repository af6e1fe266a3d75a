"""A fingerprint of Python source that is blind to comments, docstrings and layout."""

from __future__ import annotations

import ast
import hashlib


def fingerprint(source: str) -> str:
    """Return the sha256 of what Python would execute of ``source``.

    Examples
    --------
    >>> fingerprint("x = 1  # one") == fingerprint("x = 1")
    True
    >>> fingerprint("x = 1") == fingerprint("x = 2")
    False
    """
    tree = ast.parse(source)
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        if isinstance(node, kinds) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:]
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()
