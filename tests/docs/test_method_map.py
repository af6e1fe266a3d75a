"""docs/method.md: every function, test and oracle it names exists, and no equation that the code cites is missing."""

import ast
import importlib
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from small_project import ROOT

PAGE = (ROOT / "docs/method.md").read_text(encoding="utf-8")
# The equations of METHOD.md, the project's contract.
CONTRACT = {1, 3, 7, *range(9, 19)}
# The derivation between the kernel (3) and its features (7): cited as a range, nothing to compute.
DERIVATION = {4, 5, 6}
CITED = re.compile(r"(?:eqs?\. |# |(?:views|basis) )(\(\d+\)(?:(?:–|, | and |, and )\(\d+\))*)")


@dataclass(frozen=True)
class Step:
    """A row of the map."""

    step: str
    equations: frozenset[int]
    functions: tuple[str, ...]
    tests: tuple[str, ...]
    oracles: tuple[str, ...]


def numbers(text):
    """Return the equations of a citation, ranges filled: `(11)–(13)`, `(9), (10)`."""
    found = set()
    for first, last in re.findall(r"\((\d+)\)(?:–\((\d+)\))?", text):
        found |= set(range(int(first), int(last or first) + 1))
    return found


def steps():
    """Return the rows of the first table."""
    table = PAGE.split("## Variants")[0]
    rows = [line.strip("|").split("|") for line in table.splitlines() if line.startswith("| ")]
    names = [tuple(re.findall(r"`([^`]+)`", cell)) for row in rows[1:] for cell in row[2:5]]
    return [
        Step(row[0].strip(), frozenset(numbers(row[1])), *names[3 * i : 3 * i + 3])
        for i, row in enumerate(rows[1:])
    ]


STEPS = steps()


def resolve(name):
    """Return what a dotted name below `pipeline` stands for, and the module it is in."""
    parts = ["pipeline", *name.split(".")]
    for end in range(len(parts), 0, -1):
        try:
            module = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        found = module
        for part in parts[end:]:
            found = getattr(found, part)
        return found, module
    raise ModuleNotFoundError(name)


@cache
def functions_of(file):
    """Return the names of a test file's functions, and its text."""
    text = (ROOT / "tests" / file).read_text(encoding="utf-8")
    return {node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}, text


def cited_by(text):
    return {number for citation in CITED.findall(text) for number in numbers(citation)}


def test_the_map_is_read():
    assert len(STEPS) > 12
    assert all(step.functions and step.tests for step in STEPS)
    assert all(step.oracles for step in STEPS if step.equations)


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.step)
def test_a_step_s_functions_exist_and_cite_its_equations(step):
    cited = set()
    for name in step.functions:
        _, module = resolve(name)
        cited |= cited_by(Path(module.__file__).read_text(encoding="utf-8"))
    assert step.equations <= cited


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.step)
def test_a_step_s_tests_exist_and_know_its_functions(step):
    texts = ""
    for test in step.tests:
        file, name = test.split("::")
        known, text = functions_of(file)
        assert name in known, test
        texts += text
    last = [part for name in step.functions for part in name.split(".")[1:]]
    assert any(re.search(rf"\b{part}\b", texts) for part in last), (
        "the test never names the function"
    )
    for oracle in step.oracles:
        assert (ROOT / "tests" / oracle).is_file(), oracle
        imported = rf"^from reference(?: import|\.).*\b{Path(oracle).stem}\b"
        assert re.search(imported, texts, re.MULTILINE), f"no test of this step uses {oracle}"


def test_every_equation_that_the_code_cites_is_in_the_map():
    mapped = {number for step in STEPS for number in step.equations}
    cited = {}
    for file in sorted((ROOT / "pipeline").rglob("*.py")):
        if "comparison" in file.parts:  # other papers' methods, other papers' numbers
            continue
        for number in cited_by(file.read_text(encoding="utf-8")):
            cited.setdefault(number, file.relative_to(ROOT).as_posix())
    missing = {number: file for number, file in cited.items() if number not in mapped | DERIVATION}
    assert missing == {}
    assert mapped <= set(cited)
    assert mapped >= CONTRACT


def test_what_else_the_page_names_exists():
    rest = PAGE.split("## Variants")[1]
    for name in re.findall(r"`(method\.[a-z_.]+)`", rest):
        if name not in ("method.variant", "method.options"):  # keys of params.yaml
            resolve(name)
    for path in re.findall(r"`((?:pipeline|tests|reference)/[\w/.]+)`", rest):
        assert (ROOT / path).exists() or (ROOT / "tests" / path).exists(), path


def test_citations_are_found_in_every_form():
    text = "eqs. (11)–(13) and eq. (7); x  # (14)\nviews (15); eqs. (9), (10)"
    assert cited_by(text) == {7, 9, 10, 11, 12, 13, 14, 15}
