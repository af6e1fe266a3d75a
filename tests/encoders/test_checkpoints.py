"""Weights from files: every usual wrapping, and no code run from any file."""

import argparse

import pytest
import torch
from safetensors.torch import save_file

from pipeline.encoders.checkpoints import load_state_dict, state_fingerprint
from pipeline.encoders.origin import find_checkpoint
from pipeline.errors import ModelError


class Small(torch.nn.Module):
    """A state of several types and shapes."""

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


def same(state, model):
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
    assert same(load_state_dict(path), model)


@pytest.mark.parametrize(
    ("wrapper", "prefix"),
    [("state_dict", "module."), ("model", "_orig_mod."), ("model_ema", "module._orig_mod."), ("state_dict_ema", "")],
)
def test_wrappers_and_prefixes_of_training_scripts_are_removed(tmp_path, model, wrapper, prefix):
    state = {prefix + key: tensor for key, tensor in model.state_dict().items()}
    args = argparse.Namespace(lr=0.1)
    torch.save({wrapper: state, "epoch": 3, "args": args, "optimizer": {"lr": 1}}, tmp_path / "w.pth")
    assert same(load_state_dict(tmp_path / "w.pth"), model)


@pytest.mark.parametrize("content", [[1, 2], {"a": 1}, {}, {"state_dict": {"a": "b"}}, torch.ones(2)])
def test_a_file_without_a_state_dict_is_refused(tmp_path, content):
    torch.save(content, tmp_path / "w.pth")
    (tmp_path / "w.npz").touch()
    for name, reason in (("w.pth", "no state dict"), ("x.pth", "no such checkpoint"), ("w.npz", "unknown kind")):
        with pytest.raises(ModelError, match=rf"{name}: .*{reason}"):
            load_state_dict(tmp_path / name)


def test_fingerprint_sees_values_names_shapes_and_types_and_not_the_order_in_memory():
    def of(**tensors):
        module = torch.nn.Module()
        for name, tensor in tensors.items():
            module.register_buffer(name, tensor)
        return state_fingerprint(module)

    ones = torch.ones(2, 3)
    others = [of(b=ones), of(a=ones.reshape(3, 2)), of(a=ones.view(torch.int32)), of(a=ones, b=torch.ones(0))]
    assert len({of(a=ones), of(a=ones + 1e-6), *others}) == 6
    assert of(a=ones.T.contiguous().T) == of(a=ones)
    assert of(a=ones, b=ones) == of(b=ones, a=ones)
    assert of(a=ones.bfloat16()) != of(a=ones.half())


def test_an_origin_is_a_checkpoint_or_a_folder_with_one(tmp_path):
    with pytest.raises(ModelError, match="no such file or folder"):
        find_checkpoint(tmp_path / "nowhere")
    (tmp_path / "config.json").touch()
    assert find_checkpoint(tmp_path) is None
    one = tmp_path / "a.safetensors"
    one.touch()
    assert find_checkpoint(tmp_path) == find_checkpoint(one) == one
    (tmp_path / "b.pth").touch()
    with pytest.raises(ModelError, match=r"2 checkpoints \(a\.safetensors, b\.pth\)"):
        find_checkpoint(tmp_path)
