"""Streams in a small project: entries of suite.yaml, and stages that run in this process."""

from pipeline import paths
from pipeline.store.stream_state import read_stream_state
from small_project import features_of, read_csv

CLASSES = ("ant", "bee", "cat", "dog")
NAMES = {name: name for name in CLASSES}


def run(project, *stages):
    """Run stages in this process, in the project's folder; each must succeed."""
    project.run_here(*(tuple(stage.split()) for stage in stages))


def prepare(project, *domains):
    """Make all that a step reads of domains."""
    project.run_here(*(stage for stage in features_of(*domains) if stage[0] != "model"))


def answers(project, step):
    """Return the rows of a step's table by path, in its order."""
    return {row["path"]: row for row in read_csv(project.results("streams", f"{step}.csv"))}


def change_step(project, step, **changes):
    """Change the entry of a step."""
    project.change_params(steps={step: project.read_params()["steps"][step] | changes})


def state(project, step):
    """Return the state after a step."""
    return read_stream_state(project.folder / paths.stream_state(step))


def step_entry(before, domain, classes="all", **more):
    """Return an entry of `steps`."""
    entry = {"source": "left", "domain": domain, "classes": classes, "before": before}
    return {**entry, "corrections": "corrections.csv", **more}


def with_domain(params, name, **more):
    """Add a domain of the toy dataset to params."""
    params["domains"][name] = {**params["domains"]["left"], "images": f"data/{name}", **more}
