"""Stage `code`: the code that each stage runs, its imports included, as a digest per file.

DVC does not see imports. This stage follows them, and every other stage depends on its own file of digests: a change
of a module reruns the stages that may import it, at the top of a file or inside a function, and no others. (Listed
one by one, thirty modules per stage were four fifths of what `dvc status` had to look at.) Reads pipeline/; writes
cache/code/STAGE.json.
"""

from __future__ import annotations

import argparse
import ast
import functools
import hashlib
import json
import sys
from pathlib import Path

from pipeline.errors import exits_cleanly
from pipeline.stages import places
from pipeline.write_aside import write_aside

PACKAGE = "pipeline"
# What these do cannot change an output: messages; values that DVC tracks one by one as params; how a file gets to its
# place; where that place is (which dvc.yaml says again).
INERT = frozenset(
    {
        "pipeline/errors.py",
        "pipeline/params.py",
        "pipeline/write_aside.py",
        "pipeline/stages/places.py",
    }
)
RUN_BY_DVC = 'if __name__ == "__main__":'  # how a stage's module ends
REGISTRY, METHODS = (
    "pipeline/comparison/registry.py",
    "pipeline/comparison/methods",
)  # found by their names
COMPILED = "native.py"  # the module that loads what was compiled from the C beside it


def stage_modules(root: Path) -> list[str]:
    """Return the names of the modules in pipeline/stages that dvc.yaml runs, this one apart."""
    folder = root / PACKAGE / "stages"
    found = (path.stem for path in folder.glob("*.py") if RUN_BY_DVC in path.read_text("utf-8"))
    return sorted(name for name in found if name != Path(__file__).stem)


def files_of(stage: str, root: Path) -> list[str]:
    """Return the files, relative to ``root``, that decide what a stage writes: its module, and all it may import."""
    seen: set[Path] = set()
    todo = [root / PACKAGE / "stages" / f"{stage}.py"]
    while todo:
        path = todo.pop()
        if path not in seen:
            seen.add(path)
            todo.extend(_imported(path, root))
            if path == root / REGISTRY:
                todo.extend((root / METHODS).glob("*.py"))
    for path in [path for path in seen if path.name == COMPILED]:
        seen.update(file for file in path.parent.iterdir() if file.suffix in (".c", ".h"))
    return sorted({path.relative_to(root).as_posix() for path in seen} - INERT)


@functools.cache
def _imported(path: Path, root: Path) -> frozenset[Path]:
    """Return the modules of ours that a file imports, at the top or inside a function."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    ours = (name for name in names if name.startswith(f"{PACKAGE}."))
    files = (root / f"{name.replace('.', '/')}.py" for name in ours)
    return frozenset(file for file in files if file.is_file())


@functools.cache
def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@exits_cleanly
def main(argv: list[str] | None = None) -> int:
    """Write cache/code/STAGE.json for every stage."""
    argparse.ArgumentParser(
        prog="python -m pipeline.stages.code", description=__doc__.splitlines()[0]
    ).parse_args(argv)
    root = Path()
    for stage in stage_modules(root):
        digests = {file: _digest(root / file) for file in files_of(stage, root)}
        with write_aside(places.code(stage)) as aside:
            aside.write_text(json.dumps(digests, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
