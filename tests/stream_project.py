"""Streams in a small project: entries of suite.yaml, and stages that run in this process."""

from contextlib import chdir

from pipeline import paths
from pipeline.store.stream_state import read_stream_state

CLASSES = ("ant", "bee", "cat", "dog")
NAMES = {name: name for name in CLASSES}


def run(project, *stages):
    """Run stages in this process, in the project's folder; each must succeed."""
    project.run_here(*(tuple(stage.split()) for stage in stages))


def prepare(project, domain):
    """Make all that a step reads of a domain."""
    run(
        project,
        f"manifest {domain}",
        f"order {domain}",
        f"tasks {domain}",
        f"embed {domain} vit",
        f"embed {domain} clip",
        f"prompts {domain}",
    )


def state(project, step):
    """Return the state after a step."""
    with chdir(project.folder):
        return read_stream_state(paths.stream_state(step))


def step_entry(before, domain, classes="all", **more):
    """Return an entry of `steps`."""
    return {
        "source": "left",
        "domain": domain,
        "classes": classes,
        "before": before,
        "corrections": "corrections.csv",
        **more,
    }


def with_domain(params, name, **more):
    """Add a domain of the toy dataset to params."""
    domain = {**params["domains"]["left"], "images": f"data/{name}", **more}
    params["domains"][name] = domain
