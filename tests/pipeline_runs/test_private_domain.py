"""Pushes reveal no image, path or label of a private target, and a teammate can still adapt to it."""

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
from small_project import all_stages, small_params, stages_run

pytestmark = pytest.mark.slow

READING_LABELS = COMPUTED_ANEW - {"source@left", "adapt@left-right"}
# the commands of docs/privacy.md
OWNER_PUSHES, MATE_ADAPTS, MATE_PUSHES, OWNER_EVALUATES, WITHOUT_SOURCE = commands_of("docs/privacy.md")


@pytest.fixture(scope="module")
def owner(run_project):
    """Make the target of the project private, run all stages again and commit them."""
    run_project.change_params(data={"private": ["right"]})
    run_project.run_in_process(*all_stages(small_params()))
    run_project.commit_stages()
    run_project.run("git", "commit", "--quiet", "-am", "right is private")
    return run_project


def read_truth(project, domain):
    """Read a domain's images and labels as their owner does."""
    folder = project.folder / "cache/manifests" / domain
    images = read_images(folder)
    return images, read_labels(folder)[0].tolist()


def push(project, remote, command="dvc push"):
    """Push to a folder; return the contents of its files."""
    project.run("dvc", "remote", "add", "--default", "away", str(remote))
    project.run("bash", "-c", command)
    project.run("dvc", "remote", "remove", "away")
    assert find_pngs(remote) == []
    return files_in(remote)


def columns(content):
    """Return the columns of a CSV file, or none if the content is something else."""
    try:
        rows = list(csv.reader(content.decode().splitlines()))
    except (UnicodeDecodeError, csv.Error):
        return []
    return list(zip(*rows[1:], strict=False))


def reveals(column, labels):
    """Return whether a column identifies the label of each row, under any names."""
    same_size = len(column) == len(labels) and len(set(column)) == len(set(labels))
    return same_size and len(set(zip(column, labels, strict=True))) <= 4


def encodings(labels):
    """Return labels as bytes of arrays of all types and of JSON lists."""
    arrays = [np.array(labels, kind).tobytes() for kind in ("u1", "i2", "i4", "i8", "f4", "f8")]
    return [*arrays, json.dumps(labels).encode(), json.dumps(labels, separators=(",", ":")).encode()]


def find_leaks(content, images, labels, parts=()):
    """Return the paths, digests and labels of images that a file contains; ``parts`` are further lists of labels."""
    named = [image for image in images if image.path.encode() in content or image.sha256.encode() in content]
    label_columns = [column for column in columns(content) if any(reveals(column, part) for part in (labels, *parts))]
    encoded = [code for part in (labels, *parts) for code in encodings(part) if code in content]
    return named + label_columns + encoded


def split_labels(project, domain, labels):
    """Return the labels of each seed's train and test rows."""
    tasks = read_tasks(project.folder / f"cache/manifests/{domain}")
    sides = [side for seed in tasks.seeds for side in (tasks.test_mask(seed), ~tasks.test_mask(seed))]
    return [[labels[row] for row in side.nonzero()[0]] for side in sides]


def test_find_leaks_finds_leaks(owner):
    images, labels = read_truth(owner, "right")
    for name in ("images.csv", "labels.csv"):
        assert find_leaks((owner.folder / "private/right" / name).read_bytes(), images, labels)
    only_labels = "\n".join(["label", *map(str, labels)])
    assert find_leaks(only_labels.encode(), images, labels)
    parts = split_labels(owner, "right", labels)
    for part in (labels, *parts):
        assert find_leaks(b"before" + np.array(part, "i8").tobytes() + b"crc.", images, labels, parts)
        assert find_leaks(json.dumps({"label": part}, indent=None).encode(), images, labels, parts)
    public = read_truth(owner, "left")
    assert find_leaks((owner.folder / "cache/manifests/left/labels/labels.csv").read_bytes(), *public)


def test_push_sends_no_image_path_or_label(owner, tmp_path):
    images, labels = read_truth(owner, "right")
    pushed = push(owner, tmp_path / "remote", "dvc push --run-cache")
    assert len(pushed) > 100
    parts = split_labels(owner, "right", labels)
    leaks = {file: find_leaks(content, images, labels, parts) for file, content in pushed.items()}
    assert leaks == {file: [] for file in pushed}


def test_order_of_rows_does_not_reveal_classes(owner):
    images, labels = read_truth(owner, "right")
    assert [image.sha256 for image in images] == sorted(image.sha256 for image in images)
    assert sum(a != b for a, b in pairwise(labels)) > 2 * len(set(labels))
    confusion = columns((owner.folder / "results/toy/problems/left-right/tables/confusion.csv").read_bytes())
    pairs = list(zip(*confusion[1:3], strict=True))
    assert len(pairs) == len(set(pairs))  # counts, not one row per image


@pytest.mark.long
def test_target_can_be_pushed_without_source_samples(owner, tmp_path):
    pushed = push(owner, tmp_path / "remote", WITHOUT_SOURCE)
    images, labels = read_truth(owner, "left")
    rows = [
        row.tobytes()
        for model in ("vit", "clip")
        for store in [open_embeddings(owner.folder / f"cache/embeddings/left/{model}.zarr")]
        for view in store.views
        for row in store.read(view)
    ]
    all_files = push(owner, tmp_path / "all")
    assert any(row in content for row in rows for content in all_files.values())
    assert not [file for file, content in pushed.items() if find_leaks(content, images, labels)]
    assert not [file for file, content in pushed.items() if any(row in content for row in rows)]


@pytest.mark.long
def test_teammate_adapts_and_owner_evaluates(owner, tmp_path):
    remote = shared_folder(tmp_path / "team")
    owner.run("bash", "-c", remote.recipe()[0])
    owner.run("bash", "-c", OWNER_PUSHES)
    owner.run("git", "commit", "--quiet", "-am", "where our features are")
    mate = join(owner, tmp_path / "mate", remote)
    mate.change_params(rff={"sigma": 1e-2})
    assert stages_run(mate.run("bash", "-c", MATE_ADAPTS).stdout) == COMPUTED_ANEW - READING_LABELS
    done = mate.run(*PULL, "evaluate", ok=False)
    assert done.returncode != 0
    assert "csv: kept private (data.private); its owner runs" in done.stderr
    mate.run("bash", "-c", MATE_PUSHES)
    mate.run("git", "commit", "--quiet", "-am", "sigma 1e-2")

    before = metrics(owner)
    owner.run("git", "pull", "--quiet", "--ff-only", str(mate.folder), "HEAD")
    assert stages_run(owner.run("bash", "-c", OWNER_EVALUATES).stdout) == READING_LABELS
    assert metrics(owner) != before
