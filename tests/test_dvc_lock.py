"""A dvc.lock that cannot be read is one line with the remedy, whoever reads it, and stays as it is."""

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


def test_stages_are_read_as_they_were_written_and_none_before_the_first_run():
    assert read_stages() == {}
    assert read_stage("model@vit") == {}
    write_stages({"model@vit": ENTRY, "model@vit2": ENTRY | {"cmd": "false"}})
    assert read_stages() == {"model@vit": ENTRY, "model@vit2": ENTRY | {"cmd": "false"}}
    assert read_stage("model@vit") == ENTRY
    assert read_stage("model@clip") == {}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
def test_a_broken_file_is_refused(content, refused):
    write(content)
    with pytest.raises(InputError, match=r"dvc\.lock: .*git checkout"):
        read_stages()
    before = LOCK.read_bytes()
    LOCK.with_name("base").write_text("")
    assert "git checkout" in refused(main, "merge-lock", "base", "dvc.lock", "base")
    assert LOCK.read_bytes() == before


def test_a_conflict_is_refused_by_whoever_reads_one_stage_and_merge_lock_does_not_name_itself(refused):
    write(CONFLICT)
    for read in (read_stages, lambda: read_stage("model@vit"), lambda: read_stage("model@clip")):
        with pytest.raises(InputError, match="referee merge-lock"):
            read()
    LOCK.with_name("base").write_text("")
    for arguments in ((), ("base", "dvc.lock", "base")):  # git knows of no conflict; a side has one
        message = refused(main, "merge-lock", *arguments)
        assert "git checkout" in message
        assert "referee merge-lock" not in message


@pytest.mark.parametrize("arguments", [("nope", "nope", "nope"), ("dvc.lock", "dvc.lock")])
def test_merge_lock_wants_three_files(arguments, refused):
    write_stages({"model@vit": ENTRY})
    assert "ancestor, ours, theirs" in refused(main, "merge-lock", *arguments)
