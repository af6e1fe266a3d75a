"""Building a manifest: rows, tasks, splits, and the report of what was left out."""

from pathlib import Path

import pytest

from pipeline.datasets.sources.source import FoundImages, LabelledImage
from pipeline.errors import InputError
from small_manifests import TWO_CLASSES, arranged, build_manifest, images, sha256


def test_rows_are_ordered_by_path_or_for_a_private_domain_by_content():
    manifest = build_manifest()
    assert [row.path for row in manifest.images] == [image.path.as_posix() for image in TWO_CLASSES.images]
    assert manifest.images[0] == ("data/d/a/a0.png", sha256("a0.png"), 4, 3)
    assert manifest.labels == ["a"] * 10 + ["b"] * 5
    classes, tasks = arranged(manifest)
    assert tasks.task.tolist() == [0] * 10 + [1] * 5
    assert classes == [(0, "a", 0), (1, "b", 1)]
    private = build_manifest(by_content=True)
    assert [row.sha256 for row in private.images] == sorted(row.sha256 for row in manifest.images)
    assert [Path(row.path).parent.name for row in private.images] == private.labels


def test_the_report_counts_images_and_ignored_files():
    report = build_manifest(FoundImages(TWO_CLASSES.images, {".heic": 2})).report
    assert (report["images_per_class"], report["ignored_files"]) == ({"a": 10, "b": 5}, {".heic": 2})


def test_duplicates_are_reported_and_those_across_classes_flagged():
    found = images(a=["same.png", "x.png", "x2.png"], b=["same.png", "y.png"])
    assert build_manifest(found).report["duplicates"] == [
        {"sha256": sha256("same.png"), "across_classes": True, "paths": ["data/d/a/same.png", "data/d/b/same.png"]}
    ]
    copies = [LabelledImage(Path(f"data/d/a/{i}/1.png"), "a") for i in range(3)]
    report = build_manifest(FoundImages(copies, {})).report
    assert [group["across_classes"] for group in report["duplicates"]] == [False]


def test_a_file_without_read_permission_is_unreadable():
    def refuse(path):
        raise PermissionError(13, "Permission denied", str(path))

    with pytest.raises(InputError, match=r"1 file .*\n.*Permission denied"):
        build_manifest(images(a=["1.png"]), read_facts=refuse)


@pytest.mark.parametrize("found", [images(a=["1.png"]), images(a=["1.png"], b=["bad.png"])])
def test_a_class_without_images_is_refused_or_reported(found):
    settings = {"class_names": ["a", "b"], "unreadable": "skip"}
    with pytest.raises(InputError, match=r"data/d: .*: b; .*class_names.*data.empty_class: report"):
        build_manifest(found, **settings)
    manifest = build_manifest(found, **settings, empty_class="report")
    assert manifest.report["empty_classes"] == ["b"]
    assert manifest.class_names == ["a", "b"]


@pytest.mark.parametrize("class_names", [(), ("a",)])
def test_a_domain_without_images_is_refused(class_names):
    found = FoundImages([], {".heic": 3})
    with pytest.raises(InputError, match=r"data/d: no images .*\.heic.*domains\.\*\.images"):
        build_manifest(found, class_names=class_names, empty_class="report")


def test_paths_replace_contents_if_there_are_no_images():
    manifest = build_manifest(read_facts=None)
    assert manifest.images[0] == ("data/d/a/a0.png", sha256("data/d/a/a0.png"), 0, 0)
    assert manifest.report["made_from"] == "paths"
    assert arranged(manifest)[1].test.sum(axis=0).tolist() == [2, 2]
