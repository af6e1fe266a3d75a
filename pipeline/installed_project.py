"""A project without a clone: what the installed package makes it of, and how it follows a new version.

The first line of its dvc.yaml names the graph that it was copied from. The stage `code`, which runs at every
`dvc repro`, stops where the installed package has another one: stages of two versions must not be mixed.
"""

import hashlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

from ruamel.yaml import YAML

from pipeline import commented_yaml
from pipeline.errors import InputError
from pipeline.write_aside import write_aside, write_text

GRAPH = Path("dvc.yaml")
REPLACED = ("docs", ".dvc/plots")  # with those of a new version; suites may have been edited
MARK = "# The graph of referee-pipeline, copied from "


def project_files() -> Path:
    """Return the folder that has dvc.yaml, suites/ and weights/: inside the installed package, or a clone's root."""
    package = Path(__file__).parent
    installed = package / "project_files"
    return installed if installed.is_dir() else package.parent


def copy_file(name: str, target: Path) -> None:
    """Copy a file or folder of `project_files`."""
    source = project_files() / name
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("site", ".*"))
    else:
        shutil.copy(source, target)


def write_graph(file: Path) -> None:
    """Write dvc.yaml for a folder without the package; stages of the user's own that are in ``file`` stay.

    The stage `code` looks at the installed package every time, for want of a folder to depend on.
    """
    graph = commented_yaml.load((project_files() / GRAPH).read_text(encoding="utf-8"))
    code = graph["stages"]["code"]
    code.insert(list(code).index("deps"), "always_changed", True)
    del code["deps"]
    if file.is_file():
        before = commented_yaml.load(file.read_text(encoding="utf-8"))
        for name, entry in before["stages"].items():
            if not entry.get("do", entry).get("cmd", "").startswith("python -m pipeline.stages "):
                graph["stages"][name] = entry
        graph.update({key: value for key, value in before.items() if key not in graph})
    write_text(file, f"{MARK}{_identity()}\n{commented_yaml.dump(graph)}")


def require_current_graph() -> None:
    """Refuse a dvc.yaml that was copied from another graph than the installed package's; one of a clone is its own."""
    if _copied_from() not in (None, _identity()):
        raise InputError(
            f"{GRAPH}: is of another version than the installed package; run `referee upgrade`, then dvc repro"
        )


def bring_up_to_date() -> Iterator[str]:
    """Give the project in this folder the graph and pages of the installed package; a clone gets them from git."""
    copied_from = _copied_from()
    if copied_from is None:
        return
    if copied_from != _identity():
        write_graph(GRAPH)
        yield f"{GRAPH}: that of the installed version; stages of your own are kept"
    for name in REPLACED:
        with write_aside(Path(name)) as aside:
            copy_file(name, aside)


def _copied_from() -> str | None:
    """Return which graph the dvc.yaml here was copied from; None where it is a clone's own, or absent."""
    first = GRAPH.read_text(encoding="utf-8").partition("\n")[0] if GRAPH.exists() else ""
    return first.removeprefix(MARK) if first.startswith(MARK) else None


def _identity() -> str:
    """Return a digest of the installed package's graph, blind to comments."""
    graph = YAML(typ="safe").load((project_files() / GRAPH).read_text(encoding="utf-8"))
    return hashlib.sha256(json.dumps(graph).encode()).hexdigest()[:16]
