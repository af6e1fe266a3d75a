"""A private target: no push sends an image, a path or a label of it; a mate adapts to it all the same."""

import csv
import json
from itertools import pairwise

import numpy as np
import pytest

from documented_commands import commands_of
from pipeline.datasets.manifest_files import read_images, read_labels
from pipeline.datasets.task_files import read_tasks
from pipeline.store.embedding_store import open_embeddings
from shards import files_in
from sharing_story import COMPUTED_ANEW, PULL, find_pngs, join, metrics, shared_folder
from small_project import small_params, stages_of, stages_run

pytestmark = pytest.mark.slow

READING_LABELS = COMPUTED_ANEW - {"source@left", "adapt@left-right"}
# The commands of docs/privacy.md, run as they stand there.
OWNER_PUSHES, MATE_ADAPTS, MATE_PUSHES, OWNER_EVALUATES, WITHOUT_SOURCE = commands_of("docs/privacy.md")


@pytest.fixture(scope="module")
def owner(run_project):
    """The project with its target made private, run again and committed."""
    run_project.change_params(data={"private": ["right"]})
    run_project.run_here(*stages_of(small_params()))
    run_project.commit_stages()
    run_project.run("git", "commit", "--quiet", "-am", "right is private")
    return run_project


def read_truth(project, domain):
    """Return a domain's images and labels, as their owner reads them."""
    folder = project.folder / "cache/manifests" / domain
    images = read_images(folder)
    return images, read_labels(folder)[0].tolist()


def push(project, remote, command="dvc push"):
    """Push to a folder and return its files' content."""
    project.run("dvc", "remote", "add", "--default", "away", str(remote))
    project.run("bash", "-c", command)
    project.run("dvc", "remote", "remove", "away")
    assert find_pngs(remote) == []
    return files_in(remote)


def columns(content):
    """Return every column of what may be a CSV file."""
    try:
        rows = list(csv.reader(content.decode().splitlines()))
    except (UnicodeDecodeError, csv.Error):
        return []
    return list(zip(*rows[1:], strict=False))


def tells(column, labels):
    """Say whether a column gives each row its label, under whatever names."""
    few = len(set(column)) == len(set(labels))
    return few and len(column) == len(labels) and len(set(zip(column, labels, strict=True))) <= 4


def as_numbers(labels):
    """Return labels as the bytes of an array of any type, and as a list in JSON."""
    arrays = [np.array(labels, kind).tobytes() for kind in ("u1", "i2", "i4", "i8", "f4", "f8")]
    return [*arrays, json.dumps(labels).encode(), json.dumps(labels, separators=(",", ":")).encode()]


def leaks(content, images, labels, parts=()):
    """Return what of those images a file tells: their paths, their digests, their labels, or those of ``parts``."""
    named = [i for i in images if i.path.encode() in content or i.sha256.encode() in content]
    columned = [c for c in columns(content) if any(tells(c, some) for some in (labels, *parts))]
    return named + columned + [n for some in (labels, *parts) for n in as_numbers(some) if n in content]


def of_each_side(project, domain, labels):
    """Return the labels of each seed's train and test rows."""
    tasks = read_tasks(project.folder / f"cache/manifests/{domain}")
    sides = [side for seed in tasks.seeds for side in (tasks.is_test(seed), ~tasks.is_test(seed))]
    return [[labels[row] for row in side.nonzero()[0]] for side in sides]


def test_the_check_would_find_a_leak(owner):
    images, labels = read_truth(owner, "right")
    for name in ("images.csv", "labels.csv"):
        assert leaks((owner.folder / "private/right" / name).read_bytes(), images, labels)
    only_labels = "\n".join(["label", *map(str, labels)])
    assert leaks(only_labels.encode(), images, labels)
    parts = of_each_side(owner, "right", labels)
    for some in (labels, *parts):
        assert leaks(b"before" + np.array(some, "i8").tobytes() + b"crc.", images, labels, parts)
        assert leaks(json.dumps({"label": some}, indent=None).encode(), images, labels, parts)
    public = read_truth(owner, "left")
    assert leaks((owner.folder / "cache/manifests/left/labels/labels.csv").read_bytes(), *public)


def test_no_push_sends_an_image_a_path_or_a_label(owner, tmp_path):
    images, labels = read_truth(owner, "right")
    pushed = push(owner, tmp_path / "remote", "dvc push --run-cache")
    assert len(pushed) > 100
    parts = of_each_side(owner, "right", labels)
    found = {file: leaks(content, images, labels, parts) for file, content in pushed.items()}
    assert found == {file: [] for file in pushed}


def test_the_order_of_rows_says_nothing_of_classes(owner):
    images, labels = read_truth(owner, "right")
    assert [image.sha256 for image in images] == sorted(image.sha256 for image in images)
    assert sum(a != b for a, b in pairwise(labels)) > 2 * len(set(labels))
    confusion = columns((owner.folder / "results/toy/problems/left-right/tables/confusion.csv").read_bytes())
    pairs = list(zip(*confusion[1:3], strict=True))
    assert len(pairs) == len(set(pairs))  # counts, no row of a single image


@pytest.mark.long
def test_the_target_side_can_be_pushed_without_a_source_sample(owner, tmp_path):
    pushed = push(owner, tmp_path / "remote", WITHOUT_SOURCE)
    images, labels = read_truth(owner, "left")
    rows = [
        row.tobytes()
        for model in ("vit", "clip")
        for store in [open_embeddings(owner.folder / f"cache/embeddings/left/{model}.zarr")]
        for view in store.views
        for row in store.read(view)
    ]
    everything = push(owner, tmp_path / "all")
    assert any(row in content for row in rows for content in everything.values())
    assert not [file for file, content in pushed.items() if leaks(content, images, labels)]
    assert not [file for file, content in pushed.items() if any(row in content for row in rows)]


@pytest.mark.long
def test_a_mate_adapts_and_the_owner_evaluates(owner, tmp_path):
    remote = shared_folder(tmp_path / "team")
    owner.run("bash", "-c", remote.recipe()[0])
    owner.run("bash", "-c", OWNER_PUSHES)
    owner.run("git", "commit", "--quiet", "-am", "where our features are")
    mate = join(owner, tmp_path / "mate", remote)
    mate.change_params(rff={"sigma": 1e-2})
    assert stages_run(mate.run("bash", "-c", MATE_ADAPTS).stdout) == COMPUTED_ANEW - READING_LABELS
    refused = mate.run(*PULL, "evaluate", ok=False)
    assert refused.returncode != 0
    assert "csv: kept private (data.private); its owner runs" in refused.stderr
    mate.run("bash", "-c", MATE_PUSHES)
    mate.run("git", "commit", "--quiet", "-am", "sigma 1e-2")

    before = metrics(owner)
    owner.run("git", "pull", "--quiet", "--ff-only", str(mate.folder), "HEAD")
    assert stages_run(owner.run("bash", "-c", OWNER_EVALUATES).stdout) == READING_LABELS
    assert metrics(owner) != before
