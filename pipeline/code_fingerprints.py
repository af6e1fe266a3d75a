"""Compute fingerprints of the code that a stage may run, which change with the code but not with its comments.

DVC does not see imports. So the stage `code` records the fingerprint of every module that a stage may import, directly
or indirectly, and the sha256 of the package's files that these modules read.
"""

import ast
import functools
import hashlib
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parents[1]  # the folder that contains the package: a clone, or site-packages
PACKAGE = Path("pipeline")
# Modules that cannot change an output: messages, values that DVC tracks one by one, paths that dvc.yaml repeats, and
# starting a stage or running it on a cluster, which gives the same numbers.
WITHOUT_EFFECT = frozenset(
    PACKAGE / f"{name}.py"
    for name in (
        *("config/params", "config/settings", "config/suite"),
        *("errors", "paths", "stage", "write_aside", "extraction/cluster"),
    )
)
# Modules that a stage uses through its context instead of importing them. The executor imports the code for GPUs and
# clusters.
OPENED_BY_RUNNER = {
    "context.project": PACKAGE / "problem/problem.py",
    "context.executor": PACKAGE / "extraction/executor.py",
}
# Files of the package that a module uses without importing them: compared methods, which are found by name, and files
# that are not Python.
FILES = {
    PACKAGE / "comparison/registry.py": "comparison/methods/*.py",
    PACKAGE / "report/published.py": "report/published.csv",
    PACKAGE / "report/table_formats.py": "report/templates/**/*",
    PACKAGE / "report/page/page.py": "report/page/assets/*",
    PACKAGE / "report/page/chart.py": "report/page/templates/**/*",
}


def fingerprints(stage_name: str) -> dict[str, str]:
    """Return the fingerprints of a stage's module and of all files of the package that it may use, by path."""
    found: set[Path] = set()
    stage = PACKAGE / "stages" / f"{stage_name}.py"
    attributes = {ast.unparse(node) for node in ast.walk(_parsed(stage)) if isinstance(node, ast.Attribute)}
    waiting = [stage, *(path for attribute, path in OPENED_BY_RUNNER.items() if attribute in attributes)]
    while waiting:
        path = waiting.pop()
        if path not in found | WITHOUT_EFFECT:
            found.add(path)
            waiting += _files_used(path)
    modules, data = ([path for path in sorted(found) if (path.suffix == ".py") == python] for python in (True, False))
    return {path.as_posix(): fingerprint(_read(path)) for path in modules} | {
        path.as_posix(): hashlib.sha256((SOURCE / path).read_bytes()).hexdigest() for path in data
    }


@functools.cache  # stages share most of their modules
def _files_used(path: Path) -> frozenset[Path]:
    """Return the modules of the package that a file imports, also inside functions, and its entry in `FILES`."""
    names: set[str] = set()
    for node in ast.walk(_parsed(path)) if path.suffix == ".py" else ():
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    files = {SOURCE.joinpath(*name.split(".")).with_suffix(".py") for name in names if name.startswith("pipeline.")}
    if path in FILES:
        files |= set((SOURCE / PACKAGE).glob(FILES[path]))
    return frozenset(file.relative_to(SOURCE) for file in files if file.is_file())


def _parsed(path: Path) -> ast.Module:
    return ast.parse(_read(path))


def _read(path: Path) -> str:
    return (SOURCE / path).read_text("utf-8")


@functools.cache
def fingerprint(source: str) -> str:
    """Return the sha256 of a module's code without comments, docstrings and layout.

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
    return hashlib.sha256(repr(_plain(tree)).encode()).hexdigest()


def _plain(node: Any) -> Any:
    """Return a node as nested tuples without empty fields, which differ between versions of Python."""
    if isinstance(node, list):
        return tuple(map(_plain, node))
    if not isinstance(node, ast.AST):
        return node
    fields = ((name, _plain(value)) for name, value in ast.iter_fields(node) if value is not None and value != [])
    return type(node).__name__, *fields
