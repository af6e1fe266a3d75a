"""The small project that is run once for all tests, and for the examples in docstrings that need one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from small_project import make_once, run_and_commit


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the small project, all stages run and committed to DVC and git; to be copied only."""
    return make_once(tmp_path_factory.getbasetemp(), "finished", run_and_commit)


@pytest.fixture(autouse=True)
def small_project(request: pytest.FixtureRequest, doctest_namespace: dict[str, Any]) -> None:
    """Give the examples of the Python API a project to open."""
    if request.node.name.startswith("pipeline.api.feature_cache."):
        doctest_namespace["small_project"] = request.getfixturevalue("finished")
