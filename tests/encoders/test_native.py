"""The compiled part is optional, and what is broken counts as absent."""

import functools
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.encoders import native

ROOT = Path(__file__).parents[2]


def build(folder):
    (folder / "pipeline" / "encoders").mkdir(parents=True)
    shutil.copy(ROOT / "setup.py", folder)
    for name in native.SOURCES:
        shutil.copy(ROOT / "pipeline" / "encoders" / name, folder / "pipeline" / "encoders")

    def run():
        return subprocess.run(
            [sys.executable, "setup.py", "build_ext", "--inplace"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_a_compiler_that_fails_does_not_stop_the_installation(tmp_path):
    run = build(tmp_path)
    (tmp_path / "pipeline" / "encoders" / "resample.c").write_text("this is not C")
    done = run()
    assert done.returncode == 0, done.stderr
    assert re.search(r'building extension "pipeline.encoders._native" failed', done.stderr)
    assert not list(tmp_path.rglob("*.so"))


def loaded_from(folder, monkeypatch):
    monkeypatch.setattr(native, "__file__", str(folder / "pipeline" / "encoders" / "native.py"))
    return functools.cache(native.library.__wrapped__)()


@pytest.mark.skipif(native.library() is None, reason="there was no compiler here")
def test_what_was_compiled_from_other_source_counts_as_none(tmp_path, monkeypatch):
    run = build(tmp_path)
    assert run().returncode == 0
    assert loaded_from(tmp_path, monkeypatch) is not None
    with (tmp_path / "pipeline" / "encoders" / "processors.h").open("a") as file:
        file.write("/* changed */\n")
    assert loaded_from(tmp_path, monkeypatch) is None


@pytest.mark.parametrize("content", [b"", b"not a library"])
def test_a_file_that_does_not_load_counts_as_none(tmp_path, monkeypatch, content):
    monkeypatch.setattr(native, "__file__", str(tmp_path / "native.py"))
    assert functools.cache(native.library.__wrapped__)() is None
    for suffix in native.importlib.machinery.EXTENSION_SUFFIXES:
        (tmp_path / f"_native{suffix}").write_bytes(content)
    assert functools.cache(native.library.__wrapped__)() is None
