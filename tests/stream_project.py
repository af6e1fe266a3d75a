"""Streams in a small project: entries of suite.yaml, and stages that run in this process."""

from contextlib import chdir

from pipeline.stage import main

CLASSES = ("ant", "bee", "cat", "dog")
NAMES = {name: name for name in CLASSES}


def run(project, *stages):
    """Run stages in this process, in the project's folder; each must succeed."""
    with chdir(project.folder):
        for stage in stages:
            assert main(stage.split()) == 0, stage


def prepare(project, domain):
    """Make all that a step reads of a domain."""
    run(
        project,
        f"manifest {domain}",
        f"tasks {domain}",
        f"embed {domain} vit",
        f"embed {domain} clip",
        f"prompts {domain}",
    )


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


def tree(folder):
    """Return the bytes of all files below a folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
