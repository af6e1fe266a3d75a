"""Every command of README.md and docs/**/*.md, run for real, page by page, as a reader would.

documented_commands.py says which blocks are commands and how a page excuses one.
"""

import shutil
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from documented_commands import PARAMS, read_pages
from small_project import ROOT, SmallProject, write_tiny_weights

pytestmark = pytest.mark.slow


@pytest.fixture
def project(digits, tmp_path):
    """Return a copy of the small project with what a reader has: photos, images and weights of their own."""
    folder = tmp_path / "project"
    shutil.copytree(digits, folder, symlinks=True)
    photos = sorted((digits / "data/digits/uci").rglob("*.png"))[::40]
    (folder / "photos").mkdir()
    for photo in photos:
        shutil.copy(photo, folder / "photos")
    shutil.copy(photos[0], folder / "photo.png")
    for own, domain in (("photos", "mnist"), ("drawings", "uci")):
        for number, name in enumerate(("apple", "bread", "cheese", "dates")):
            images = digits / f"data/digits/{domain}/{number}"
            shutil.copytree(images, folder / "data/mine" / own / name)
    (folder / "weights").unlink()
    write_tiny_weights(folder / "weights/mine")
    (folder / "weights/digits").symlink_to(ROOT / "weights/digits")
    (folder / ".venv").symlink_to(sys.prefix)
    copy = SmallProject(folder)
    with (folder / ".git/info/exclude").open("a") as file:
        file.write("/photos\n/photo.png\n")
    tracked = ("params.yaml", "suite.yaml", "pipeline", "suites", ".dvcignore", ".gitignore")
    copy.run("git", "add", "dvc.yaml", ".dvc", *tracked)
    copy.run("git", "commit", "--quiet", "-m", "as cloned")
    return copy


def run_block(project, block):
    """Do what a block asks its reader to do."""
    if block.marker == "file":
        assert not Path(block.argument).is_absolute()
        file = project.folder / block.argument
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(block.text)
    elif block.marker == PARAMS:
        project.change_params(**YAML(typ="safe", pure=True).load(block.text))
    else:
        done = project.run("bash", "-euo", "pipefail", "-c", block.text, ok=False)
        assert done.returncode == 0, f"{block}\n{block.text}\n{done.stdout}\n{done.stderr}"


PAGES = [page for page in read_pages() if any(block.is_run_here for block in page.blocks)]
CASES = [pytest.param(page, False, id=page.name) for page in PAGES] + [
    pytest.param(page, True, id=f"{page.name}, all", marks=pytest.mark.long)
    for page in PAGES
    if any(block.marker == "long" for block in page.blocks)
]


@pytest.mark.parametrize(("page", "long_ones_too"), CASES)
def test_the_commands_of_a_page(project, page, long_ones_too):
    for block in page.blocks:
        if block.is_run_here and (long_ones_too or block.marker != "long"):
            run_block(project, block)
