"""`referee export-features`: the intended libraries read back the rows of the cache."""

import json
import os
import re
import shlex
import subprocess
import venv

import numpy as np
import pandas as pd
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file

import pipeline
from pipeline.cli.main import main
from small_project import ROOT

pytestmark = pytest.mark.slow


@pytest.fixture
def project(finished, monkeypatch):
    monkeypatch.chdir(finished)
    return pipeline.open_cache(finished)


def export(path, *arguments):
    assert main(["export-features", "left", "vit", "-o", str(path), *arguments]) == 0
    return path


def read_npz(file):
    arrays = np.load(file)  # without unpickling
    assert json.loads(str(arrays["about"]))["view"] == "rand"
    return arrays["rows"], arrays["paths"].tolist(), arrays["labels"], arrays["classes"].tolist()


def read_safetensors(file):
    tensors, about = load_file(file), json.loads(safe_open(file, "np").metadata()["referee"])
    assert len(about["backbone"]["weights"]) == 64
    return tensors["rows"], bytes(tensors["paths"]).decode().split("\0"), tensors["labels"], about["classes"]


def read_parquet(file):
    import datasets  # takes a second, needed only here

    table = pd.read_parquet(file)
    dataset = datasets.Dataset.from_parquet(str(file), cache_dir=str(file.parent / "hf")).with_format("numpy")
    names = dataset.features["label"].names
    assert table["class"].tolist() == [names[label] for label in table["label"]]
    np.testing.assert_array_equal(np.stack(table["embedding"]), dataset["embedding"])
    return dataset["embedding"], table["path"].tolist(), dataset["label"], names


@pytest.mark.parametrize(
    ("form", "read"), [("npz", read_npz), ("safetensors", read_safetensors), ("parquet", read_parquet)]
)
def test_exported_rows_paths_labels_and_classes_equal_the_cache(project, tmp_path, monkeypatch, form, read):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("pipeline.store.exported_features.BLOCK_ROWS", 7)  # several blocks
    expected = project.rows("left", "vit", "rand")
    rows, paths, labels, classes = read(export(tmp_path / f"rows.{form}", "--view", "rand"))
    np.testing.assert_array_equal(rows, expected.numpy())
    np.testing.assert_array_equal(labels, expected.labels)
    assert (paths, classes) == (expected.paths, expected.classes)


READ_BACK = """
import sys
import numpy as np
from autofaiss import build_index
from embedding_reader import EmbeddingReader

folder, rows = sys.argv[1], np.load(sys.argv[2])["rows"]
reader = EmbeddingReader(
    folder, file_format="parquet", embedding_column="embedding", meta_columns=["path", "label"]
)
batches = list(reader(batch_size=7, show_progress=False))
assert np.array_equal(np.concatenate([x for x, _ in batches]), rows)
assert list(batches[0][1]["path"][:1]) == [sys.argv[3]]
index, _ = build_index(
    folder, file_format="parquet", embedding_column_name="embedding", save_on_disk=False
)
assert (index.search(rows, 1)[1].ravel() == np.arange(len(rows))).all()
"""


@pytest.mark.long
def test_autofaiss_and_embedding_reader_read_the_parquet_file(project, tmp_path):
    """Install both in a separate environment, because they need numpy 1 (see docs/how-to/python.md)."""
    (line,) = re.findall("pip install autofaiss.*", (ROOT / "docs/how-to/python.md").read_text())
    venv.create(tmp_path / "env", with_pip=True)
    python = str(tmp_path / "env/bin/python")
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    subprocess.run([python, "-m", *shlex.split(line), "--quiet"], check=True, env=environment)
    (tmp_path / "out").mkdir()
    export(tmp_path / "out/rows.parquet")
    files = [str(tmp_path / "out"), str(export(tmp_path / "rows.npz"))]
    first = project.rows("left", "vit").paths[0]
    subprocess.run([python, "-c", READ_BACK, *files, first], check=True, env=environment)


@pytest.mark.parametrize("form", ["npz", "parquet", "safetensors"])
def test_files_are_reproducible_and_contain_only_rows_if_the_domain_is_private(
    project_copy, tmp_path, monkeypatch, capsys, form
):
    monkeypatch.chdir(project_copy.folder)
    first, second = (export(tmp_path / f"{name}.{form}").read_bytes() for name in "ab")
    assert first == second
    assert str(tmp_path).encode() not in first
    project_copy.change_params(data={"private": ["left"]})
    project_copy.run_in_process(("manifest", "left"))
    content = export(tmp_path / f"rows.{form}").read_bytes()
    for secret in (b"ant", b"0.png", "ant".encode("utf-32-le")):  # numpy stores text as UTF-32
        assert secret not in content
    assert "private" in capsys.readouterr().out
    rows = pipeline.open_cache(".").rows("left", "vit").numpy()
    if form == "npz":
        np.testing.assert_array_equal(np.load(tmp_path / "rows.npz")["rows"], rows)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("left", "vit", "-o", "rows.csv"), ("rows.csv", "--format")),
        (("left", "vit", "--format", "npz", "-o", "cache"), ("cache", "folder")),
    ],
)
def test_wrong_arguments_are_reported_in_one_line(project, refused, arguments, words):
    error = refused(main, "export-features", *arguments)
    assert all(word in error for word in words)
