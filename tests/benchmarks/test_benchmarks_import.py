"""No benchmark is left behind by a change of what it measures: each can at least be imported."""

import importlib

import pytest

from small_project import ROOT

MODULES = sorted(file.stem for file in (ROOT / "benchmarks").glob("[a-z]*.py"))


@pytest.mark.parametrize("name", MODULES)
def test_a_benchmark_can_be_imported(name):
    module = importlib.import_module(f"benchmarks.{name}")
    assert module.__doc__
