"""DVC does not see imports: every module a stage may import must stand in its `deps`, and none that it does not."""

import ast
from pathlib import Path

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).parents[1]
STAGES = YAML(typ="safe", pure=True).load((ROOT / "dvc.yaml").read_text())["stages"]

# What these do cannot change an output: messages; values that DVC tracks one by one as params; how a file gets
# to its place; where that place is (which dvc.yaml says again).
INERT = {
    "pipeline/errors.py",
    "pipeline/params.py",
    "pipeline/write_aside.py",
    "pipeline/stages/places.py",
}

REGISTRY = ROOT / "pipeline/comparison/registry.py"
METHODS = sorted((ROOT / "pipeline/comparison/methods").glob("*.py"))
FOLDERS = ("pipeline/comparison/methods/", "pipeline/comparison/head_training/")  # deps as a whole


def file_of(module: str) -> Path | None:
    path = ROOT / (module.replace(".", "/") + ".py")
    return path if path.is_file() else None


def imported(path: Path) -> set[str]:
    """Return the modules of ours that a file imports, at the top or inside a function."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return {name for name in names if name.startswith("pipeline.") and file_of(name)}


def closure(module: str) -> set[str]:
    seen, todo = set(), [module]
    while todo:
        path = file_of(todo.pop())
        if path is not None and path not in seen:
            seen.add(path)
            todo.extend(imported(path))
            if path == REGISTRY:  # which finds methods by their names
                todo.extend(f"pipeline.comparison.methods.{file.stem}" for file in METHODS)
    files = {str(path.relative_to(ROOT)) for path in seen}
    return {file for file in files if not file.startswith(FOLDERS)}


def body(stage: str) -> dict:
    return STAGES[stage].get("do", STAGES[stage])


@pytest.mark.parametrize("stage", STAGES)
def test_deps_are_the_transitive_imports(stage):
    module = body(stage)["cmd"].split()[2]
    listed = {dep for dep in body(stage)["deps"] if str(dep).endswith(".py")}
    assert listed == closure(module) - INERT


def test_compare_depends_on_whatever_a_method_may_import():
    deps = body("compare")["deps"]
    assert {folder.rstrip("/") for folder in FOLDERS} <= set(deps)
    assert "pipeline/comparison/labelled_tasks.py" in deps  # which only methods import


def test_the_walk_sees_imports_inside_functions():
    assert "pipeline/encoders/clip_encoder.py" in closure("pipeline.stages.prompts")
