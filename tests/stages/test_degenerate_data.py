"""Data at its limits through the stages, from imported features to metrics; method/ has every variant."""

import json

import numpy as np
import pytest

from benchmarks.imported_project import FEATURES, STATISTICS, ImportedProject, rff
from pipeline.stage import main

CLASSES, WIDTH = 4, 6
NAMES = tuple(f"c{c:04d}" for c in range(CLASSES))


def rows(per_class, seed, spread=0.3):
    """Return separable rows (n, width), class by class."""
    y = np.repeat(np.arange(CLASSES), per_class)
    return np.eye(CLASSES, WIDTH)[y] + spread * np.random.default_rng(seed).normal(size=(len(y), WIDTH))


class Project(ImportedProject):
    """Two domains of given rows, the same in every view, which CLIP sees too."""

    def give(self, a, b, *, of_b=NAMES, **sections):
        """Write them; ``of_b`` are the classes of the second's rows, as many of each."""
        self.write(source=4, target=4, classes=CLASSES, per_task=2)  # its params are kept
        paths = [
            f"{domain}/{names[i // (len(x) // len(names))]}/{i:04d}.jpg"
            for domain, x, names in (("a", a, NAMES), ("b", b, of_b))
            for i in range(len(x))
        ]
        both = np.vstack([a, b]).astype(np.float32)
        views = dict.fromkeys(("original", "zeros", "rand"), both)
        np.savez(self.folder / "vision.npz", paths=np.array(paths), **views)
        np.savez(
            self.folder / "clip.npz",
            paths=np.array(paths),
            original=np.nan_to_num(both),
            text=np.eye(CLASSES + 1, WIDTH, dtype=np.float32),
            class_names=np.array([*NAMES, "another"]),
            logit_scale=np.array(10.0),
        )
        self.change(**{"rff": rff(60), "data": {"seeds": [0], "test_fraction": 0.25}} | sections)


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Project(tmp_path)


def metrics(project):
    for stage in (*FEATURES, *STATISTICS):
        assert main(stage) == 0, stage
    found = json.loads((project.folder / "results/toy/evaluations/a-b.json").read_text())
    assert np.isfinite([value for value in found.values() if isinstance(value, float)]).all()
    return found


def files(project):
    return sorted(file for file in (project.folder / "cache").rglob("*") if file.is_file())


@pytest.fixture
def refused(project, refused):
    """Run stages of which the last must fail; return its line. It writes nothing."""

    def run(*stages):
        for stage in stages[:-1]:
            assert main(stage) == 0, stage
        before = files(project)
        line = refused(main, *stages[-1])
        assert files(project) == before
        return line

    return run


def test_a_threshold_that_no_label_reaches(project, capsys):
    """With no label kept, accuracy is null in JSON and an empty cell in CSV, not NaN."""
    project.give(rows(12, 0), rows(12, 1), method={"variant": "calibrated", "options": {"threshold": 1.0}})
    found = metrics(project)
    assert found["pseudo_labels_kept"] == 0
    assert found["pseudo_label_accuracy"] is None
    text = (project.folder / "results/toy/problems/a-b/tables/pseudo_labels.csv").read_text()
    assert text.splitlines() == ["task,accuracy,kept", "1,,0.0", "2,,0.0"]
    assert "nan" not in (project.folder / "results/toy/evaluations/a-b.json").read_text().lower()
    assert "Warning" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("per_class", "of_b", "per_task", "task"), [(1, NAMES, 2, "task 1 of 2"), (12, NAMES[:3], 1, "task 4 of 4")]
)
def test_a_task_without_a_test_image_is_adapted_to_and_cannot_be_scored(
    project, refused, per_class, of_b, per_task, task
):
    """One image per class, or a class without images."""
    project.give(
        rows(8, 0),
        rows(per_class, 1)[: per_class * len(of_b)],
        of_b=of_b,
        datasets={"toy": {"classes_per_task": per_task, "class_names": {name: name for name in NAMES}}},
        data={"seeds": [0], "test_fraction": 0.25, "empty_class": "report"},
    )
    for line in (refused(*FEATURES, *STATISTICS), refused(("compare", "a-b"))):
        assert f"{task} has no test image to score" in line
        assert "data.test_fraction" in line
