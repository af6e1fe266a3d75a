"""The commands of README.md, CONTRIBUTING.md and docs/**/*.md, and what their markers say of them.

A command is a ```bash block. tests/docs/test_doc_commands.py runs it, page by page, in a copy of a small project,
unless an HTML comment directly above the block says otherwise:

    <!-- not run: WHY -->             it needs what no test has: a bucket, a GPU, an hour
    <!-- run by: tests/FILE.py -->    that test runs it, and names the page
    <!-- long -->                     run by `make test-long` only

Two markers turn another block into what the page asks its reader to do:

    <!-- file: PATH -->               the block is the text of that file
    <!-- into params.yaml -->         the block (YAML) replaces these keys of params.yaml or suite.yaml;
                                      the section says which
"""

import re
from dataclasses import dataclass
from pathlib import Path

from small_project import ROOT

PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")))
SHELLS = ("bash", "sh", "shell", "console", "zsh")
PARAMS = "into params.yaml"
MARKER = re.compile(rf"^<!-- (not run|run by|file|{re.escape(PARAMS)}|long)(?:: (.+))? -->$")
FENCE = re.compile(r"^(```+|~~~+)(\w*)")


@dataclass(frozen=True)
class Block:
    """A fenced block: its page, section and line, language and text, and the marker above it with its argument."""

    page: str
    section: str
    line: int
    language: str
    text: str
    marker: str = ""
    argument: str = ""

    @property
    def is_command(self) -> bool:
        return self.language in SHELLS

    @property
    def is_run_here(self) -> bool:
        """Whether the page's own test takes it, always or in the long suite."""
        is_plain_command = self.is_command and self.marker in ("", "long")
        return is_plain_command or self.marker in ("file", PARAMS)

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
    blocks: list[Block] = []
    prose: list[str] = []
    marker, section = ("", ""), ""
    fence, language, opened, inside = "", "", 0, list[str]()
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if fence and line.strip() == fence:
            text = "".join(f"{entry}\n" for entry in inside)
            blocks.append(Block(name, section, opened, language, text, *marker))
            marker, fence = ("", ""), ""
        elif fence:
            inside.append(line)
        elif match := FENCE.match(line):
            fence, language, opened, inside = match[1], match[2], number, []
        elif match := MARKER.match(line.strip()):
            marker = (match[1], match[2] or "")
        else:
            marker = ("", "") if line.strip() else marker
            section = line.removeprefix("## ") if line.startswith("## ") else section
            prose.append(line)
    assert not fence, f"{name}:{opened}: the block is not closed"
    return Page(name, tuple(blocks), "\n".join(prose))


def read_pages() -> list[Page]:
    """Read all pages."""
    return [read_page(path) for path in PAGES]


def commands_of(page: str, section: str | None = None) -> list[str]:
    """Return the command lines of a page, or of one of its sections, but those that no test can run."""
    blocks = [block for block in read_page(ROOT / page).blocks if block.is_command and block.marker != "not run"]
    return [line for block in blocks if section in (None, block.section) for line in block.lines]
