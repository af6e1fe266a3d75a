"""Manifest files: tables survive a round trip, pandas can read them, and damaged files are refused."""

import json
import subprocess

import numpy as np
import pandas as pd
import pytest

from pipeline.datasets import checked_csv
from pipeline.datasets.checked_csv import digest_file, digest_line, sha256_of
from pipeline.datasets.manifest_files import read_class_names, read_images, read_labels, rows_digest, write_manifest
from pipeline.datasets.task_files import read_classes, read_tasks
from pipeline.errors import StoreError
from shards import files_in
from small_manifests import build_manifest, images, sha256, write_all

FOLDERS = {"images": ["images"], "labels": ["labels"], "names": ["names"], "tasks": ["classes", "tasks"]}
TABLES = [f"{folder}/{name}.csv" for folder, names in FOLDERS.items() for name in names]
FILES = sorted([*TABLES, *(f"{name}.sha256" for name in TABLES), "report.json"])
READERS = dict(zip(TABLES, (read_images, read_labels, read_class_names, read_classes, read_tasks), strict=True))


def seal(file):
    digest_file(file).write_text(digest_line(file.name, sha256_of(file)))


def test_tables_survive_a_round_trip(tmp_path):
    manifest, classes, expected = write_all(tmp_path / "d")
    assert list(files_in(tmp_path / "d")) == FILES
    assert read_images(tmp_path / "d") == manifest.images
    assert read_classes(tmp_path / "d") == classes
    assert read_class_names(tmp_path / "d") == ["a", "b"]
    labels, digest = read_labels(tmp_path / "d")
    assert [classes[label].class_name for label in labels] == manifest.labels
    assert digest == rows_digest(row.sha256 for row in manifest.images)
    tasks = read_tasks(tmp_path / "d")
    assert tasks.seeds == (0, 7)
    np.testing.assert_array_equal(tasks.task, expected.task)
    np.testing.assert_array_equal(tasks.test, expected.test)
    assert json.loads((tmp_path / "d/report.json").read_text()) == manifest.report


def test_the_content_of_the_files_where_tasks_count_from_one(tmp_path):
    write_all(tmp_path, images(a=["1.png"], b=["2.png"]), arrangement={"seeds": (3,)})
    rows = f"data/d/a/1.png,{sha256('1.png')},4,3\ndata/d/b/2.png,{sha256('2.png')},4,3\n"
    assert {name: (tmp_path / name).read_text() for name in TABLES} == {
        "images/images.csv": f"path,sha256,width,height\n{rows}",
        "tasks/tasks.csv": "row,task,seed_3\n0,1,train\n1,2,train\n",
        "labels/labels.csv": "path,class\ndata/d/a/1.png,a\ndata/d/b/2.png,b\n",
        "names/names.csv": "class,task\na,\nb,\n",
        "tasks/classes.csv": "label,class,task\n0,a,1\n1,b,2\n",
    }


def test_pandas_and_sha256sum_can_read_the_files(tmp_path):
    found = images(**{"a#b": ["1 #2.png"], 'c,"ü': ["2\n.png"]})
    write_all(tmp_path, found)
    table = pd.read_csv(tmp_path / "labels/labels.csv")
    assert table.to_dict("list") == {"path": ["data/d/a#b/1 #2.png", 'data/d/c,"ü/2\n.png'], "class": ["a#b", 'c,"ü']}
    assert [row.path for row in read_images(tmp_path)] == list(table["path"])
    for folder, names in FOLDERS.items():
        sums = [f"{name}.csv.sha256" for name in names]
        subprocess.run(["sha256sum", "--strict", "-c", *sums], cwd=tmp_path / folder, check=True)


