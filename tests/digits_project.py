"""A small version of the shipped digits project: real digits and weights, but few images and one problem."""

import shutil
from pathlib import Path

from small_project import ROOT, SmallProject, all_stages

PER_CLASS = 12
PROBLEM = "mnist-uci"
DOMAINS = ("mnist", "uci")


def make(folder: Path) -> SmallProject:
    """Create the project from the repository's files with reduced parameters and linked weights, and run it."""
    project = SmallProject(folder)
    folder.mkdir(parents=True)
    for name in ("params.yaml", "suite.yaml"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "suites", folder / "suites")
    (folder / "weights").symlink_to(ROOT / "weights")
    params = project.read_params()
    for section in ("generated", "domains", "problems", "swept"):
        kept = [PROBLEM] if section in ("problems", "swept") else DOMAINS
        params[section] = {key: value for key, value in params[section].items() if key in kept}
    params["sources"] = {"mnist": {}}
    for settings in params["generated"].values():
        settings["per_class"] = PER_CLASS
    params["data"] |= {"seeds": [0, 1], "test_fraction": 0.25}
    params["rff"]["D"] = 20  # small enough that the model makes errors
    params["compare"]["methods"] = ["clip_zero_shot", "source_only", "no_clip", "calibrated"]
    params["sensitivity"] = {"D": [20, 60], "sigma": [1e-5, 1e-4]}
    params["select"] = {"sigma": [1e-5, 1e-4]}
    project.write_params(params)
    shutil.copy(folder / "suite.yaml", folder / "suites/digits.yaml")  # as if chosen by `referee use`
    project.add_graph()
    with (folder / ".gitignore").open("a") as file:
        file.write("/weights\n")
    project.run_in_process(*all_stages(params))
    project.commit_stages()
    return project
