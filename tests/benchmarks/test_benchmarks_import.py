"""No benchmark is left behind by a change of what it measures: each can at least be imported."""

import importlib

import pytest

from small_project import ROOT

MODULES = sorted(file.stem for file in (ROOT / "benchmarks").glob("[a-z]*.py"))


@pytest.mark.parametrize("name", MODULES)
def test_a_benchmark_can_be_imported(name):
    module = importlib.import_module(f"benchmarks.{name}")
    assert module.__doc__


def test_the_parameters_of_embed_end_to_end_are_whole():
    from benchmarks.embed_end_to_end import VIEWS, parameters

    assert parameters("vit_small_patch16_224", 1).domains["photos"].views == VIEWS
