"""Refuse to compute on outputs of another commit: ``python -m pipeline.workspace``, which runs before every stage.

After `git pull`, dvc.lock names what a teammate computed, and cache/ still holds what was there before. DVC sees the
difference where its cache has the new outputs. Where it has not, `dvc repro --allow-missing` takes the new ones for
missing and the stage that makes them for up to date. The next stages then run on the old ones, or their former results
come from the run-cache, and dvc.lock names the old ones again. So this program looks at what DVC does not: outputs that
are on disk and not in DVC's cache.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path

from pipeline.errors import InputError, exits_cleanly, listed
from pipeline.paths import CACHE

LOCK = Path("dvc.lock")
# A line scan: a YAML parser takes a second for the lock of 21 problems. An entry of `outs` or `deps`, path and hash.
_LIST = re.compile(r"^    (?:(outs)|\w+):$|^    - path: (\S+)$|^      md5: (\S+)$", re.MULTILINE)


def locked_outputs(text: str) -> Iterator[tuple[str, str]]:
    r"""Yield path and md5 of the outputs that a dvc.lock names.

    Examples
    --------
    >>> list(locked_outputs('''\
    ... stages:
    ...   prompts@uci:
    ...     deps:
    ...     - path: cache/models/clip.json
    ...       md5: b1
    ...     outs:
    ...     - path: cache/prompts/uci.zarr
    ...       hash: md5
    ...       md5: a0.dir
    ... '''))
    [('cache/prompts/uci.zarr', 'a0.dir')]
    """
    among_outputs, path = False, ""
    for found in _LIST.finditer(text):
        outs, entry, md5 = found.groups()
        if entry:
            path = entry
        elif not md5:
            among_outputs = bool(outs)
        elif among_outputs:
            yield path, md5


def dvc_cache(repository: Path) -> Path:
    """Return the folder of DVC's cache; where a machine's configuration has moved it, `former_outputs` is slower."""
    config = ConfigParser(interpolation=None)
    files = [repository / ".dvc" / name for name in ("config", "config.local")]
    config.read(files, encoding="utf-8")
    return repository / ".dvc" / config.get("cache", "dir", fallback="cache")


def is_cached(md5: str, cache: Path) -> bool:
    """Tell whether DVC's cache has a file, or a folder with all its files."""
    stored = cache / "files/md5" / md5[:2] / md5[2:]
    if not stored.is_file():
        return False
    return not md5.endswith(".dir") or all(is_cached(entry["md5"], cache) for entry in json.loads(stored.read_bytes()))


def former_outputs() -> list[str]:
    """Return the outputs under cache/ that differ from what dvc.lock names, of those that DVC's cache does not have."""
    text = LOCK.read_text(encoding="utf-8") if LOCK.is_file() else ""
    here = Path.cwd()
    repository = next((folder for folder in (here, *here.parents) if (folder / ".dvc").is_dir()), here)
    cache = dvc_cache(repository)
    locked = [(path, md5) for path, md5 in locked_outputs(text) if path.startswith(f"{CACHE}/") and Path(path).exists()]
    unknown = {str(here / path) for path, md5 in locked if not is_cached(md5, cache)}
    if not unknown or not allows_missing():
        return []
    from dvc.repo import Repo  # a second, for whoever has not pulled

    with Repo() as repo:  # knows also which stages there are: dvc.lock keeps those of other suites
        outputs = [out for out in repo.index.outs if out.fs_path in unknown and out.hash_info]
        return sorted(str(out) for out in outputs if out.changed_checksum())


def allows_missing() -> bool:
    """Tell whether the `dvc` that runs this was given `--allow-missing`: without it, it pulls or makes outputs."""
    import psutil

    commands = (parent.cmdline() for parent in psutil.Process().parents())
    return any(word.startswith("--allow-m") for command in commands for word in command)


@exits_cleanly
def main() -> int:
    """Raise where the workspace has outputs of another commit."""
    if found := former_outputs():
        raise InputError(
            f"{listed(found)}: not what dvc.lock names but of another commit; replace what is old with "
            "`dvc pull --allow-missing` (dvc checkout --allow-missing takes it away), then run the same again"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
