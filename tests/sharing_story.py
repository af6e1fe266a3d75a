"""Share results through any kind of server: a teammate without images, GPU and weights computes a result.

A runs the pipeline and pushes. B clones, changes sigma and runs one command. A pulls B's result and computes nothing.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from documented_commands import commands_of
from small_project import SmallProject, stages_run

PAGE = "docs/how-to/sharing.md"
PULL = ("dvc", "repro", "--pull", "--allow-missing")
COMPUTED_ANEW = {"source@left", "evaluate@all@toy", "tables", "report"} | {
    f"{stage}@left-right" for stage in ("adapt", "evaluate", "compare", "sensitivity_D", "select")
}
REPORT = "results/toy/report.html"  # never pushed


@dataclass(frozen=True)
class SharedRemote:
    """A remote, described by a section of docs/how-to/sharing.md and real values for its examples."""

    section: str
    replacements: dict[str, str]  # of the page's example addresses, users and keys
    environment: dict[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()  # must not be in any file that git tracks

    def recipe(self) -> list[str]:
        """Return the section's commands for this server: three of A and two of B."""
        text = "\n".join(commands_of(PAGE, self.section))
        for example, value in self.replacements.items():
            assert example in text
            text = text.replace(example, value)
        return text.splitlines()


def shared_folder(folder: Path) -> SharedRemote:
    """Return a folder to share through."""
    return SharedRemote("A shared folder", {"/mnt/team/referee": str(folder)})


def share_and_hand_back(owner: SmallProject, folder: Path, server: SharedRemote) -> SmallProject:
    """Share the project of ``owner``, which was run and committed, and pull B's result; return B's clone."""
    publish(owner, server)
    mate = join(owner, folder / "mate", server)
    change_sigma_and_run(owner, mate, folder, server)
    hand_back(owner, mate)
    return mate


def publish(owner: SmallProject, server: SharedRemote) -> None:
    """Let A set up the remote, push and commit; check that git tracks no key."""
    share, *rest = server.recipe()[:3]
    assert "dvc push --run-cache" in owner.run("bash", "-c", share, **server.environment).stdout
    for command in rest:
        owner.run("bash", "-c", command)
    assert owner.run("git", "status", "--porcelain").stdout == ""
    tracked = owner.run("git", "grep", "-h", "", "HEAD").stdout
    assert "url = " in tracked
    assert not [secret for secret in server.secrets if secret in tracked]


def join(owner: SmallProject, folder: Path, server: SharedRemote) -> SmallProject:
    """Let B clone and test the remote with B's keys; return the clone."""
    mate = owner.clone(folder)
    share, repro = server.recipe()[3:]
    assert mate.run("bash", "-c", share, **server.environment).stdout.endswith(f"next: {repro}\n")
    return mate


def change_sigma_and_run(owner: SmallProject, mate: SmallProject, folder: Path, server: SharedRemote) -> None:
    """Let B change sigma and run one command; check that it computes only statistics and fetches only features."""
    assert cloned_files(mate) == {"data/README.md", "weights/README.md", "cache/README.md"}
    assert not (mate.folder / ".dvc" / "cache").exists()
    mate.change_params(rff={"sigma": 1e-2})
    output = mate.run("bash", "-c", server.recipe()[-1], **hide_encoders(folder)).stdout
    assert stages_run(output) == COMPUTED_ANEW
    assert not (folder / "an encoder was imported").exists()
    assert "left-right" in metrics(mate)
    assert metrics(mate) != metrics(owner)
    assert {path.name for path in (mate.folder / "data").iterdir()} == {"README.md"}
    assert find_pngs(mate.folder / ".dvc" / "cache") == []
    inputs = input_entries(owner)
    outputs = [out for stage in COMPUTED_ANEW for out in locked(mate)[stage]["outs"]]
    code_lists = {out["md5"] for out in locked(owner)["code"]["outs"]}  # lists of the files in cache/code
    pages = {out["md5"] for out in outputs if out["path"] == REPORT}
    cached = {f.parent.name + f.name for f in (mate.folder / ".dvc/cache/files/md5").rglob("*") if f.is_file()}
    kept = [out for out in outputs if out["path"] != REPORT]
    assert cached - pages == objects_of(inputs, owner) | objects_of(kept, mate) | code_lists
    embeddings = sum(entry["size"] for entry in inputs if "embeddings" in entry["path"])
    assert embeddings > 0.8 * sum(entry["size"] for entry in inputs)


