from pathlib import Path

import pytest

from pipeline.write_aside import write_aside


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_appears_whole_or_not_at_all(tmp_path):
    def half(path):
        with write_aside(path) as aside:
            aside.write_text("half")
            raise KeyError

    (tmp_path / "a.txt").write_text("new")
    with pytest.raises(KeyError):
        half(tmp_path / "a.txt")
    assert (tmp_path / "a.txt").read_text() == "new"
    assert names(tmp_path) == ["a.txt"]


def folder_with(path, content):
    with write_aside(path) as aside:
        aside.mkdir()
        (aside / content).write_text(content)


def test_a_folder_replaces_a_folder_and_what_a_killed_run_left(tmp_path):
    (tmp_path / ".s.zarr.partial").mkdir()
    (tmp_path / ".s.zarr.partial" / "junk").write_text("x")
    for content in ("old", "new"):
        folder_with(tmp_path / "s.zarr", content)
    assert names(tmp_path / "s.zarr") == ["new"]
    assert names(tmp_path) == ["s.zarr"]


def test_a_rename_that_fails_leaves_the_old_folder(tmp_path, monkeypatch):
    folder_with(tmp_path / "s.zarr", "old")
    replace = Path.replace

    def disk_full(self, target):
        if self.name.endswith(".partial"):
            raise OSError(28, "No space left on device")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", disk_full)
    with pytest.raises(OSError, match="No space left"):
        folder_with(tmp_path / "s.zarr", "new")
    assert names(tmp_path) == ["s.zarr"]
    assert names(tmp_path / "s.zarr") == ["old"]


def test_a_kill_between_the_two_renames_loses_nothing(tmp_path):
    folder_with(tmp_path / "s.zarr", "old")
    (tmp_path / "s.zarr").rename(tmp_path / ".s.zarr.former")  # where the process was killed
    with pytest.raises(KeyError), write_aside(tmp_path / "s.zarr"):
        raise KeyError
    assert names(tmp_path / "s.zarr") == ["old"]
