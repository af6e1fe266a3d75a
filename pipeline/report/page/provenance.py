"""What was run: the revision, the hashes of the stores, and whether a page shows the figures of today."""

import hashlib
import subprocess
from collections.abc import Iterable
from pathlib import Path

from pipeline.dvc_lock import read_stages
from pipeline.errors import InputError

DECIDING = ("pipeline", "dvc.yaml", "params.yaml", "suite.yaml")  # uncommitted changes here are mentioned
GIT_SECONDS = 20


def revision() -> str:
    """Return git's revision of the work tree, or why it is not known."""
    try:
        head = _git("rev-parse", "HEAD")
        changed = _git("status", "--porcelain", "--", *DECIDING)
    except (OSError, subprocess.SubprocessError):
        return "not known: no git repository with a commit here"
    names = sorted({line[3:].split("/")[0] for line in changed.splitlines()})
    return head + (f", with uncommitted changes in {', '.join(names)}" if names else "")


def _git(*arguments: str) -> str:
    command = ["git", *arguments]  # the git of the user's path, as DVC uses it
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=GIT_SECONDS)  # noqa: S603
    return done.stdout.strip("\n")


def store_hashes() -> list[tuple[str, str, str, object]]:
    """Return path, stage, hash and size of the outputs that dvc.lock names, by path; none if it is absent or broken.

    Code digests and the page itself are left out.
    """
    try:
        stages = read_stages()
    except InputError:
        return []
    return sorted(
        (out["path"], stage, out["md5"], out.get("size", ""))
        for stage, entry in stages.items()
        for out in entry.get("outs", [])
        if stage not in ("code", "report") and out.get("md5")
    )


def figures_digest(files: Iterable[Path]) -> str:
    """Return a digest of the files that hold the figures of a page; of those that are there."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes() if file.is_file() else b"absent")
    return digest.hexdigest()


def shows_figures(page: Path, digest: str) -> bool:
    """Tell whether a page was made from the figures of a digest: it names them in its head."""
    with page.open("rb") as file:
        return f'<meta name="figures" content="{digest}">'.encode() in file.read(4096)
