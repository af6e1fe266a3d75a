"""One story for every kind of server: a teammate with no images, no GPU and no weights gets a result.

A runs the pipeline and pushes. B clones, changes sigma, runs one command. A takes over B's result, computing nothing.
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
REPORT = "results/toy/report.html"  # never pushed: each makes their own


@dataclass(frozen=True)
class SharedRemote:
    """A remote to share through: a section of docs/how-to/sharing.md and what stands for its examples here."""

    section: str
    instead: dict[str, str]  # of the page's example addresses, users and keys
    environment: dict[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()  # what must not be in anything that git tracks

    def recipe(self) -> list[str]:
        """Return the section's commands, three of A's and two of B's, for this server."""
        lines = "\n".join(commands_of(PAGE, self.section))
        for example, here in self.instead.items():
            assert example in lines
            lines = lines.replace(example, here)
        return lines.splitlines()


def shared_folder(folder: Path) -> SharedRemote:
    """Return a folder to share through."""
    return SharedRemote("A shared folder", {"/mnt/team/referee": str(folder)})


def share_and_hand_back(owner: SmallProject, folder: Path, server: SharedRemote) -> SmallProject:
    """Go through the whole story; ``owner`` was run and committed. Returns B's clone."""
    give(owner, server)
    mate = join(owner, folder / "mate", server)
    change_sigma_and_run(owner, mate, folder, server)
    hand_back(owner, mate)
    return mate


def give(owner: SmallProject, server: SharedRemote) -> None:
    """A sets up the remote, pushes, commits; no key is in what git tracks."""
    share, *rest = server.recipe()[:3]
    assert "dvc push --run-cache" in owner.run("bash", "-c", share, **server.environment).stdout
    for command in rest:
        owner.run("bash", "-c", command)
    assert owner.run("git", "status", "--porcelain").stdout == ""
    tracked = owner.run("git", "grep", "-h", "", "HEAD").stdout
    assert "url = " in tracked
    assert not [secret for secret in server.secrets if secret in tracked]


def join(owner: SmallProject, folder: Path, server: SharedRemote) -> SmallProject:
    """B clones and tries the remote with keys of its own."""
    mate = owner.clone(folder)
    share, then = server.recipe()[3:]
    assert mate.run("bash", "-c", share, **server.environment).stdout.endswith(f"next: {then}\n")
    return mate


def change_sigma_and_run(owner: SmallProject, mate: SmallProject, folder: Path, server: SharedRemote) -> None:
    """B changes sigma and runs one command: statistics alone are computed, features alone are transferred."""
    assert in_clone(mate) == {"data/README.md", "weights/README.md", "cache/README.md"}
    assert not (mate.folder / ".dvc" / "cache").exists()
    mate.change_params(rff={"sigma": 1e-2})
    output = mate.run("bash", "-c", server.recipe()[-1], **without_encoders(folder)).stdout
    assert stages_run(output) == COMPUTED_ANEW
    assert not (folder / "an encoder was imported").exists()
    assert "left-right" in metrics(mate)
    assert metrics(mate) != metrics(owner)
    assert {path.name for path in (mate.folder / "data").iterdir()} == {"README.md"}
    assert images_among(mate.folder / ".dvc" / "cache") == []
    needed = needed_entries(owner)
    made = [out for stage in COMPUTED_ANEW for out in locked(mate)[stage]["outs"]]
    lists = {out["md5"] for out in locked(owner)["code"]["outs"]}  # of the files in cache/code
    pages = {out["md5"] for out in made if out["path"] == REPORT}
    in_cache = {f.parent.name + f.name for f in (mate.folder / ".dvc/cache/files/md5").rglob("*") if f.is_file()}
    kept = [out for out in made if out["path"] != REPORT]
    assert in_cache - pages == objects_of(needed, owner) | objects_of(kept, mate) | lists
    embeddings = sum(entry["size"] for entry in needed if "embeddings" in entry["path"])
    assert embeddings > 0.8 * sum(entry["size"] for entry in needed)


def hand_back(owner: SmallProject, mate: SmallProject) -> None:
    """B pushes and commits; A pulls: the result is there and no stage has run."""
    mate.run("dvc", "push", "--run-cache")
    mate.run("git", "commit", "--quiet", "-am", "sigma 1e-2")
    owner.run("git", "pull", "--quiet", "--ff-only", str(mate.folder), "HEAD")
    ran = owner.repro("--pull")
    assert ran <= {"report"}, ran  # which is never pushed, and has pictures only here
    assert metrics(owner) == metrics(mate)
    assert "up to date" in owner.run("dvc", "status").stdout


def metrics(project: SmallProject) -> str:
    """Return the text of the headline figures."""
    return project.results("metrics.json").read_text()


def without_encoders(folder: Path) -> dict[str, str]:
    """Return the environment of somebody with no GPU and no hub, in which importing an encoder leaves a trace."""
    marker = folder / "an encoder was imported"
    for name in ("timm", "open_clip"):
        package = folder / "no_encoders" / name
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(
            f"open({str(marker)!r}, 'w').close()\nraise ImportError('there is no encoder here')\n"
        )
    return {"PYTHONPATH": str(folder / "no_encoders"), "CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1"}


def in_clone(mate: SmallProject) -> set[str]:
    """Return what git gave to a clone of the folders that are not git's."""
    files = [file for name in ("data", "weights", "cache") for file in mate.folder.glob(f"{name}/**/*")]
    return {file.relative_to(mate.folder).as_posix() for file in files}


def locked(project: SmallProject) -> dict[str, Any]:
    """Return the stages of dvc.lock."""
    return YAML(typ="safe", pure=True).load((project.folder / "dvc.lock").read_text())["stages"]


def needed_entries(owner: SmallProject) -> list[dict[str, Any]]:
    """Return what the stages computed anew read and do not write, by A's dvc.lock."""
    stages = locked(owner)
    written = {out["path"] for name in COMPUTED_ANEW for out in stages[name].get("outs", [])}
    # the code is in git; folders of results consist of what the stages write, a README.md, and the sweep over sigma,
    # which a change of sigma leaves as it is
    not_fetched, fetched = ("pipeline/", "results/toy/"), ("README.md", "sigma.csv", "sigma.json")
    deps = {dep["path"]: dep for name in COMPUTED_ANEW for dep in stages[name]["deps"]}
    return [
        dep
        for path, dep in deps.items()
        if path not in written and (path.endswith(fetched) or not path.startswith(not_fetched))
    ]


def objects_of(entries: list[dict[str, Any]], project: SmallProject) -> set[str]:
    """Return the names of the objects that entries of dvc.lock consist of: a folder's list, and its files."""
    names = {entry["md5"] for entry in entries}
    for name in [name for name in names if name.endswith(".dir")]:
        listed = project.folder / ".dvc/cache/files/md5" / name[:2] / name[2:]
        names |= {entry["md5"] for entry in json.loads(listed.read_text())}
    return names


def images_among(folder: Path) -> list[Path]:
    """Return the files under ``folder`` that are pictures."""
    files = [file for file in folder.rglob("*") if file.is_file()]
    assert files, f"{folder}: nothing to look at"
    return [file for file in files if file.read_bytes()[:4] == b"\x89PNG"]
