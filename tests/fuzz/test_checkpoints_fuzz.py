"""Checkpoints from anywhere: one that would run code does not, and damaged ones are one line."""

import os
import pickle
import random
import zipfile
from pathlib import Path

import pytest
import torch
from safetensors.torch import save

from fuzz.inputs import little_memory, only_our_errors, tried
from pipeline.encoders.checkpoints import load_state_dict
from pipeline.errors import ModelError

STATE = {"a.weight": torch.arange(6.0).reshape(2, 3), "b": torch.ones(4, dtype=torch.float16)}
SUFFIXES = (".safetensors", ".pth", ".pt", ".bin")


class Runs:
    """Would make a file called marker when unpickled."""

    def __reduce__(self):
        return os.system, ("touch marker",)


class RunsByEval:
    def __reduce__(self):
        return eval, ("__import__('pathlib').Path('marker').touch()",)


def torch_bytes(content, folder, **how):
    torch.save(content, folder / "saved", **how)
    return (folder / "saved").read_bytes()


@pytest.mark.parametrize("code", [Runs, RunsByEval])
@pytest.mark.parametrize("form", ["zip", "legacy", "bare", "protocol 0", "wrapped"])
def test_a_pickle_that_would_run_code_does_not(code, form, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    content = {
        "zip": lambda: torch_bytes({**STATE, "x": code()}, tmp_path),
        "legacy": lambda: torch_bytes(
            {**STATE, "x": code()}, tmp_path, _use_new_zipfile_serialization=False
        ),
        "bare": lambda: pickle.dumps(code()),
        "protocol 0": lambda: pickle.dumps({"state_dict": code()}, 0),
        "wrapped": lambda: torch_bytes({"state_dict": STATE, "hook": [code()]}, tmp_path),
    }[form]()
    for suffix in SUFFIXES:
        Path(f"model{suffix}").write_bytes(content)
        with pytest.raises(ModelError) as raised:
            load_state_dict(Path(f"model{suffix}"))
        assert "\n" not in str(raised.value)
        assert not Path("marker").exists(), f"{form} as {suffix} ran code"
        tried["checkpoints"] += 1


def test_the_pickle_would_have_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pickle.loads(pickle.dumps(RunsByEval()))
    assert Path("marker").exists()


def test_a_torchscript_archive_with_code_in_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with zipfile.ZipFile("model.pt", "w") as archive:
        archive.writestr("m/code/__torch__.py", "import os\nos.system('touch marker')\n")
        archive.writestr("m/constants.pkl", pickle.dumps(()))
        archive.writestr("m/data.pkl", pickle.dumps(Runs()))
        archive.writestr("m/version", "3\n")
    with pytest.raises(ModelError):
        load_state_dict(Path("model.pt"))
    assert not Path("marker").exists()


def spoil(content, chosen):
    content = bytearray(content)
    for _ in range(chosen.randint(1, 4)):
        place = chosen.randrange(len(content))
        action = chosen.randrange(4)
        if action == 0 and place:
            del content[place:]
        elif action == 1:
            content[place] ^= 1 << chosen.randrange(8)
        elif action == 2:
            content[place : place + 8] = chosen.randbytes(8)
        else:
            del content[place : place + chosen.randint(1, 40)]
        if not content:
            return b"x"
    return bytes(content)


def try_checkpoints(folder, count, seed):
    chosen = random.Random(seed)
    valid = [
        (".safetensors", save(STATE)),
        (".pth", torch_bytes(STATE, folder)),
        (".bin", torch_bytes(STATE, folder, _use_new_zipfile_serialization=False)),
    ]
    for _ in range(count):
        suffix, content = chosen.choice(valid)
        if chosen.random() < 0.1:
            suffix = chosen.choice(SUFFIXES)
        file = folder / f"model{suffix}"
        file.write_bytes(spoil(content, chosen))
        with only_our_errors("checkpoints"):
            load_state_dict(file)


@pytest.mark.filterwarnings("ignore:.*:UserWarning")
def test_hundreds(tmp_path):
    with little_memory():
        try_checkpoints(tmp_path, 300, seed=0)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:.*:UserWarning")
def test_thousands(tmp_path):
    with little_memory():
        try_checkpoints(tmp_path, 5000, seed=1)
