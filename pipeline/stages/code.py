"""Stage `code`: what decides the outputs of each stage besides its inputs.

DVC sees neither imports nor defaults. For every stage this one writes cache/code/STAGE.json, or a file per key of the
stage, on which the stage depends:

- for the stages whose outputs cost hours (`manifest`, `embed`, `prompts` and what they read), the version that their
  declaration states: refactoring and comments never throw features away;
- for the others, a fingerprint of every module that they may import, blind to comments, docstrings and layout, and of
  the files of the package that these modules read;
- the stage's ``settings`` for its keys, if it declares any;
- the defaults of the sections that DVC tracks by name for it, because a value that is not written in params.yaml is a
  dependency as well.

It also makes the folders of results that `metrics`, `tables` and `report` read whole.

In a clone the stage runs when a file of pipeline/ changed. In a project made by `referee init` the package is
installed elsewhere, and the stage runs at every `dvc repro`, for a second; then only what a new version changed runs.
"""

import ast
import functools
import hashlib
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipeline import paths
from pipeline.datasets.checked_csv import sha256_of
from pipeline.installed_project import require_current_graph
from pipeline.params import Params, load_params, section_defaults
from pipeline.stage import BY_NAME, Context, Stage, entries_of, find_stage, stage, stage_names
from pipeline.write_aside import write_aside

SOURCE = Path(__file__).parents[2]  # the folder in which the package is: a clone, or site-packages
PACKAGE = Path("pipeline")
# What these do cannot change an output: messages, values that DVC tracks one by one, paths that dvc.yaml repeats, and
# how a stage is started or handed to a cluster, which gives the same numbers.
WITHOUT_EFFECT = frozenset(
    PACKAGE / f"{name}.py"
    for name in ("errors", "params", "paths", "settings", "stage", "suite", "write_aside", "extraction/cluster")
)
# What the runner gives to a stage that asks for it; the executor imports who sums on a GPU and on a cluster.
GIVEN = {"context.project": PACKAGE / "problem/problem.py", "context.executor": PACKAGE / "extraction/executor.py"}
# Compared methods are found by their names: whoever imports the registry may run any of them.
FOUND_BY_NAME = {PACKAGE / "comparison/registry.py": "comparison/methods/*.py"}
# Files of the package, not Python, that a module reads.
DATA = {
    PACKAGE / "report/published.py": "report/published.csv",
    PACKAGE / "report/table_formats.py": "report/templates/**/*",
    PACKAGE / "report/page/page.py": "report/page/assets/*",
    PACKAGE / "report/page/chart.py": "report/page/templates/**/*",
}


@stage(reads=("compare", "data", "refinement", "select", "sensitivity", "views"))
def code(context: Context) -> str:
    """Write cache/code/STAGE.json or STAGE-KEY.json for every stage."""
    require_current_graph()
    params = load_params()
    names = [name for name in stage_names() if name != "code"]
    for name in names:
        for keys, content in contents(find_stage(name), params):
            _write(paths.stage_code(name, *keys), json.dumps(content, indent=1) + "\n")
    _write(paths.evaluations(context.suite) / "README.md", "Figures, one file per problem.\n")
    _write(paths.problems(context.suite) / "README.md", "Results, one folder per problem.\n")
    _write(paths.streams(context.suite) / "README.md", "Labels and figures, a pair per step.\n")
    return f"{len(names)} stages"


def contents(declared: Stage, params: Params) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """Yield keys and content of the files of a stage; without ``settings`` it has one file, and no keys."""
    found = dependencies(declared)
    if declared.settings is None:
        yield (), found
        return
    for keys in itertools.product(*(entries_of(params, section) for section in declared.per)):
        yield keys, {**found, "settings": declared.settings(params, *keys)}


def dependencies(declared: Stage) -> dict[str, Any]:
    """Return what decides a stage's outputs besides its inputs, its settings and the parameters that DVC tracks."""
    by_name = [s for s in sorted(declared.reads) if declared.settings is None or s in BY_NAME]
    defaults = {section: section_defaults(section) for section in by_name}
    if declared.version is not None:
        return {"version": declared.version, "defaults": defaults}
    modules = imported_files(declared.name)
    files = {path.as_posix(): fingerprint(_source(path)) for path in modules}
    data = [path for module in modules if module in DATA for path in _glob(DATA[module])]
    files |= {path.as_posix(): sha256_of(SOURCE / path) for path in sorted(data)}
    return {"files": files, "defaults": defaults}


def imported_files(stage_name: str) -> list[Path]:
    """Return the module of a stage and all modules of ours that it may import, directly or through others."""
    found: set[Path] = set()
    waiting = [PACKAGE / "stages" / f"{stage_name}.py"]
    attributes = [node for node in ast.walk(ast.parse(_source(waiting[0]))) if isinstance(node, ast.Attribute)]
    waiting += [path for asked, path in GIVEN.items() if asked in map(ast.unparse, attributes)]
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting.extend(_imports(path))
            waiting.extend(_glob(FOUND_BY_NAME[path]) if path in FOUND_BY_NAME else ())
    return sorted(found - WITHOUT_EFFECT)


@functools.cache
def _imports(path: Path) -> frozenset[Path]:
    """Return the modules of ours that a file imports, at the top or inside a function."""
    if path in WITHOUT_EFFECT:
        return frozenset()
    names: set[str] = set()
    for node in ast.walk(ast.parse(_source(path))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    files = (Path(*name.split(".")).with_suffix(".py") for name in names if name.startswith("pipeline."))
    return frozenset(file for file in files if (SOURCE / file).is_file())


def _source(path: Path) -> str:
    return (SOURCE / path).read_text("utf-8")


def _glob(pattern: str) -> list[Path]:
    """Return the files of the package that match, as pipeline/…"""
    found = (SOURCE / PACKAGE).glob(pattern)
    return [file.relative_to(SOURCE) for file in found if file.is_file()]


def _write(path: Path, content: str) -> None:
    with write_aside(path) as aside:
        aside.write_text(content, encoding="utf-8")


@functools.cache  # stages share most of their modules
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
    return hashlib.sha256(repr(_plain(tree)).encode()).hexdigest()


def _plain(node: Any) -> Any:
    """Return a node as nested tuples without empty fields, of which every version of Python has others."""
    if isinstance(node, list):
        return tuple(map(_plain, node))
    if not isinstance(node, ast.AST):
        return node
    fields = ((name, _plain(value)) for name, value in ast.iter_fields(node) if value is not None and value != [])
    return type(node).__name__, *fields
