"""Fixtures for all tests and doctests: the small project, which is run once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from small_project import make_once, run_and_commit


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the small project, run and committed to DVC and git. Copy it, do not change it."""
    return make_once(tmp_path_factory.getbasetemp(), "finished", run_and_commit)


@pytest.fixture(autouse=True)
def small_project(request: pytest.FixtureRequest, doctest_namespace: dict[str, Any]) -> None:
    """Provide the small project to doctests of the Python API."""
    if request.node.name.startswith("pipeline.api.feature_cache."):
        doctest_namespace["small_project"] = request.getfixturevalue("finished")
