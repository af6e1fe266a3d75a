import hashlib
import json
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from pipeline.datasets import manifest_files
from pipeline.datasets.layouts import LabelledImage
from pipeline.datasets.manifest import build
from pipeline.errors import InputError, StoreError

FILES = ["classes.csv", "images.csv", "labels.csv", "report.json", "tasks.csv"]


class Facts(NamedTuple):
    sha256: str
    width: int
    height: int


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()


def facts(path):
    if "bad" in path.name:
        raise InputError(f"{path}: truncated")
    return Facts(digest(path.name), 4, 3)


def images(**classes):
    return [
        LabelledImage(Path(f"data/d/{name}/{file}"), name)
        for name, files in sorted(classes.items())
        for file in sorted(files)
    ]


def made(found, **changes):
    settings = {
        "domain": "d",
        "place": "data/d",
        "class_names": (),
        "classes_per_task": 1,
        "seeds": (0, 7),
        "test_fraction": 0.1,
        "read_facts": facts,
        "workers": 2,
    }
    return build(found, **(settings | changes))


TWO = images(a=[f"a{i}.png" for i in range(10)], b=[f"b{i}.png" for i in range(5)])


def written(folder, found=TWO, **changes):
    manifest = made(found, **changes)
    manifest_files.write(manifest, folder)
    return manifest


def test_the_files_are_aligned_and_read_back(tmp_path):
    manifest = written(tmp_path / "d")
    assert sorted(f.name for f in (tmp_path / "d").iterdir()) == FILES
    rows = manifest_files.read_images(tmp_path / "d/images.csv")
    assert tuple(rows) == manifest.images
    assert [row.path for row in rows] == [image.path.as_posix() for image in TWO]
    assert rows[0] == ("data/d/a/a0.png", digest("a0.png"), 4, 3)
    labels = manifest_files.read_labels(tmp_path / "d/labels.csv", images=rows)
    assert [label.label for label in labels] == [0] * 10 + [1] * 5
    tasks = manifest_files.read_tasks(tmp_path / "d/tasks.csv", rows=15)
    assert tasks.seeds == (0, 7)
    np.testing.assert_array_equal(tasks.task, [0] * 10 + [1] * 5)
    np.testing.assert_array_equal(tasks.test, manifest.tasks.test)
    np.testing.assert_array_equal(tasks.is_test(7), manifest.tasks.test[:, 1])
    classes = manifest_files.read_classes(tmp_path / "d/classes.csv")
    assert classes == [(0, "a", 0), (1, "b", 1)]


def test_the_text_of_the_files(tmp_path):
    written(tmp_path, images(a=["1.png"]), seeds=(3,))
    for name in FILES:
        if name.endswith(".csv"):
            header, row = (tmp_path / name).read_text().splitlines()
            assert header.endswith(",crc32c")
            assert re.fullmatch("[0-9a-f]{8}", row.rpartition(",")[2])
            without_checksums(tmp_path / name)
    assert (tmp_path / "images.csv").read_bytes() == (
        f"path,sha256,width,height\ndata/d/a/1.png,{digest('1.png')},4,3\n".encode()
    )
    assert (tmp_path / "tasks.csv").read_bytes() == b"row,task,seed_3\n0,0,train\n"
    assert (tmp_path / "labels.csv").read_bytes() == b"path,class,label\ndata/d/a/1.png,a,0\n"
    assert (tmp_path / "classes.csv").read_bytes() == b"label,class,task\n0,a,0\n"


def test_a_file_without_checksums_is_read_as_it_is(tmp_path):
    manifest = written(tmp_path)
    for name in ("images.csv", "labels.csv", "tasks.csv", "classes.csv"):
        without_checksums(tmp_path / name)
    assert tuple(manifest_files.read_images(tmp_path / "images.csv")) == manifest.images
    assert tuple(manifest_files.read_labels(tmp_path / "labels.csv")) == manifest.labels
    assert tuple(manifest_files.read_classes(tmp_path / "classes.csv")) == manifest.classes
    read = manifest_files.read_tasks(tmp_path / "tasks.csv")
    np.testing.assert_array_equal(read.test, manifest.tasks.test)


@pytest.mark.parametrize("change", ["lost", "doubled", "moved", "cut"])
def test_a_lost_doubled_or_moved_line_is_noticed(tmp_path, change):
    written(tmp_path)
    file = tmp_path / "labels.csv"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text(
        "".join(
            {
                "lost": [*lines[:3], *lines[4:]],
                "doubled": [*lines[:3], lines[2], *lines[3:]],
                "moved": [lines[0], *reversed(lines[1:])],
                "cut": lines[:-1],
            }[change]
        )
    )
    with pytest.raises(StoreError, match=r"is damaged \(the checksum is wrong\)"):
        manifest_files.read_labels(file)


