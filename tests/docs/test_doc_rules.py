"""No command of the docs without a test: each is run, or the marker beside it says why not; and each one exists."""

import argparse
import importlib.util
import re
import shlex

import pytest
from dvc.cli.parser import get_main_parser

from documented_commands import Block, read_page, read_pages
from pipeline.cli.main import parser as referee_parser
from small_project import ROOT

PAGES = read_pages()
COMMANDS = [block for page in PAGES for block in page.blocks if block.is_command]
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
PARSERS = {"referee": referee_parser(), "dvc": get_main_parser()}
PROGRAMS = ("referee", "dvc", "make", "python", "pytest", "pip", "git", "docker", "sbatch", "source", "cp", "ln")
every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def wrong_marker(block: Block) -> str | None:
    """Return what is wrong with a block's marker."""
    files = re.findall(r"tests/[\w/]+\.py", block.argument)
    missing = [file for file in files if not (ROOT / file).is_file()]
    if missing:
        return f"there is no {missing[0]}"
    if block.marker == "not run" and len(block.argument.split()) < 2:
        return "`not run:` needs a reason in words"
    if block.marker == "file" and not block.argument:
        return "`file:` needs a path"
    if block.marker == "run by":
        if files != [block.argument]:
            return "`run by:` needs the path of a test"
        text = (ROOT / block.argument).read_text(encoding="utf-8")
        if block.page not in text:
            return f"{block.argument} does not mention {block.page}"
        commands = [line.split() for whole in block.lines for line in simple_commands(whole)]
        absent = [words for words in commands if len(words) > 1 and words[1] not in text]
        if absent and not re.search("read_text|read_page|commands_of|sharing_story", text):
            return f"{block.argument} has no {' '.join(absent[0])}"
    return None


def hidden_commands(page):
    """Yield lines that look like commands and stand in a block that no test looks at."""

    others = [block.text for block in page.blocks if not block.is_command and block.marker != "file"]
    in_blocks = [line for text in others for line in text.splitlines() if not line.startswith(" ")]
    indented = [line for line in page.prose.splitlines() if line.startswith(("    ", "\t"))]
    for line in in_blocks + indented:
        words = line.strip().removeprefix("$ ").split()
        if len(words) > 1 and words[0] in PROGRAMS:
            yield line


@every_page
def test_commands_stand_in_bash_blocks_with_honest_markers(page):
    assert [f"{block}: {wrong}" for block in page.blocks if (wrong := wrong_marker(block))] == []
    assert list(hidden_commands(page)) == [], "write commands in a ```bash block"


def unknown_word(line: str) -> str | None:
    """Return what of a command does not exist: a subcommand, an option, a target, a module, a test."""
    try:
        words = shlex.split(line)
    except ValueError:
        return "its quotes do not close"
    if words[0] in PARSERS:
        return _unknown_to(PARSERS[words[0]], words[1:])
    if words[0] == "make":
        return next((word for word in words[1:] if "=" not in word and word not in TARGETS), None)
    if words[:2] == ["python", "-m"] and importlib.util.find_spec(words[2]) is None:
        return words[2]
    if words[0] == "pytest":
        paths = [word for word in words[1:] if word.startswith("tests")]
        return next((path for path in paths if not (ROOT / path.split("::")[0]).exists()), None)
    return None


def _unknown_to(parser: argparse.ArgumentParser, words: list[str]) -> str | None:
    """Walk down the subcommands; return the first that is none, or the first option that is unknown."""
    for position, word in enumerate(words):
        children = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
        known = parser._option_string_actions
        if word.startswith("-"):
            option = word.split("=")[0]
            attached = option[:2] in known and not option.startswith("--")
            if not (option in known or option.lstrip("-").isdigit() or attached):
                return word
        elif children:
            if word not in children[0].choices:
                return word
            return _unknown_to(children[0].choices[word], words[position + 1 :])
    return None


def simple_commands(line: str) -> list[str]:
    """Split a line at && and ; and |, and leave redirections out."""
    parts = re.split(r"&&|\|\||;|\|(?!\w)", re.sub(r"\s\d?>+ *\S+", "", line))
    return [part.strip() for part in parts if part.strip()]


def inline_commands(page):
    """Yield the commands that stand in the text between backticks."""
    for span in re.findall(r"(?<!`)`([^`\n]+)`(?!`)", page.prose):
        if span.split()[0] in ("referee", "dvc", "make", "python", "pytest") and " " in span:
            yield span.replace("…", " ").replace("...", " ")


@every_page
def test_every_command_exists(page):
    in_blocks = [line for block in page.blocks if block.is_command for line in block.lines]
    unknown = [
        f"{line}: {word}"
        for whole in (*in_blocks, *inline_commands(page))
        for line in ([whole] if "'" in whole else simple_commands(whole))
        if (word := unknown_word(line))
    ]
    assert unknown == []


def anchors(path):
    """Return the anchors that GitHub gives a page's headings."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    bare = (re.sub(r"[^\w\s-]", "", heading.lower()) for heading in headings)
    return {heading.strip().replace(" ", "-") for heading in bare}


def broken_links(page, root=ROOT):
    """Yield the links to files and headings that do not exist; web addresses are not tried."""
    here = root / page.name
    for link in re.findall(r"\]\(([^)\s]+)\)", page.prose):
        if not re.match(r"[a-z]+:", link):
            path, _, anchor = link.partition("#")
            target = (here.parent / path).resolve() if path else here
            if not target.exists() or (anchor and anchor not in anchors(target)):
                yield link


@every_page
def test_every_link_leads_somewhere(page):
    assert list(broken_links(page)) == []


@every_page
def test_every_path_in_the_repository_exists(page):
    """But placeholders like NAME, and the file that add-a-method.md lets its reader write."""
    named = re.findall(r"`((?:pipeline|tests|benchmarks|docs|suites|pretraining|cluster)/[\w/.-]+)`", page.prose)
    missing = {path for path in named if "NAME" not in path and not (ROOT / path).exists()}
    assert missing <= {"pipeline/comparison/methods/nearest_neighbour.py"}


def test_most_commands_are_run():
    assert {block.page for block in COMMANDS} >= {"README.md", "docs/how-to/prediction.md"}
    by_no_test = [b for b in COMMANDS if b.marker == "not run" and "tests/" not in b.argument]
    assert sum(block.is_run_here for block in COMMANDS) > len(by_no_test)


def test_what_these_rules_are_for_is_noticed(tmp_path):
    text = """# One Two
[a](#one-two) [b](page.md#one) [c](none.md) [d](https://x.invalid)

    dvc repro && git push

<!-- not run: no -->

```bash
ls
```
"""
    (tmp_path / "page.md").write_text(text)
    page = read_page(tmp_path / "page.md", tmp_path)
    assert list(broken_links(page, tmp_path)) == ["page.md#one", "none.md"]
    assert list(hidden_commands(page)) == ["    dvc repro && git push"]
    assert wrong_marker(page.blocks[0])
    wrong = ("referee preditc x.jpg", "referee predict --tpo 3", "dvc reproduce", "dvc push 'x")
    assert all(unknown_word(line) for line in (*wrong, "make tets", "pytest tests/no.py"))
