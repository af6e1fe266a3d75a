"""`write_aside` replaces files and folders atomically."""

from pathlib import Path

import pytest

from pipeline.write_aside import write_aside


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_failed_write_keeps_the_old_file(tmp_path):
    def fail(path):
        with write_aside(path) as aside:
            aside.write_text("half")
            raise KeyError

    (tmp_path / "a.txt").write_text("old")
    with pytest.raises(KeyError):
        fail(tmp_path / "a.txt")
    assert (tmp_path / "a.txt").read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def write_folder(path, name):
    with write_aside(path) as aside:
        aside.mkdir()
        (aside / name).write_text(name)


def test_folder_replaces_the_old_folder_and_remains_of_a_killed_run(tmp_path):
    (tmp_path / ".s.zarr.partial").mkdir()
    (tmp_path / ".s.zarr.partial" / "junk").write_text("x")
    for name in ("old", "new"):
        write_folder(tmp_path / "s.zarr", name)
    assert names(tmp_path / "s.zarr") == ["new"]
    assert names(tmp_path) == ["s.zarr"]


def test_failed_rename_keeps_the_old_folder(tmp_path, monkeypatch):
    write_folder(tmp_path / "s.zarr", "old")
    replace = Path.replace

    def disk_full(self, target):
        if self.name.endswith(".partial"):
            raise OSError(28, "No space left on device")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", disk_full)
    with pytest.raises(OSError, match="No space left"):
        write_folder(tmp_path / "s.zarr", "new")
    assert names(tmp_path) == ["s.zarr"]
    assert names(tmp_path / "s.zarr") == ["old"]


def test_kill_between_the_two_renames_loses_nothing(tmp_path):
    write_folder(tmp_path / "s.zarr", "old")
    (tmp_path / "s.zarr").rename(tmp_path / ".s.zarr.former")  # as left by a killed process
    with pytest.raises(KeyError), write_aside(tmp_path / "s.zarr"):
        raise KeyError
    assert names(tmp_path / "s.zarr") == ["old"]
