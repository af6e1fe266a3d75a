"""Loading checkpoints: all common formats, without running code in them."""

import argparse

import pytest
import torch
from safetensors.torch import save_file

from pipeline.encoders.checkpoints import load_state_dict, state_fingerprint
from pipeline.encoders.origin import find_checkpoint
from pipeline.errors import ModelError


class Small(torch.nn.Module):
    """Module whose state has several types and shapes."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
        self.scale = torch.nn.Parameter(torch.tensor(2.5))
        self.low = torch.nn.Parameter(torch.randn(4).half())
        self.register_buffer("resolution", torch.tensor(32))


@pytest.fixture
def model():
    torch.manual_seed(1)
    return Small().eval()


def is_state_of(state, model):
    expected = model.state_dict()
    return state.keys() == expected.keys() and all(
        torch.equal(state[key], expected[key]) and state[key].dtype == expected[key].dtype for key in state
    )


@pytest.mark.parametrize("suffix", ["pth", "pt", "bin", "safetensors"])
@pytest.mark.parametrize("legacy", [False, True])
def test_every_format_is_read(tmp_path, model, suffix, legacy):
    path = tmp_path / f"w.{suffix}"
    if suffix == "safetensors":
        save_file(model.state_dict(), path)
    else:
        torch.save(model.state_dict(), path, _use_new_zipfile_serialization=not legacy)
    assert is_state_of(load_state_dict(path), model)


@pytest.mark.parametrize(
    ("wrapper", "prefix"),
    [("state_dict", "module."), ("model", "_orig_mod."), ("model_ema", "module._orig_mod."), ("state_dict_ema", "")],
)
def test_wrappers_and_prefixes_of_training_scripts_are_removed(tmp_path, model, wrapper, prefix):
    state = {prefix + key: tensor for key, tensor in model.state_dict().items()}
    args = argparse.Namespace(lr=0.1)
    torch.save({wrapper: state, "epoch": 3, "args": args, "optimizer": {"lr": 1}}, tmp_path / "w.pth")
    assert is_state_of(load_state_dict(tmp_path / "w.pth"), model)


@pytest.mark.parametrize("content", [[1, 2], {"a": 1}, {}, {"state_dict": {"a": "b"}}, torch.ones(2)])
def test_a_file_without_a_state_dict_is_an_error(tmp_path, content):
    torch.save(content, tmp_path / "w.pth")
    (tmp_path / "w.npz").touch()
    for name, reason in (("w.pth", "no state dict"), ("x.pth", "no such checkpoint"), ("w.npz", "unknown kind")):
        with pytest.raises(ModelError, match=rf"{name}: .*{reason}"):
            load_state_dict(tmp_path / name)


def test_fingerprint_depends_on_values_names_shapes_and_types_but_not_on_memory_layout():
    def fingerprint(**tensors):
        module = torch.nn.Module()
        for name, tensor in tensors.items():
            module.register_buffer(name, tensor)
        return state_fingerprint(module)

    ones = torch.ones(2, 3)
    states = [
        *({"a": ones}, {"a": ones + 1e-6}, {"b": ones}),
        *({"a": ones.reshape(3, 2)}, {"a": ones.view(torch.int32)}, {"a": ones, "b": torch.ones(0)}),
    ]
    assert len({fingerprint(**state) for state in states}) == 6
    assert fingerprint(a=ones.T.contiguous().T) == fingerprint(a=ones)
    assert fingerprint(a=ones, b=ones) == fingerprint(b=ones, a=ones)
    assert fingerprint(a=ones.bfloat16()) != fingerprint(a=ones.half())


def test_an_origin_is_a_checkpoint_or_a_folder_with_one_checkpoint(tmp_path):
    with pytest.raises(ModelError, match="no such file or folder"):
        find_checkpoint(tmp_path / "nowhere")
    (tmp_path / "config.json").touch()
    assert find_checkpoint(tmp_path) is None
    checkpoint = tmp_path / "a.safetensors"
    checkpoint.touch()
    assert find_checkpoint(tmp_path) == find_checkpoint(checkpoint) == checkpoint
    (tmp_path / "b.pth").touch()
    with pytest.raises(ModelError, match=r"2 checkpoints \(a\.safetensors, b\.pth\)"):
        find_checkpoint(tmp_path)
