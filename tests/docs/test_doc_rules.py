"""No command of the docs without a test: each is run, or says beside itself why not; and each one exists."""

import argparse
import importlib.util
import re
import shlex

import pytest

from documented_commands import Block, looks_like_a_command, read_page, read_pages
from pipeline.cli.main import parser as referee_parser
from small_project import ROOT

PAGES = read_pages()
COMMANDS = [block for page in PAGES for block in page.blocks if block.is_command]
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def dvc_parser():
    from dvc.cli.parser import get_main_parser

    return get_main_parser()


PARSERS = {"referee": referee_parser(), "dvc": dvc_parser()}


def wrong_marker(block: Block) -> str | None:
    """Return what is wrong with a block's marker."""
    if block.marker == "not run":
        if len(block.told.split()) < 2:
            return "`not run:` needs a reason in words"
        gone = [
            file
            for file in re.findall(r"tests/[\w/]+\.py", block.told)
            if not (ROOT / file).is_file()
        ]
        return f"there is no {gone[0]}" if gone else None
    if block.marker == "run by":
        file = ROOT / block.told
        if not (block.told.startswith("tests/") and file.is_file()):
            return f"there is no {block.told}"
        text = file.read_text(encoding="utf-8")
        if block.page not in text:
            return f"{block.told} does not mention {block.page}"
        commands = [line.split() for whole in block.lines for line in simple_commands(whole)]
        absent = [words for words in commands if len(words) > 1 and words[1] not in text]
        reads_the_page = re.search("read_text|read_page|commands_of|sharing_story", text)
        if absent and not reads_the_page:
            return f"{block.told} has no {' '.join(absent[0])}"
    if block.marker == "file" and not block.told:
        return "`file:` needs a path"
    return None


def hidden_commands(page):
    """Yield lines that look like commands and stand in a block that no test looks at."""
    for block in page.blocks:
        if not block.is_command and block.marker != "file":
            for line in block.text.splitlines():
                if looks_like_a_command(line) and not line.startswith(" "):
                    yield f"{block}: {line}"
    for line in page.prose.splitlines():
        if line.startswith(("    ", "\t")) and looks_like_a_command(line):
            yield f"{page.name}: {line.strip()}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_stand_in_bash_blocks_with_honest_markers(page):
    assert [f"{block}: {told}" for block in page.blocks if (told := wrong_marker(block))] == []
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
        wanted = [word for word in words[1:] if "=" not in word]
        return next((word for word in wanted if word not in TARGETS), None)
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
        if word.startswith("-"):
            option = word.split("=")[0]
            known = option in parser._option_string_actions or option.lstrip("-").isdigit()
            attached = option[:2] in parser._option_string_actions and not option.startswith("--")
            if not (known or attached):
                return word
        elif children:
            if word not in children[0].choices:
                return word
            return _unknown_to(children[0].choices[word], words[position + 1 :])
    return None


def simple_commands(line: str) -> list[str]:
    """Split a line at && and ; and |, and leave redirections out."""
    return [
        part.strip()
        for part in re.split(r"&&|\|\||;|\|(?!\w)", re.sub(r"\s\d?>+ *\S+", "", line))
        if part.strip()
    ]


def inline_commands(page):
    """Yield the commands that stand in the text between backticks."""
    for span in re.findall(r"(?<!`)`([^`\n]+)`(?!`)", page.prose):
        if span.split()[0] in ("referee", "dvc", "make", "python", "pytest") and " " in span:
            yield span.replace("…", " ").replace("...", " ")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_exists(page):
    spoken = [line for block in page.blocks if block.is_command for line in block.lines]
    unknown = [
        f"{line}: {told}"
        for whole in (*spoken, *inline_commands(page))
        for line in ([whole] if "'" in whole else simple_commands(whole))
        if (told := unknown_word(line))
    ]
    assert unknown == []


def anchors(path):
    """Return the anchors that GitHub gives a page's headings."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    bare = (re.sub(r"[^\w\s-]", "", heading.lower()) for heading in headings)
    return {heading.strip().replace(" ", "-") for heading in bare}


def broken_links(page, root=ROOT):
    """Yield the links to files and headings that are not there; web addresses are not asked."""
    here = root / page.name
    for link in re.findall(r"\]\(([^)\s]+)\)", page.prose):
        if not re.match(r"[a-z]+:", link):
            path, _, anchor = link.partition("#")
            target = (here.parent / path).resolve() if path else here
            if not target.exists() or (anchor and anchor not in anchors(target)):
                yield link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page):
    assert list(broken_links(page)) == []


def test_a_broken_link_is_noticed(tmp_path):
    page = page_of(
        tmp_path, "# One Two\n[a](#one-two) [b](page.md#one) [c](none.md) [d](https://x.invalid)\n"
    )
    assert list(broken_links(page, tmp_path)) == ["page.md#one", "none.md"]


def test_there_are_commands_at_all():
    assert {block.page for block in COMMANDS} >= {"README.md", "docs/how-to/prediction.md"}
    by_no_test = [b for b in COMMANDS if b.marker == "not run" and "tests/" not in b.told]
    assert sum(block.is_run_here for block in COMMANDS) > len(by_no_test)


def page_of(tmp_path, text):
    (tmp_path / "page.md").write_text(text)
    return read_page(tmp_path / "page.md", tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "```\ndvc repro --force\n```\n",
        "```text\nreferee check --quiet\n```\n",
        "Like this:\n\n    dvc repro && git push\n",
    ],
)
def test_a_command_in_another_block_is_found(tmp_path, text):
    assert list(hidden_commands(page_of(tmp_path, text)))


@pytest.mark.parametrize(
    ("marker", "wrong"),
    [
        ("not run: needs a bucket", False),
        ("not run: no", True),
        ("not run: needs a server; tests/none.py runs it", True),
        ("not run: needs a server; tests/small_project.py runs it", False),
        ("run by: tests/none.py", True),
        ("run by: tests/docs/test_doc_rules.py", False),  # which mentions page.md
        ("run by: tests/small_project.py", True),
        ("run by: tests/pipeline_runs/test_sharing.py", True),
        ("long", False),
    ],
)
def test_a_marker_must_hold(tmp_path, marker, wrong):
    page = page_of(tmp_path, f"<!-- {marker} -->\n\n```bash\nls\n```\n")
    (block,) = page.blocks
    assert block.marker == marker.split(":")[0]
    assert (wrong_marker(block) is not None) == wrong


def test_an_unmarked_command_is_run(tmp_path):
    page = page_of(tmp_path, "<!-- not run: for another block -->\ntext\n```bash\nls  # all\n```\n")
    assert page.blocks[0].is_run_here
    assert page.blocks[0].lines == ["ls"]


@pytest.mark.parametrize(
    "line",
    [
        *(
            "referee preditc x.jpg",
            "referee predict --tpo 3",
            "dvc reproduce",
            "dvc exp run --name2 x",
        ),
        *("make tets", "python -m benchmarks.none", "pytest tests/none.py", "dvc push 'x"),
    ],
)
def test_a_command_that_does_not_exist_is_noticed(line):
    assert unknown_word(line)


@pytest.mark.parametrize(
    "line", ["referee predict --top 3 x.jpg", "dvc exp run -S rff.D=5 --queue", "make use SUITE=x"]
)
def test_a_command_that_exists_passes(line):
    assert unknown_word(line) is None
