"""docs/method.md: what it names exists and is tested, and no equation that the code cites is missing."""

import importlib
import re
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

from small_project import ROOT

TESTS = {
    file: file.read_text(encoding="utf-8") for file in (ROOT / "tests").rglob("test_*.py") if file != Path(__file__)
}
MAP, REST = (ROOT / "docs/method.md").read_text(encoding="utf-8").split("## Variants", 1)
CONTRACT = {1, 3, 7, *range(9, 19)}  # the equations of the project's contract
DERIVATION = {4, 5, 6}  # between the kernel (3) and its features (7): nothing to compute
CITED = re.compile(r"(?:eqs?\. |# |(?:views|basis) )(\(\d+\)(?:(?:–|, | and |, and )\(\d+\))*)")


@dataclass(frozen=True)
class Step:
    """A row of the map."""

    name: str
    equations: set[int]
    functions: list[str]
    oracles: list[str]


def numbers(text):
    """Return the equations of a citation, ranges filled: `(11)–(13)`, `(9), (10)`."""
    ranges = re.findall(r"\((\d+)\)(?:–\((\d+)\))?", text)
    return {n for first, last in ranges for n in range(int(first), int(last or first) + 1)}


def cited_by(text):
    return {number for citation in CITED.findall(text) for number in numbers(citation)}


def full_name(function):
    """Return a function's name below `pipeline`: the map leaves `method.` out."""
    return function if function.startswith("problem.") else f"method.{function}"


def steps():
    """Return the rows of the map."""
    rows = [line.strip("| ").split(" | ") for line in MAP.splitlines() if line.startswith("| ")]

    def spans(cell):
        return re.findall(r"`([^`]+)`", cell)

    return [
        Step(name, numbers(equations), [*map(full_name, spans(functions))], spans(oracles))
        for name, equations, functions, oracles in rows[1:]
    ]


STEPS = steps()
every_step = pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)


def module_of(name):
    """Return the module of a dotted name below `pipeline`, all of whose parts must exist."""
    here = module = importlib.import_module("pipeline")
    for part in name.split("."):
        if isinstance(here, ModuleType) and not hasattr(here, part):
            importlib.import_module(f"{here.__name__}.{part}")
        here = getattr(here, part)
        module = here if isinstance(here, ModuleType) else module
    return module


def test_the_map_is_read():
    assert len(STEPS) > 12
    assert all(step.functions for step in STEPS)
    assert all(step.oracles for step in STEPS if step.equations)
    text = "eqs. (11)–(13) and eq. (7); x  # (14)\nviews (15); eqs. (9), (10)"
    assert cited_by(text) == {7, 9, 10, 11, 12, 13, 14, 15}


@every_step
def test_functions_of_a_step_exist_and_cite_its_equations(step):
    files = [Path(module_of(name).__file__) for name in step.functions]
    assert step.equations <= set().union(*(cited_by(file.read_text()) for file in files))


@every_step
def test_a_test_uses_a_function_of_the_step_and_each_of_its_oracles(step):
    words = [part for name in step.functions for part in name.split(".")[1:]]
    assert any(re.search(rf"\b({'|'.join(words)})\b", text) for text in TESTS.values()), words
    for oracle in step.oracles:
        assert (ROOT / "tests/reference" / oracle).is_file(), oracle
        imported = rf"^from reference(?: import|\.).*\b{Path(oracle).stem}\b"
        assert any(re.search(imported, text, re.MULTILINE) for text in TESTS.values()), f"no test uses {oracle}"


def test_every_equation_that_the_code_cites_is_in_the_map():
    mapped = set().union(*(step.equations for step in STEPS))
    files = [f for f in (ROOT / "pipeline").rglob("*.py") if "comparison" not in f.relative_to(ROOT).parts]
    cited = {number: file for file in files for number in cited_by(file.read_text())}
    assert {n: file for n, file in cited.items() if n not in mapped | DERIVATION} == {}
    assert CONTRACT <= mapped <= set(cited)


def test_what_else_the_page_names_exists():
    for name in re.findall(r"`(method\.[a-z_.]+)`", REST):
        if name not in ("method.variant", "method.options"):  # keys of params.yaml
            module_of(name)
    for path in re.findall(r"`(reference/[\w/.]+)`", REST):
        assert (ROOT / "tests" / path).exists(), path
