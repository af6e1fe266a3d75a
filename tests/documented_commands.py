"""The commands of README.md and docs/**/*.md, and what their markers say of them.

A command is a ```bash block. A test runs it (tests/docs/test_doc_commands.py), page by page, in a copy of a small
project, unless an HTML comment directly above the block says otherwise:

    <!-- not run: WHY -->             it needs what no test has: a bucket, a GPU, an hour
    <!-- run by: tests/FILE.py -->    that test runs it, and names the page
    <!-- long -->                     run by `make test-long` only

Two markers turn another block into what the page tells its reader to do:

    <!-- file: PATH -->               the block is the text of that file
    <!-- into params.yaml -->         the block (YAML) replaces these keys of params.yaml
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from small_project import ROOT

PAGES = (
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
)
SHELLS = ("bash", "sh", "shell", "console", "zsh")
PROGRAMS = (
    "referee",
    "dvc",
    "make",
    "python",
    "pytest",
    "pip",
    "git",
    "docker",
    "sbatch",
    "source",
    "cp",
    "ln",
)
MARKER = re.compile(r"^<!-- (not run|run by|file|into params\.yaml|long)(?:: (.+))? -->$")
FENCE = re.compile(r"^(```+|~~~+)(\w*)")


@dataclass(frozen=True)
class Block:
    """A fenced block: where it stands, its language, its text, and the marker above it."""

    page: str
    line: int
    language: str
    text: str
    marker: str = ""
    told: str = ""

    @property
    def is_command(self) -> bool:
        return self.language in SHELLS

    @property
    def is_run_here(self) -> bool:
        """Whether the page's own test takes it, always or in the long suite."""
        return self.marker in ("file", "into params.yaml") or (
            self.is_command and self.marker in ("", "long")
        )

    @property
    def lines(self) -> list[str]:
        """The command lines: continuations joined, comments dropped."""
        joined = self.text.replace("\\\n", " ").splitlines()
        bare = (re.sub(r"(^|\s)#.*", "", line).strip() for line in joined)
        return [line.removeprefix("$ ") for line in bare if line]

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


@dataclass(frozen=True)
class Page:
    """A page: its fenced blocks, and the text around them."""

    name: str
    blocks: tuple[Block, ...]
    prose: str


def read_page(path: Path, root: Path = ROOT) -> Page:
    """Take a page apart; a marker may be separated from its block by blank lines only."""
    name = path.relative_to(root).as_posix()
    blocks, prose = [], []
    marker, told, fence, opened, inside = "", "", "", 0, []
    language = ""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if fence:
            if line.strip() == fence:
                text = "".join(f"{entry}\n" for entry in inside)
                blocks.append(Block(name, opened, language, text, marker, told))
                marker, told, fence = "", "", ""
            else:
                inside.append(line)
        elif found := FENCE.match(line):
            fence, language, opened, inside = found[1], found[2], number, []
        elif found := MARKER.match(line.strip()):
            marker, told = found[1], found[2] or ""
        else:
            if line.strip():
                marker, told = "", ""
            prose.append(line)
    assert not fence, f"{name}:{opened}: the block is not closed"
    return Page(name, tuple(blocks), "\n".join(prose))


def read_pages() -> list[Page]:
    """Read all pages."""
    return [read_page(path) for path in PAGES]


def looks_like_a_command(line: str) -> bool:
    """Tell whether a line of text begins as a command does."""
    words = line.strip().removeprefix("$ ").split()
    return len(words) > 1 and words[0] in PROGRAMS
