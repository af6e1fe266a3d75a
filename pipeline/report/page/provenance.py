"""Tell what was run: the revision, the hashes of the stores, and whether a page shows the current figures."""

import hashlib
import subprocess
from collections.abc import Iterable
from pathlib import Path

from pipeline.dvc_lock import read_stages
from pipeline.errors import InputError

CODE_AND_SETTINGS = ("pipeline", "dvc.yaml", "params.yaml", "suite.yaml")  # uncommitted changes here are reported
GIT_SECONDS = 20


def revision() -> str:
    """Return the git revision of the work tree, or the reason why it is not known."""
    try:
        head = _git("rev-parse", "HEAD")
        changed = _git("status", "--porcelain", "--", *CODE_AND_SETTINGS)
    except (OSError, subprocess.SubprocessError):
        return "not known: no git repository with a commit here"
    names = sorted({line[3:].split("/")[0] for line in changed.splitlines()})
    return head + (f", with uncommitted changes in {', '.join(names)}" if names else "")


def _git(*arguments: str) -> str:
    command = ["git", *arguments]  # the git of the user's path, as DVC uses it
    process = subprocess.run(command, capture_output=True, text=True, check=True, timeout=GIT_SECONDS)  # noqa: S603
    return process.stdout.strip("\n")


def store_hashes() -> list[tuple[str, str, str, object]]:
    """Return path, stage, hash and size of the outputs in dvc.lock, sorted by path; nothing if it is absent or broken.

    Code fingerprints and the page itself are left out.
    """
    try:
        stages = read_stages()
    except (InputError, OSError):
        return []
    return sorted(
        (out["path"], stage, out["md5"], out.get("size", ""))
        for stage, entry in stages.items()
        for out in entry.get("outs", [])
        if stage not in ("code", "report") and out.get("md5")
    )


def figures_digest(files: Iterable[Path]) -> str:
    """Return a digest of the files that hold the figures of a page; some may be absent."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes() if file.is_file() else b"absent")
    return digest.hexdigest()


def shows_figures(page: Path, digest: str) -> bool:
    """Tell whether a page was made from the figures with this digest, which is in its head."""
    with page.open("rb") as file:
        return f'<meta name="figures" content="{digest}">'.encode() in file.read(4096)