def test_names_with_commas_quotes_newlines_and_umlauts_survive(tmp_path):
    found = images(**{'cl,a"ss': ["a, b.png", "ü\n.png"]})
    written(tmp_path, found)
    rows = manifest_files.read_images(tmp_path / "images.csv")
    labels = manifest_files.read_labels(tmp_path / "labels.csv", images=rows)
    assert [row.path for row in rows] == [image.path.as_posix() for image in found]
    assert labels[0].class_name == 'cl,a"ss'


def test_tasks_hold_no_way_to_a_label(tmp_path):
    written(tmp_path, classes_per_task=2)
    text = (tmp_path / "tasks.csv").read_text()
    assert "png" not in text
    assert text.splitlines()[0] == "row,task,seed_0,seed_7,crc32c"


def test_same_input_same_bytes_whatever_the_workers(tmp_path):
    for name, workers in (("x", 1), ("y", 8)):
        written(tmp_path / name, workers=workers)
    for name in FILES:
        assert (tmp_path / "x" / name).read_bytes() == (tmp_path / "y" / name).read_bytes()


def test_seeds_and_tasks_leave_the_images_alone(tmp_path):
    written(tmp_path / "x")
    written(tmp_path / "y", seeds=(1, 2, 3), classes_per_task=2, test_fraction=0.5)
    assert (tmp_path / "x/images.csv").read_bytes() == (tmp_path / "y/images.csv").read_bytes()
    assert (tmp_path / "x/tasks.csv").read_bytes() != (tmp_path / "y/tasks.csv").read_bytes()


def test_a_seeds_split_does_not_depend_on_the_other_seeds():
    both, one = made(TWO, seeds=(0, 7)), made(TWO, seeds=(7,))
    np.testing.assert_array_equal(both.tasks.test[:, 1], one.tasks.test[:, 0])


def test_the_report(tmp_path):
    written(tmp_path)
    report = json.loads((tmp_path / "report.json").read_text())
    assert report == {
        "domain": "d",
        "made_from": "images",
        "images": 15,
        "classes": ["a", "b"],
        "tasks": [["a"], ["b"]],
        "images_per_class": {"a": 10, "b": 5},
        "empty_classes": [],
        "classes_without_test_images": [],
        "duplicates": [],
        "unreadable": {},
    }


def test_duplicates_are_reported_and_those_across_classes_flagged():
    report = made(images(a=["same.png", "x.png", "x2.png"], b=["same.png", "y.png"])).report
    assert report["duplicates"] == [
        {
            "sha256": digest("same.png"),
            "across_classes": True,
            "paths": ["data/d/a/same.png", "data/d/b/same.png"],
        }
    ]
    copies = [LabelledImage(Path(f"data/d/a/{i}/1.png"), "a") for i in range(3)]
    report = made(copies).report
    assert [group["across_classes"] for group in report["duplicates"]] == [False]
    assert report["classes_without_test_images"] == ["a"]


def test_all_unreadable_files_are_listed(tmp_path):
    found = images(a=["1.png", "bad1.png"], b=["bad2.png", "2.png"])
    with pytest.raises(InputError) as caught:
        written(tmp_path / "d", found)
    first, *others = str(caught.value).splitlines()
    assert first.startswith("data/d: 2 files cannot be read as images; ")
    assert "data.unreadable: skip" in first
    assert others == ["  data/d/a/bad1.png: truncated", "  data/d/b/bad2.png: truncated"]
    assert not (tmp_path / "d").exists()


def test_unreadable_files_are_skipped_and_recorded():
    found = images(a=["1.png", "bad1.png"], b=["2.png"])
    manifest = made(found, unreadable="skip")
    assert [row.path for row in manifest.images] == ["data/d/a/1.png", "data/d/b/2.png"]
    assert manifest.report["unreadable"] == {"data/d/a/bad1.png": "truncated"}


def test_files_that_the_system_refuses_are_unreadable_too():
    def refuse(path):
        raise PermissionError(13, "Permission denied", str(path))

    with pytest.raises(InputError, match=r"1 file cannot .*\n.*Permission denied"):
        made(images(a=["1.png"]), read_facts=refuse)


@pytest.mark.parametrize("found", [images(a=["1.png"]), images(a=["1.png"], b=["bad.png"])])
def test_a_class_without_images(found):
    with pytest.raises(
        InputError, match=r"data/d: 1 class has no images: b; add images.*class_names.*report"
    ):
        made(found, class_names=["a", "b"], unreadable="skip")
    manifest = made(found, class_names=["a", "b"], unreadable="skip", empty_class="report")
    assert manifest.report["empty_classes"] == ["b"]
    assert [row.class_name for row in manifest.classes] == ["a", "b"]


