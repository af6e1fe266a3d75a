"""Install the wheel in an empty environment and run a project from a Parquet file to the report, without a clone.

The commands are those of README.md and docs/how-to/own-data.md. Then the installed package is changed.
"""

import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from PIL import Image

from documented_commands import read_page
from pipeline.datasets.digits import mnist, printed
from small_project import ROOT, SmallProject

pytestmark = [pytest.mark.slow, pytest.mark.long]

INSTALL, INIT, REPRO = next(
    block.lines
    for block in read_page(ROOT / "README.md").blocks
    if block.argument.endswith("test_installed_package.py")
)
SUITE = next(
    block.text for block in read_page(ROOT / "docs/how-to/own-data.md").blocks if block.argument == "suites/mine.yaml"
)


class Installed(SmallProject):
    """A project beside an environment with the wheel, in which the clone cannot be imported."""

    env = property(lambda self: self.folder.parent / "env")

    def environment(self, **variables):
        environment = super().environment(**variables)
        environment.pop("PYTHONPATH", None)
        return {**environment, "PATH": f"{self.env / 'bin'}:/usr/bin:/bin"}

    def dvc_repro(self):
        return {name.partition("@")[0] for name in self.repro()}

    @property
    def package(self):
        script = "import pipeline; print(pipeline.__file__)"
        return Path(self.run("python", "-c", script).stdout.strip()).parent


def write_dataset(file):
    """Write images of two domains to one Parquet file with two columns of class labels."""
    import datasets

    domains = {"Photos": mnist, "Drawings": printed}
    images = [(d, image) for d, draw in enumerate(domains.values()) for image in draw(0, 12)]
    names = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    classes = datasets.ClassLabel(names=names)
    features = {"image": datasets.Image(), "label": classes}
    features["domain"] = datasets.ClassLabel(names=list(domains))
    columns = {
        "image": [Image.fromarray(image.pixels) for _, image in images],
        "label": [image.digit for _, image in images],
        "domain": [domain for domain, _ in images],
    }
    dataset = datasets.Dataset.from_dict(columns, features=datasets.Features(features))
    dataset.to_parquet(file)


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    base = tmp_path_factory.mktemp("installed")
    python = (sys.executable, "-m")  # the same commands as in `make dist`
    subprocess.run([*python, "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(base), str(ROOT)], check=True)
    (wheel,) = base.glob("*.whl")
    subprocess.run([*python, "twine", "check", "--strict", str(wheel)], check=True)
    assert wheel.name == INSTALL.split("'")[1].partition("[")[0]
    venv.create(base / "env", with_pip=True)
    project = Installed(base / INIT.split()[-1])
    constraint = f"pip install --quiet --constraint {ROOT / 'constraints.txt'}"
    for command in (INSTALL.replace("pip install", constraint), INIT):
        subprocess.run(command, shell=True, check=True, cwd=base, env=project.environment(), text=True)
    return project


def test_project_runs_from_a_parquet_file_to_the_report(project):
    assert project.package.is_relative_to(project.env)
    folder, command = REPRO.split(" && ")
    assert (folder, command) == (f"cd {project.folder.name}", "dvc repro")
    file = project.folder / "data/train-00000-of-00001.parquet"
    file.parent.mkdir()
    write_dataset(file)
    suite, count = re.subn("images: data/mine/(photos|drawings)", f"images: data/{file.name}", SUITE)
    assert count == 2
    (project.folder / "suites/mine.yaml").write_text(suite)
    project.run("referee", "use", "mine")
    assert "120 images" in project.run("referee", "doctor").stdout
    project.change_params(data={"seeds": [0], "test_fraction": 0.25}, rff={"D": 20})
    project.change_params(compare={"methods": ["source_only", "calibrated"]})
    assert {"code", "embed", "adapt", "report"} <= project.dvc_repro()
    assert project.results("report.html").is_file()
    assert "report.html" in project.run("referee", "summary").stdout
    assert "four" in project.run("referee", "predict", "--problem", "photos-drawings", str(file)).stdout
    assert project.dvc_repro() == {"code"}


def test_new_version_runs_only_the_stages_that_it_changed(project):
    """Kinds of changes are tested in test_what_runs_again.py."""
    with (project.package / "method/relabelling.py").open("a") as file:
        file.write("UNUSED = 1\n")
    ran = project.dvc_repro()
    assert ran >= {"code", "adapt", "evaluate"}
    assert not ran & {"manifest", "model", "embed", "prompts", "probe", "source"}
