"""Merge the dvc.lock of two branches, stage by stage.

Two people who extracted two domains both changed dvc.lock, and git cannot merge
it by lines. This command keeps the entry of every stage that one side changed,
so nobody's features are lost. A stage that both sides changed in different ways
is left out: the next `dvc repro` runs it, or takes it from the cache.

Without files it resolves the conflict that git left in dvc.lock. --install
makes git do so by itself in this clone, from the next merge on.

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
    """Return the merged stages, and the names of those that both sides changed differently.

    Examples
    --------
    >>> base = {"source": 1, "embed": 1}
    >>> merge(base, base | {"embed": 2}, base | {"source": 2, "basis": 1})
    ({'source': 2, 'embed': 2, 'basis': 1}, [])
    >>> merge(base, base | {"embed": 2}, base | {"embed": 3})
    ({'source': 1}, ['embed'])
    """
    merged, both = {}, []
    for name in {**ours, **theirs}:
        before, mine, other = base.get(name), ours.get(name), theirs.get(name)
        if before not in (mine, other) and mine != other:
            both.append(name)
        elif (chosen := other if mine == before else mine) is not None:
            merged[name] = chosen
    return merged, both


def conflicted() -> tuple[Stages, Stages, Stages]:
    """Return the stages of the ancestor and of both sides, as git keeps them of a conflict."""
    shown = [_git("show", f":{number}:dvc.lock", check=False) for number in (1, 2, 3)]
    if any(side.returncode for side in shown[1:]):
        parse_stages(LOCK.read_bytes() if LOCK.is_file() else b"", str(LOCK), resolve=RESTORE)
        raise InputError("dvc.lock: git has no conflict in it; merge a branch first")
    return parsed(*((f"dvc.lock of {side}", git.stdout) for side, git in zip(SIDES, shown, strict=True)))


def parsed(*sides: tuple[str, bytes]) -> tuple[Stages, Stages, Stages]:
    """Return the stages of three files, given their names and contents; none may have a conflict in it."""
    base, ours, theirs = (parse_stages(content, name, resolve=RESTORE) for name, content in sides)
    return base, ours, theirs


def install_driver() -> None:
    """Let git merge dvc.lock by this command in this clone; the attribute is for everybody."""
    attributes = ATTRIBUTES.read_text(encoding="utf-8") if ATTRIBUTES.is_file() else ""
    if DRIVER not in attributes.splitlines():
        ATTRIBUTES.write_text(f"{attributes}{DRIVER}\n", encoding="utf-8")
    _git("config", "merge.referee-lock.name", "merge dvc.lock stage by stage")
    _git("config", "merge.referee-lock.driver", "referee merge-lock %O %A %B")


def _git(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", *arguments], capture_output=True, check=check)  # noqa: S603, S607


def merge_lock(files: list[Path], *, install: bool) -> Iterator[str]:
    """Merge, or install the merge driver."""
    if install:
        install_driver()
        yield f"git merges dvc.lock by stages from now on; commit {ATTRIBUTES}"
        return
    if files:
        if len(files) != len(SIDES):
            raise InputError(f"merge-lock: {counted(len(files), 'file')}; name those of {listed(SIDES)}, or none")
        if absent := [file for file in files if not file.is_file()]:
            raise InputError(f"{absent[0]}: no such file; name those of {listed(SIDES)}")
        base, ours, theirs = parsed(*((str(file), file.read_bytes()) for file in files))
        path = files[1]  # where git expects the result
    else:
        (base, ours, theirs), path = conflicted(), LOCK
    merged, both = merge(base, ours, theirs)
    write_stages(merged, path)
    for name in both:
        sys.stderr.write(f"referee: {name}: changed on both sides; the next dvc repro runs it\n")
    yield f"dvc.lock: {counted(len(merged), 'stage')}"


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--install", action="store_true", help="let git call it in this clone")
    parser.add_argument("files", metavar="FILE", type=Path, nargs="*", help="ancestor, ours, theirs: as git calls it")
