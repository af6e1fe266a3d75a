"""Read the commands of README.md, CONTRIBUTING.md and docs/**/*.md and the markers above them.

A command is a ```bash block. tests/docs/test_doc_commands.py runs it, page by page, in a copy of a small project,
unless an HTML comment directly above the block says otherwise:

    <!-- not run: REASON -->          it needs a bucket, a GPU, an hour or the like
    <!-- run by: tests/FILE.py -->    that test runs it and names the page
    <!-- long -->                     run by `make test-long` only

Two markers turn other blocks into steps of the page:

    <!-- file: PATH -->               write the block to that file
    <!-- into params.yaml -->         replace these keys (YAML) in params.yaml or suite.yaml, depending on the section
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
    """A fenced block with its position, language, text and the marker above it."""

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
        """Whether test_doc_commands.py runs the block."""
        return self.marker in ("file", PARAMS) or (self.is_command and self.marker in ("", "long"))

    @property
    def lines(self) -> list[str]:
        """The command lines, with continuations joined and comments removed."""
        joined = self.text.replace("\\\n", " ").splitlines()
        bare = (re.sub(r"(^|\s)#.*", "", line).strip() for line in joined)
        return [line.removeprefix("$ ") for line in bare if line]

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


@dataclass(frozen=True)
class Page:
    """A page's fenced blocks and the text around them."""

    name: str
    blocks: tuple[Block, ...]
    prose: str


def read_page(path: Path, root: Path = ROOT) -> Page:
    """Split a page into blocks and prose. Only blank lines may separate a marker from its block."""
    name = path.relative_to(root).as_posix()
    blocks: list[Block] = []
    prose: list[str] = []
    marker, section = ("", ""), ""
    fence, language, first_line, content = "", "", 0, list[str]()
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if fence and line.strip() == fence:
            text = "".join(f"{entry}\n" for entry in content)
            blocks.append(Block(name, section, first_line, language, text, *marker))
            marker, fence = ("", ""), ""
        elif fence:
            content.append(line)
        elif match := FENCE.match(line):
            fence, language, first_line, content = match[1], match[2], number, []
        elif match := MARKER.match(line.strip()):
            marker = (match[1], match[2] or "")
        else:
            marker = ("", "") if line.strip() else marker
            section = line.removeprefix("## ") if line.startswith("## ") else section
            prose.append(line)
    assert not fence, f"{name}:{first_line}: the block is not closed"
    return Page(name, tuple(blocks), "\n".join(prose))


def read_pages() -> list[Page]:
    """Read all pages."""
    return [read_page(path) for path in PAGES]


def commands_of(page: str, section: str | None = None) -> list[str]:
    """Return the command lines of a page or section, without the blocks marked "not run"."""
    blocks = [block for block in read_page(ROOT / page).blocks if block.is_command and block.marker != "not run"]
    return [line for block in blocks if section in (None, block.section) for line in block.lines]
