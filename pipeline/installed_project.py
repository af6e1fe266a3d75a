"""Create and upgrade a project that uses the installed package instead of a clone.

The first line of its dvc.yaml identifies the graph that it was copied from. The stage `code`, which runs at every
`dvc repro`, fails if the installed package has a different graph, because stages of two versions must not be mixed.
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
REPLACED_FOLDERS = ("docs", ".dvc/plots")  # on upgrade; suites/ is kept because it may have been edited
MARK = "# The graph of referee-pipeline, copied from "


def project_files() -> Path:
    """Return the folder with dvc.yaml, suites/ and weights/: inside the installed package, or the root of a clone."""
    package = Path(__file__).parent
    installed = package / "project_files"
    return installed if installed.is_dir() else package.parent


def copy_file(name: str, target: Path) -> None:
    """Copy a file or folder from `project_files`."""
    source = project_files() / name
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("site", ".*"))
    else:
        shutil.copy(source, target)


def write_graph(file: Path) -> None:
    """Write dvc.yaml for a folder without the package, keeping the stages that the user added to ``file``.

    The stage `code` runs every time, because the folder has no package that it could depend on.
    """
    graph = commented_yaml.load((project_files() / GRAPH).read_text(encoding="utf-8"))
    code = graph["stages"]["code"]
    code.insert(list(code).index("deps"), "always_changed", True)
    del code["deps"]
    if file.is_file():
        existing = commented_yaml.load(file.read_text(encoding="utf-8"))
        for name, entry in existing["stages"].items():
            if not entry.get("do", entry).get("cmd", "").startswith("python -m pipeline.stages "):
                graph["stages"][name] = entry
        graph.update({key: value for key, value in existing.items() if key not in graph})
    write_text(file, f"{MARK}{_identity()}\n{commented_yaml.dump(graph)}")


def require_current_graph() -> None:
    """Raise InputError if dvc.yaml was copied from another version of the package; a clone's dvc.yaml always passes."""
    if _copied_from() not in (None, _identity()):
        raise InputError(
            f"{GRAPH}: belongs to another version than the installed package; run `referee upgrade`, then dvc repro"
        )


def bring_up_to_date() -> Iterator[str]:
    """Replace graph, docs and plots of this project by the installed ones and yield messages; do nothing in a clone."""
    copied_from = _copied_from()
    if copied_from is None:
        return
    if copied_from != _identity():
        write_graph(GRAPH)
        yield f"{GRAPH}: replaced by that of the installed version; your own stages are kept"
    for name in REPLACED_FOLDERS:
        with write_aside(Path(name)) as aside:
            copy_file(name, aside)


def _copied_from() -> str | None:
    """Return the identity of the graph that dvc.yaml was copied from, or None if it is a clone's own or absent."""
    first = GRAPH.read_text(encoding="utf-8").partition("\n")[0] if GRAPH.exists() else ""
    return first.removeprefix(MARK) if first.startswith(MARK) else None


def _identity() -> str:
    """Return a digest of the installed package's graph that ignores comments."""
    graph = YAML(typ="safe").load((project_files() / GRAPH).read_text(encoding="utf-8"))
    return hashlib.sha256(json.dumps(graph).encode()).hexdigest()[:16]
