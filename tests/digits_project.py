"""The shipped default in small: real MNIST and UCI digits, the shipped weights, one problem, run by `dvc repro`.

What imports torch is run beforehand in one process and told to DVC by `dvc commit`: a third of the time.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
from pathlib import Path

from small_project import ROOT, SmallProject

PER_CLASS = 12
PROBLEM = "mnist-uci"
DOMAINS = ("mnist", "uci")
UP_TO_FEATURES = (
    ("code",),
    *((stage, domain) for stage in ("generate", "manifest") for domain in DOMAINS),
    *(("model", model) for model in ("vit", "clip")),
    *(("embed", domain, model) for domain in DOMAINS for model in ("vit", "clip")),
    *(("prompts", domain) for domain in DOMAINS),
)
IN_ONE_PROCESS = """
import importlib, sys
for stage, *arguments in {stages!r}:
    status = importlib.import_module(f"pipeline.stages.{{stage}}").main(arguments)
    if status:
        sys.exit(f"{{stage}} {{arguments}}: status {{status}}")
"""


def make(folder: Path) -> SmallProject:
    """Lay out the project: the repository's own files, params.yaml cut down, weights linked; run it."""
    project = SmallProject(folder)
    folder.mkdir(parents=True)
    shutil.copy(ROOT / "params.yaml", folder)
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
    params["rff"]["D"] = 20  # so few that the model errs, as models do
    params["compare"]["methods"] = ["clip_zero_shot", "source_only", "no_clip", "calibrated"]
    params["sensitivity"] = {"D": [20, 60], "sigma": [1e-5, 1e-4]}
    project.write_params(params)
    project.make_kept_folders()
    project.add_graph()
    with (folder / ".gitignore").open("a") as file:
        file.write("/.venv\n/dvc_plots\n")
    project.run(sys.executable, "-c", IN_ONE_PROCESS.format(stages=UP_TO_FEATURES))
    names = ["@".join((stage, "-".join(of))) if of else stage for stage, *of in UP_TO_FEATURES]
    project.run("dvc", "commit", "--quiet", "--force", *names)
    ran = project.repro()
    assert not {name.split("@")[0] for name in ran} & {"embed", "prompts", "manifest"}, ran
    return project


def shared(base: Path) -> Path:
    """Make the project once, however many processes pytest has; return its folder, to be read or copied only."""
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with (base / "digits.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (base / "digits").exists():
            shutil.rmtree(base / "undone", ignore_errors=True)
            make(base / "undone")
            (base / "undone").rename(base / "digits")
    return base / "digits"
