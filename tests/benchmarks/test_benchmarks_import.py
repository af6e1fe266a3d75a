"""Every benchmark can be imported: a change of what it measures does not leave it behind."""

import importlib

import pytest

from small_project import ROOT

MODULES = sorted(file.stem for file in (ROOT / "benchmarks").glob("[a-z]*.py"))


@pytest.mark.parametrize("name", MODULES)
def test_a_benchmark_can_be_imported(name):
    module = importlib.import_module(f"benchmarks.{name}")
    assert module.__doc__