def test_files_change_only_with_their_content(tmp_path):
    """`adapt` depends on tasks.csv and its digest, so neither may change with a label."""
    found, renamed = images(a=["1.png", "2.png"], b=["3.png"]), images(a=["1.png", "2.png"], c=["3.png"])
    arrangement = {"seeds": (1, 2, 3), "classes_per_task": 2, "test_fraction": 0.5}
    write_all(tmp_path / "first", found, workers=1)
    write_all(tmp_path / "again", found, workers=8)
    write_all(tmp_path / "other tasks", found, arrangement=arrangement)
    write_all(tmp_path / "other classes", renamed)
    first, again, tasks, classes = (files_in(tmp_path / n) for n in ("first", "again", "other tasks", "other classes"))
    assert again == first
    task_files = {name for name in FILES if name.startswith("tasks/")}
    assert {name for name in FILES if tasks[name] != first[name]} == task_files
    changed = {name for name in FILES if classes[name] != first[name]}
    assert task_files - changed == {"tasks/tasks.csv", "tasks/tasks.csv.sha256"}
    assert b"png" not in first["tasks/tasks.csv"]


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("images/images.csv", "path,sha256", "path,md5"),
        ("images/images.csv", ",4,3", ",4"),
        ("tasks/tasks.csv", "seed_0", "split"),
        ("tasks/tasks.csv", "seed_0", f"seed_{'7' * 5000}"),
        ("tasks/tasks.csv", "\n3,", "\n4,"),
        ("tasks/tasks.csv", "\n3,1", "\n3,0"),
        ("tasks/tasks.csv", "train", "trian"),
        ("labels/labels.csv", "a0.png,a", "a9.png,a"),
        ("labels/labels.csv", "a0.png,a", "a0.png,z"),
        ("labels/labels.csv", "data/d/b/b4.png,b\n", ""),
        ("names/names.csv", "class", "klass"),
        ("tasks/classes.csv", "1,b", "2,b"),
        ("tasks/classes.csv", "1,b,2", "1,b,3"),
        ("tasks/classes.csv", "0,a", '"0,a'),
    ],
)
def test_a_malformed_file_with_a_correct_digest_is_refused(tmp_path, name, old, new):
    write_all(tmp_path / "amazon")
    file = tmp_path / "amazon" / name
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))
    seal(file)
    stage = "tasks" if name.startswith("tasks/") else "manifest"
    with pytest.raises(StoreError, match=rf"{name}: .*dvc repro --force {stage}@amazon") as caught:
        READERS[name](tmp_path / "amazon")
    assert "\n" not in str(caught.value)


def test_an_interrupted_write_leaves_the_old_files(tmp_path, monkeypatch):
    write_all(tmp_path)
    before = files_in(tmp_path)
    monkeypatch.setattr(checked_csv, "digest_line", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_manifest(build_manifest(images(a=["1.png"])), tmp_path)
    with pytest.raises(ZeroDivisionError):
        write_all(tmp_path, arrangement={"seeds": (5,)})
    assert files_in(tmp_path) == before


@pytest.fixture
def private(tmp_path):
    folder = tmp_path / "cache/manifests/wards"
    write_all(folder, images(ill=["7.png"], well=["2.png"]), private=True)
    return folder


def test_a_private_file_that_is_missing_or_changed_is_refused(private):
    file = private.parents[2] / "private/wards/labels.csv"
    file.write_text(file.read_text().replace(",ill", ",well"))
    with pytest.raises(StoreError, match=r"labels\.csv: points to another version .*--force manifest@wards"):
        read_labels(private)
    # a pointer's content is compared, never used as a path
    (private / "labels/labels.csv").write_text("kept_private,sha256\n../../../../secret,00\n")
    seal(private / "labels/labels.csv")
    with pytest.raises(StoreError, match="points to another version"):
        read_labels(private)
    file.unlink()
    with pytest.raises(StoreError, match=r"labels\.csv: kept private .*owner runs `dvc repro`"):
        read_labels(private)


def test_a_pointer_changes_with_its_file_and_a_restored_pointer_finds_the_former_version(private):
    """DVC's run-cache restores old pointers if an image is added, removed and added again."""
    before, rows = files_in(private), read_images(private)
    write_manifest(build_manifest(images(ill=["7.png"], well=["2.png"])), private, private=True)
    assert files_in(private) == before
    write_manifest(build_manifest(images(ill=["8.png"], well=["2.png"])), private, private=True)
    assert files_in(private)["labels/labels.csv"] != before["labels/labels.csv"]
    assert read_images(private) != rows
    for name, content in before.items():
        (private / name).write_bytes(content)
    assert read_images(private) == rows
