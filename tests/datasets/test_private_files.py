"""Files that stay with their owner: pointers in their place, followed where the file is, a clear word where not."""

import json

import numpy as np
import pytest

from pipeline.datasets import manifest_files
from pipeline.datasets.manifest_files import ClassRow, ImageRow, LabelRow, Manifest, Tasks
from pipeline.errors import StoreError

MADE = Manifest(
    images=(
        ImageRow("data/wards/ill/7.png", "ab" * 32, 4, 5),
        ImageRow("x/w/2.png", "cd" * 32, 4, 5),
    ),
    tasks=Tasks(np.array([0, 0]), (0,), np.array([[True], [False]])),
    classes=(ClassRow(0, "ill", 0), ClassRow(1, "well", 0)),
    labels=(LabelRow("data/wards/ill/7.png", "ill", 0), LabelRow("x/w/2.png", "well", 1)),
    report={"images_per_class": {"ill": 1, "well": 1}},
)


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "cache/manifests/wards"
    manifest_files.write(MADE, folder, private=True)
    return folder


def test_what_dvc_gets_tells_no_path_and_no_label(folder):
    got = {file.name: file.read_text() for file in folder.iterdir()}
    assert set(got) == {"images.csv", "tasks.csv", "classes.csv", "labels.csv", "report.json"}
    for name in ("images.csv", "labels.csv", "report.json"):
        assert "ill" not in got[name]
        assert "ab" * 32 not in got[name]
    assert got["images.csv"].startswith("kept_private,sha256\nimages.csv,")
    assert json.loads(got["report.json"])["kept_private"] == "report.json"
    assert "ill" in got["classes.csv"]


def test_the_owner_reads_as_before(folder):
    images = manifest_files.read_images(folder / "images.csv")
    assert tuple(images) == MADE.images
    assert tuple(manifest_files.read_labels(folder / "labels.csv", images=images)) == MADE.labels
    kept = folder.parents[2] / "private/wards"
    assert json.loads((kept / "report.json").read_text()) == MADE.report


def test_others_are_told(folder):
    (folder.parents[2] / "private/wards/labels.csv").unlink()
    with pytest.raises(StoreError, match=r"labels\.csv: kept private .*--force manifest@wards"):
        manifest_files.read_labels(folder / "labels.csv")


def test_another_version_is_not_taken_for_the_one_meant(folder):
    kept = folder.parents[2] / "private/wards/labels.csv"
    kept.write_text(kept.read_text().replace("ill,0", "ill,1"))
    with pytest.raises(StoreError, match=r"not the file that .* stands for"):
        manifest_files.read_labels(folder / "labels.csv")


def test_a_change_changes_the_pointer(folder):
    before = (folder / "labels.csv").read_bytes()
    manifest_files.write(MADE, folder, private=True)
    assert (folder / "labels.csv").read_bytes() == before
    changed = MADE.labels[0]._replace(class_name="well", label=1)
    other = Manifest(MADE.images, MADE.tasks, MADE.classes, (changed, MADE.labels[1]), MADE.report)
    manifest_files.write(other, folder, private=True)
    assert (folder / "labels.csv").read_bytes() != before


def test_a_pointer_leads_nowhere_else(folder):
    """What a pointer says is compared, never opened: a file name in it has no effect."""
    (folder / "labels.csv").write_text("kept_private,sha256\n../../../../secret,00\n")
    with pytest.raises(StoreError, match="not the file that"):
        manifest_files.read_labels(folder / "labels.csv")


def test_a_public_domain_has_no_pointers(tmp_path):
    folder = tmp_path / "cache/manifests/wards"
    manifest_files.write(MADE, folder)
    assert "ill" in (folder / "labels.csv").read_text()
    assert not (tmp_path / "private").exists()