def hand_back(owner: SmallProject, mate: SmallProject) -> None:
    """Let B push and commit and A pull; check that A has the result without running a stage."""
    mate.run("dvc", "push", "--run-cache")
    mate.run("git", "commit", "--quiet", "-am", "sigma 1e-2")
    owner.run("git", "pull", "--quiet", "--ff-only", str(mate.folder), "HEAD")
    ran = owner.repro("--pull")
    assert ran <= {"report"}, ran  # never pushed, and only A's has pictures
    assert metrics(owner) == metrics(mate)
    assert "up to date" in owner.run("dvc", "status").stdout


def metrics(project: SmallProject) -> str:
    """Return the text of metrics.json."""
    return project.results("metrics.json").read_text()


def hide_encoders(folder: Path) -> dict[str, str]:
    """Return an environment without GPU and hub, in which importing an encoder leaves a marker file."""
    marker = folder / "an encoder was imported"
    for name in ("timm", "open_clip"):
        package = folder / "no_encoders" / name
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(
            f"open({str(marker)!r}, 'w').close()\nraise ImportError('encoders are hidden')\n"
        )
    return {"PYTHONPATH": str(folder / "no_encoders"), "CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1"}


def cloned_files(mate: SmallProject) -> set[str]:
    """Return the files that a clone has in data/, weights/ and cache/."""
    files = [file for name in ("data", "weights", "cache") for file in mate.folder.glob(f"{name}/**/*")]
    return {file.relative_to(mate.folder).as_posix() for file in files}


def locked(project: SmallProject) -> dict[str, Any]:
    """Return the stages of a project's dvc.lock."""
    return YAML(typ="safe", pure=True).load((project.folder / "dvc.lock").read_text())["stages"]


def input_entries(owner: SmallProject) -> list[dict[str, Any]]:
    """Return the entries of A's dvc.lock that the recomputed stages read but do not write."""
    stages = locked(owner)
    written = {out["path"] for name in COMPUTED_ANEW for out in stages[name].get("outs", [])}
    # code is in git; folders of results contain outputs of the stages, a README.md and the sweep over sigma, which does
    # not depend on sigma
    not_fetched, fetched = ("pipeline/", "results/toy/"), ("README.md", "sigma.csv", "sigma.json")
    deps = {dep["path"]: dep for name in COMPUTED_ANEW for dep in stages[name]["deps"]}
    return [
        dep
        for path, dep in deps.items()
        if path not in written and (path.endswith(fetched) or not path.startswith(not_fetched))
    ]


def objects_of(entries: list[dict[str, Any]], project: SmallProject) -> set[str]:
    """Return the hashes of the objects behind entries of dvc.lock: lists of folders, and files."""
    hashes = {entry["md5"] for entry in entries}
    for name in [name for name in hashes if name.endswith(".dir")]:
        file_list = project.folder / ".dvc/cache/files/md5" / name[:2] / name[2:]
        hashes |= {entry["md5"] for entry in json.loads(file_list.read_text())}
    return hashes


def find_pngs(folder: Path) -> list[Path]:
    """Return the PNG files under a folder, which must not be empty."""
    files = [file for file in folder.rglob("*") if file.is_file()]
    assert files, f"{folder}: no files"
    return [file for file in files if file.read_bytes()[:4] == b"\x89PNG"]
