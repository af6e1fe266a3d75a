"""Helpers for tests of streams in a small project."""

from pipeline import paths
from pipeline.store.stream_state import read_stream_state
from small_project import feature_stages, read_csv

CLASSES = ("ant", "bee", "cat", "dog")
NAMES = {name: name for name in CLASSES}


def run(project, *stages):
    """Run stages, given as strings, in this process; check that each succeeds."""
    project.run_in_process(*(tuple(stage.split()) for stage in stages))


def prepare(project, *domains):
    """Compute everything that a step reads from domains."""
    project.run_in_process(*(stage for stage in feature_stages(*domains) if stage[0] != "model"))


def answers(project, step):
    """Return the rows of a step's table, keyed by path."""
    return {row["path"]: row for row in read_csv(project.results("streams", f"{step}.csv"))}


def change_step(project, step, **changes):
    """Change the entry of a step."""
    project.change_params(steps={step: project.read_params()["steps"][step] | changes})


def state(project, step):
    """Return the state after a step."""
    return read_stream_state(project.folder / paths.stream_state(step))


def step_entry(before, domain, classes="all", **settings):
    """Return an entry of `steps`."""
    entry = {"source": "left", "domain": domain, "classes": classes, "before": before}
    return {**entry, "corrections": "corrections.csv", **settings}


def add_domain(params, name, **settings):
    """Add a domain of the toy dataset to params."""
    params["domains"][name] = {**params["domains"]["left"], "images": f"data/{name}", **settings}