def test_no_images_at_all():
    with pytest.raises(InputError, match="data/d: no images in class folders"):
        made([], empty_class="report")
    with pytest.raises(InputError, match="data/d: no images in class folders"):
        made([], class_names=["a"], empty_class="report")


def test_from_paths_alone():
    manifest = made(TWO, read_facts=None)
    assert manifest.images[0] == ("data/d/a/a0.png", digest("data/d/a/a0.png"), 0, 0)
    assert manifest.report["made_from"] == "paths"
    assert manifest.tasks.test.sum(axis=0).tolist() == [2, 2]


def test_an_interrupted_write_leaves_what_was_there(tmp_path, monkeypatch):
    written(tmp_path)
    before = {name: (tmp_path / name).read_bytes() for name in FILES}

    def fail(*args, **kwargs):
        raise RuntimeError("disk full")

    monkeypatch.setattr(manifest_files.json, "dumps", fail)
    with pytest.raises(RuntimeError):
        written(tmp_path, seeds=(5,))
    assert {f.name: f.read_bytes() for f in tmp_path.iterdir()} == before


def without_checksums(file):
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(f"{line.rpartition(',')[0]}\n" for line in lines))


def spoilt(tmp_path, name, old, new, *, sealed=False):
    written(tmp_path / "amazon")
    file = tmp_path / "amazon" / name
    if not sealed:
        without_checksums(file)
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))
    return file


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("images.csv", "path,sha256", "path,md5", "has the columns path,md5,width,height, not"),
        ("images.csv", ",4,3", ",4", "row 0 has 3 fields, not 4"),
        ("images.csv", ",4,3", ",four,3", "row 0 is malformed"),
        ("images.csv", digest("a0.png"), "abc", r"row 0 is malformed \('abc' is not a sha256\)"),
        ("tasks.csv", "seed_0", "split", "has the columns row,task,split,seed_7, not"),
        ("tasks.csv", "seed_0", "seed_²", "has the columns row,task,seed_²,seed_7, not"),
        ("tasks.csv", "seed_0", f"seed_{'7' * 5000}", "has the columns row,task,seed_7"),
        ("tasks.csv", "row,task", "row,label", "has the columns row,label"),
        ("tasks.csv", "\n3,", "\n4,", "rows are not numbered"),
        ("tasks.csv", "train", "trian", r"row \d+ is malformed \('trian'\)"),
        ("labels.csv", ",class,", ",klass,", "has the columns path,klass,label, not"),
        ("labels.csv", "a0.png,a,0", "a0.png,a,x", "row 0 is malformed"),
        ("classes.csv", "1,b", "2,b", "labels are not 0, 1, 2"),
    ],
)
def test_a_spoilt_file_is_named_with_its_remedy(tmp_path, name, old, new, message):
    file = spoilt(tmp_path, name, old, new)
    read = getattr(manifest_files, f"read_{name.removesuffix('.csv')}")
    with pytest.raises(
        StoreError, match=rf"{name}: .*{message}.*dvc repro --force manifest@amazon"
    ):
        read(file)
    file = spoilt(tmp_path / "sealed", name, old, new, sealed=True)
    with pytest.raises(StoreError, match=rf"{name}: .*dvc repro --force manifest@amazon"):
        read(file)


def test_an_absent_empty_or_broken_file(tmp_path):
    with pytest.raises(StoreError, match=r"images.csv: no such file; .*manifest@d"):
        manifest_files.read_images(tmp_path / "d/images.csv")
    (tmp_path / "images.csv").write_text("path,sha256,width,height\n")
    with pytest.raises(StoreError, match=r"images.csv: has no rows"):
        manifest_files.read_images(tmp_path / "images.csv")
    (tmp_path / "images.csv").write_bytes(b"\xff\xff")
    with pytest.raises(StoreError, match=r"images.csv: is not CSV"):
        manifest_files.read_images(tmp_path / "images.csv")


def test_files_that_do_not_belong_together(tmp_path):
    written(tmp_path / "x")
    written(tmp_path / "y", TWO[1:])
    rows = manifest_files.read_images(tmp_path / "x/images.csv")
    with pytest.raises(StoreError, match=r"labels.csv: has 14 rows, but images.csv has 15"):
        manifest_files.read_labels(tmp_path / "y/labels.csv", images=rows)
    with pytest.raises(StoreError, match=r"tasks.csv: has 14 rows, but images.csv has 15"):
        manifest_files.read_tasks(tmp_path / "y/tasks.csv", rows=len(rows))
    with pytest.raises(
        StoreError, match=r"row 0 is data/d/a/a0.png, but images.csv has data/d/a/a1"
    ):
        manifest_files.read_labels(tmp_path / "x/labels.csv", images=[*rows[1:], rows[0]])
