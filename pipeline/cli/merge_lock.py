"""Merge the dvc.lock of two branches, stage by stage.

If two people extract features of two domains, both change dvc.lock, and git
cannot merge it line by line. This command keeps the entry of every stage that
only one side changed, so no features are lost. A stage that the two sides
changed differently is left out, and the next `dvc repro` runs it again or
restores it from the cache.

Without arguments, resolves the conflict that git left in dvc.lock. With
--install, git calls this command in every later merge in this clone.

reads:  dvc.lock of both sides and of their common ancestor
writes: dvc.lock; with --install .gitattributes and .git/config
examples:
  referee merge-lock --install
  git merge theirs && referee merge-lock && git add dvc.lock
"""

import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path

from pipeline.dvc_lock import LOCK, RESTORE, Stages, parse_stages, write_stages
from pipeline.errors import InputError, counted, listed

ATTRIBUTES = Path(".gitattributes")
DRIVER = "dvc.lock merge=referee-lock"
SIDES = ("ancestor", "ours", "theirs")


def merge(base: Stages, ours: Stages, theirs: Stages) -> tuple[Stages, list[str]]:
    """Return the merged stages and the names of the conflicting ones, which both sides changed differently.

    Examples
    --------
    >>> base = {"source": 1, "embed": 1}
    >>> merge(base, base | {"embed": 2}, base | {"source": 2, "basis": 1})
    ({'source': 2, 'embed': 2, 'basis': 1}, [])
    >>> merge(base, base | {"embed": 2}, base | {"embed": 3})
    ({'source': 1}, ['embed'])
    """
    merged, conflicts = {}, []
    for name in {**ours, **theirs}:
        ancestor, left, right = base.get(name), ours.get(name), theirs.get(name)
        if ancestor not in (left, right) and left != right:
            conflicts.append(name)
        elif (entry := right if left == ancestor else left) is not None:
            merged[name] = entry
    return merged, conflicts


def read_conflict() -> tuple[Stages, Stages, Stages]:
    """Return the stages of the ancestor and of both sides from git's index."""
    sides = [_git("show", f":{number}:dvc.lock", check=False) for number in (1, 2, 3)]
    if any(side.returncode for side in sides[1:]):
        parse_stages(LOCK.read_bytes() if LOCK.is_file() else b"", str(LOCK), resolve=RESTORE)
        raise InputError("dvc.lock: no conflict to resolve; merge a branch first")
    return parse_sides(*((f"dvc.lock of {side}", git.stdout) for side, git in zip(SIDES, sides, strict=True)))


def parse_sides(*sides: tuple[str, bytes]) -> tuple[Stages, Stages, Stages]:
    """Return the stages of three files, given as pairs (name, content); raise InputError if one has a conflict."""
    base, ours, theirs = (parse_stages(content, name, resolve=RESTORE) for name, content in sides)
    return base, ours, theirs


def install_driver() -> None:
    """Configure this clone to merge dvc.lock with this command; .gitattributes is shared by all clones."""
    attributes = ATTRIBUTES.read_text(encoding="utf-8") if ATTRIBUTES.is_file() else ""
    if DRIVER not in attributes.splitlines():
        ATTRIBUTES.write_text(f"{attributes}{DRIVER}\n", encoding="utf-8")
    _git("config", "merge.referee-lock.name", "merge dvc.lock stage by stage")
    _git("config", "merge.referee-lock.driver", "referee merge-lock %O %A %B")


def _git(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[bytes]:
    done = subprocess.run(["git", *arguments], capture_output=True, check=False)  # noqa: S603, S607
    if check and done.returncode:
        raise InputError(f"git {arguments[0]}: {done.stderr.decode().strip()}; run this in a clone, or git init first")
    return done


def merge_lock(files: list[Path], *, install: bool) -> Iterator[str]:
    """Merge dvc.lock, or install the merge driver."""
    if install:
        install_driver()
        yield f"git now merges dvc.lock stage by stage; commit {ATTRIBUTES}"
        return
    if files:
        if len(files) != len(SIDES):
            raise InputError(f"merge-lock: {counted(len(files), 'file')}; name the files of {listed(SIDES)}, or none")
        if absent := [file for file in files if not file.is_file()]:
            raise InputError(f"{absent[0]}: no such file; name the files of {listed(SIDES)}")
        base, ours, theirs = parse_sides(*((str(file), file.read_bytes()) for file in files))
        path = files[1]  # where git expects the result
    else:
        (base, ours, theirs), path = read_conflict(), LOCK
    merged, conflicts = merge(base, ours, theirs)
    write_stages(merged, path)
    for name in conflicts:
        sys.stderr.write(f"referee: {name}: changed on both sides; the next dvc repro runs it\n")
    yield f"dvc.lock: {counted(len(merged), 'stage')}"


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--install", action="store_true", help="make git use this command in this clone")
    parser.add_argument("files", metavar="FILE", type=Path, nargs="*", help="ancestor, ours, theirs (git names them)")
