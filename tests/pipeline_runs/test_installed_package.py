"""The wheel in an environment of its own, and a project of `referee init` run by it, as README.md says: no clone.

The environment is empty but for the wheel; the libraries it needs are taken from the one that runs the tests.
"""

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from small_project import ROOT, SmallProject, stages_run

pytestmark = [pytest.mark.slow, pytest.mark.long]

COSTLY = {"generate", "manifest", "model", "embed", "prompts"}


class Installed(SmallProject):
    """A project beside an environment with the wheel; nothing of the clone can be imported."""

    env = property(lambda self: self.folder.parent / "env")

    def environment(self, **more):
        kept = super().environment(**more)
        kept.pop("PYTHONPATH", None)
        return {**kept, "PATH": f"{self.env / 'bin'}:{kept['PATH']}"}

    def dvc_repro(self):
        return stages_run(self.run("python", "-m", "dvc", "repro").stdout)

    @property
    def package(self):
        where = "import pipeline; print(pipeline.__file__)"
        return Path(self.run("python", "-c", where).stdout.strip()).parent


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    base = tmp_path_factory.mktemp("installed")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    wheel = (*pip, "wheel", "--quiet", "--no-deps", "--wheel-dir", str(base), str(ROOT))
    subprocess.run(wheel, check=True)
    (file,) = base.glob("*.whl")
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", str(file)], check=True)
    venv.create(base / "env", with_pip=False)
    (site,) = (base / "env").glob("lib/python*/site-packages")
    (site / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    python = str(base / "env/bin/python")
    install = (*pip, "--python", python, "install", "--quiet", "--no-deps", "--no-index", str(file))
    subprocess.run(install, check=True)
    project = Installed(base / "photos")
    subprocess.run(
        [str(base / "env/bin/referee"), "init", str(project.folder)],
        check=True,
        cwd=base,
        env={**Installed(base / "x").environment()},
    )
    return project


def make_small(project):
    """Cut the default suite down to one problem and few images."""
    params = project.read_params()
    params["problems"] = params["swept"] = {"mnist-uci": {"source": "mnist", "target": "uci"}}
    params["sources"] = {"mnist": {}}
    for section in ("generated", "domains"):
        params[section].pop("print")
    for settings in params["generated"].values():
        settings["per_class"] = 12
    params["data"] |= {"seeds": [0], "test_fraction": 0.25}
    params["rff"]["D"] = 20
    params["compare"]["methods"] = ["source_only", "calibrated"]
    params["sensitivity"] = {"D": [20], "sigma": [1e-4]}
    project.write_params(params)


def test_an_installed_package_runs_a_project_and_a_new_version_only_what_it_changed(project):
    assert project.package.is_relative_to(project.env)
    make_small(project)
    ran = project.dvc_repro()
    assert {"code", "embed@mnist-vit", "adapt@mnist-uci", "report"} <= ran
    assert project.results("report.html").is_file()
    assert "report.html" in project.run("referee", "summary").stdout
    assert project.dvc_repro() == {"code"}

    with (project.package / "method/relabelling.py").open("a") as file:
        file.write("# a comment of the next version\n")
    with (project.package / "encoders/preprocessing.py").open("a") as file:
        file.write("UNUSED = 1\n")  # costly stages follow their version
    assert not {name.split("@")[0] for name in project.dvc_repro()} & COSTLY

    with (project.package / "method/relabelling.py").open("a") as file:
        file.write("UNUSED = 1\n")
    ran = {name.split("@")[0] for name in project.dvc_repro()}
    assert ran >= {"code", "adapt", "evaluate"}
    assert not ran & {*COSTLY, "probe", "basis", "source"}

    with (project.package / "report/page/assets/report.css").open("a") as file:
        file.write("/* next */\n")
    assert project.dvc_repro() == {"code", "report"}
