"""Every command of README.md and docs/**/*.md, run for real, page by page, as a reader would who has the small project.

documented_commands.py says which blocks are commands and how a page excuses one.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

import digits_project
from documented_commands import read_pages
from small_project import ROOT, VIT_KWARGS, SmallProject, write_tiny_weights

pytestmark = pytest.mark.slow

PAGES = [page for page in read_pages() if any(block.is_run_here for block in page.blocks)]
LONG = [page for page in PAGES if any(block.marker == "long" for block in page.blocks)]


@pytest.fixture(scope="session")
def digits(tmp_path_factory):
    return digits_project.shared(tmp_path_factory.getbasetemp())


@pytest.fixture
def project(digits, tmp_path):
    """Return a copy of the small project with what the pages' readers have: photos, images, weights of their own."""
    folder = tmp_path / "project"
    shutil.copytree(digits, folder, symlinks=True)
    photos = sorted((digits / "data/digits/uci").rglob("*.png"))[::40]
    (folder / "photos").mkdir()
    for photo in photos:
        shutil.copy(photo, folder / "photos")
    shutil.copy(photos[0], folder / "photo.png")
    for mine, domain in (("photos", "mnist"), ("drawings", "uci")):
        for number, name in enumerate(("apple", "bread", "cheese", "dates")):
            images = sorted((digits / f"data/digits/{domain}/{number}").iterdir())
            (folder / "data/mine" / mine / name).mkdir(parents=True)
            for image in images:
                shutil.copy(image, folder / "data/mine" / mine / name)
    (folder / "weights").unlink()
    write_tiny_weights(folder / "weights/mine")
    (folder / "weights/digits").symlink_to(ROOT / "weights/digits")
    (folder / ".venv").symlink_to(sys.prefix)
    copy = SmallProject(folder)
    copy.run("git", "config", "user.email", "reader@example.invalid")
    copy.run("git", "config", "user.name", "Reader")
    with (folder / ".git/info/exclude").open("a") as file:
        file.write("/photos\n/photo.png\n")
    copy.run(
        "git",
        "add",
        "dvc.yaml",
        "params.yaml",
        "pipeline",
        "suites",
        ".dvc",
        ".dvcignore",
        ".gitignore",
    )
    copy.run("git", "commit", "--quiet", "-m", "as cloned")
    return copy


def write_file(project, path, text):
    assert not Path(path).is_absolute()
    (project.folder / path).parent.mkdir(parents=True, exist_ok=True)
    (project.folder / path).write_text(text)


def put_into_params(project, text):
    """Put the keys of a YAML text in the place of those of params.yaml, models one by one."""
    params = project.read_params()
    for section, value in YAML(typ="safe", pure=True).load(text).items():
        if isinstance(value, dict):
            params[section] = {**params[section], **value}
        else:
            params[section] = value
    project.write_params(params)


def run_block(project, block):
    """Do what a block tells its reader to do."""
    if block.marker == "file":
        write_file(project, block.told, block.text)
    elif block.marker == "into params.yaml":
        put_into_params(project, block.text)
    else:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block.text],
            cwd=project.folder,
            env=project.environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=900,
        )
        assert done.returncode == 0, f"{block}\n{block.text}\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_commands_of_a_page(project, page):
    for block in page.blocks:
        if block.is_run_here and block.marker != "long":
            run_block(project, block)


@pytest.mark.long
@pytest.mark.parametrize("page", LONG, ids=lambda page: page.name)
def test_the_long_commands_of_a_page_too(project, page):
    for block in page.blocks:
        if block.is_run_here:
            run_block(project, block)


def test_a_command_that_fails_is_noticed(tmp_path):
    readme = next(page for page in PAGES if page.name == "README.md")
    block = next(block for block in readme.blocks if block.is_run_here)
    failing = type(block)(block.page, block.line, "bash", "false\ntrue\n")
    with pytest.raises(AssertionError, match=r"README\.md"):
        run_block(SmallProject(tmp_path), failing)


def test_the_readers_own_model_is_the_page_s():
    """docs/how-to/own-backbone.md spells out the tiny model whose weights this test writes."""
    page = next(page for page in PAGES if page.name == "docs/how-to/own-backbone.md")
    (block,) = [block for block in page.blocks if block.marker == "into params.yaml"]
    assert YAML(typ="safe", pure=True).load(block.text)["models"]["vit"]["kwargs"] == VIT_KWARGS
