"""`referee export-features`: read back by the libraries it is written for, the rows are those of the cache."""

import json
import os
import re
import shlex
import subprocess
import venv

import numpy as np
import pytest

import pipeline
from pipeline.cli.main import main
from small_project import ROOT

pytestmark = pytest.mark.slow


@pytest.fixture
def project(finished, monkeypatch):
    monkeypatch.chdir(finished)
    return pipeline.open_cache(finished)


def exported(path, *arguments):
    assert main(["export-features", "left", "vit", "-o", str(path), *arguments]) == 0
    return path


def test_npz(project, tmp_path):
    file = np.load(exported(tmp_path / "rows.npz", "--view", "rand"))  # nothing is unpickled
    rows = project.rows("left", "vit", "rand")
    np.testing.assert_array_equal(file["rows"], rows.numpy())
    assert file["paths"].tolist() == rows.paths
    assert file["labels"].tolist() == rows.labels.tolist()
    assert file["classes"].tolist() == rows.classes
    assert json.loads(str(file["about"]))["view"] == "rand"


def test_parquet(project, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    import pandas as pd

    import datasets

    monkeypatch.setattr("pipeline.store.exported_features.BLOCK_ROWS", 7)  # several blocks
    file = exported(tmp_path / "rows.parquet")
    rows = project.rows("left", "vit")
    table = pd.read_parquet(file)
    np.testing.assert_array_equal(np.stack(table["embedding"]), rows.numpy())
    assert table["path"].tolist() == rows.paths
    assert table["class"].tolist() == [rows.classes[label] for label in rows.labels]

    dataset = datasets.Dataset.from_parquet(str(file), cache_dir=str(tmp_path / "hf"))
    assert dataset.features["label"].names == rows.classes
    np.testing.assert_array_equal(dataset.with_format("numpy")["label"], rows.labels)
    np.testing.assert_array_equal(dataset.with_format("numpy")["embedding"], rows.numpy())


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
def test_autofaiss_and_embedding_reader(project, tmp_path):
    """In an environment of their own: they need numpy 1 (docs/how-to/python.md has the line)."""
    (line,) = re.findall("pip install autofaiss.*", (ROOT / "docs/how-to/python.md").read_text())
    venv.create(tmp_path / "env", with_pip=True)
    python = str(tmp_path / "env/bin/python")
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    subprocess.run([python, "-m", *shlex.split(line), "--quiet"], check=True, env=environment)
    (tmp_path / "out").mkdir()
    exported(tmp_path / "out/rows.parquet")
    files = [str(tmp_path / "out"), str(exported(tmp_path / "rows.npz"))]
    first = project.rows("left", "vit").paths[0]
    subprocess.run([python, "-c", READ_BACK, *files, first], check=True, env=environment)


def test_safetensors(project, tmp_path):
    from safetensors import safe_open
    from safetensors.torch import load_file

    file = exported(tmp_path / "rows.safetensors")
    tensors, about = load_file(file), json.loads(safe_open(file, "pt").metadata()["referee"])
    rows = project.rows("left", "vit")
    np.testing.assert_array_equal(tensors["rows"], rows.numpy())
    assert bytes(tensors["paths"].numpy()).decode().split("\0") == rows.paths
    assert tensors["labels"].tolist() == rows.labels.tolist()
    assert about["classes"] == rows.classes
    assert about["backbone"]["weights"] == rows.provenance["weights"]


@pytest.mark.parametrize("form", ["npz", "parquet", "safetensors"])
def test_the_same_features_give_the_same_bytes_and_of_a_private_domain_only_rows_leave(
    project_copy, tmp_path, monkeypatch, capsys, form
):
    monkeypatch.chdir(project_copy.folder)
    first, second = (exported(tmp_path / f"{name}.{form}").read_bytes() for name in "ab")
    assert first == second
    assert str(tmp_path).encode() not in first
    project_copy.change_params(data={"private": ["left"]})
    project_copy.run_here(("manifest", "left"))
    content = exported(tmp_path / f"rows.{form}").read_bytes()
    for secret in (b"ant", b"0.png", "ant".encode("utf-32-le")):  # numpy's texts are UTF-32
        assert secret not in content
    assert "private" in capsys.readouterr().out
    rows = pipeline.open_cache(".").rows("left", "vit").numpy()
    if form == "npz":
        np.testing.assert_array_equal(np.load(tmp_path / "rows.npz")["rows"], rows)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("left", "vit", "-o", "rows.csv"), ("rows.csv", "--format")),
        (("left", "vit", "--format", "npz", "-o", "cache"), ("cache", "folder")),
    ],
)
def test_mistakes_are_one_line(project, refused, arguments, said):
    error = refused(main, "export-features", *arguments)
    assert all(word in error for word in said)
