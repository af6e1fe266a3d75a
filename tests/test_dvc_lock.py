"""A damaged dvc.lock is reported in one line with the remedy, and is not changed."""

import pytest

from pipeline.cli.main import main
from pipeline.dvc_lock import LOCK, read_stage, read_stages, write_stages
from pipeline.errors import InputError

ENTRY = {"cmd": "true", "deps": [{"path": "a", "md5": "1"}], "outs": [{"path": "b", "md5": "2"}]}
CONFLICT = "stages:\n  model@vit:\n<<<<<<< ours\n    cmd: a\n=======\n    cmd: b\n>>>>>>> theirs\n"
BROKEN = {
    "yaml": "stages: {",
    "a list": "- stages",
    "text for an entry": "stages:\n  model@vit:\n    some text\n",
    "outs without a path": "stages:\n  model@vit:\n    outs: [x]\n",
    "no outs": "stages:\n  model@vit:\n    outs:\n",
    "another encoding": b"stages:\n  model@vit:\n    cmd: \xe9\n",
}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write(content):
    LOCK.write_bytes(content if isinstance(content, bytes) else content.encode())


def test_written_stages_are_read_back_and_a_missing_file_has_none():
    assert read_stages() == {}
    assert read_stage("model@vit") == {}
    write_stages({"model@vit": ENTRY, "model@vit2": ENTRY | {"cmd": "false"}})
    assert read_stages() == {"model@vit": ENTRY, "model@vit2": ENTRY | {"cmd": "false"}}
    assert read_stage("model@vit") == ENTRY
    assert read_stage("model@clip") == {}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
def test_broken_file_is_refused(content, refused):
    write(content)
    with pytest.raises(InputError, match=r"dvc\.lock: .*git checkout"):
        read_stages()
    before = LOCK.read_bytes()
    LOCK.with_name("base").write_text("")
    assert "git checkout" in refused(main, "merge-lock", "base", "dvc.lock", "base")
    assert LOCK.read_bytes() == before


def test_conflict_is_refused_with_a_remedy_that_merge_lock_does_not_repeat(refused):
    write(CONFLICT)
    for read in (read_stages, lambda: read_stage("model@vit"), lambda: read_stage("model@clip")):
        with pytest.raises(InputError, match="referee merge-lock"):
            read()
    LOCK.with_name("base").write_text("")
    for arguments in ((), ("base", "dvc.lock", "base")):  # without a conflict in git's index; with one in a side
        message = refused(main, "merge-lock", *arguments)
        assert "git checkout" in message
        assert "referee merge-lock" not in message


@pytest.mark.parametrize("arguments", [("nope", "nope", "nope"), ("dvc.lock", "dvc.lock")])
def test_merge_lock_requires_three_files(arguments, refused):
    write_stages({"model@vit": ENTRY})
    assert "ancestor, ours, theirs" in refused(main, "merge-lock", *arguments)
