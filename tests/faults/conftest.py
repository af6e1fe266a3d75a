"""The project that was run once by `dvc repro` and committed, shared with tests/pipeline_runs; each file copies it."""

from pipeline_runs.conftest import finished, run_project

__all__ = ["finished", "run_project"]
