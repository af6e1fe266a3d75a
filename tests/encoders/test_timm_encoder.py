"""timm models from local checkpoints: features, strictness, preprocessing, error messages."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from encoders import small_models
from encoders.small_models import VIT, VIT_KWARGS, assert_model_error, pictures
from pipeline.encoders import timm_encoder
from pipeline.encoders.backbone import Backbone
from pipeline.encoders.checkpoints import state_fingerprint
from pipeline.encoders.preprocessing import Preprocessing
from pipeline.errors import ModelError


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    path = tmp_path_factory.mktemp("vit") / "vit.safetensors"
    save_file(small_models.vit().state_dict(), path)
    return path


def build(origin, name=VIT, **changes):
    backbone = Backbone(library="timm", name=name, origin=str(origin), **{"kwargs": VIT_KWARGS, **changes})
    return timm_encoder.build(backbone, "cpu")


def test_embedding_equals_that_of_timm(checkpoint):
    encoder = build(checkpoint)
    model = small_models.vit()
    images = pictures(3)
    with torch.no_grad():
        expected = model((images - 0.5) / 0.5)
    features = encoder.embed(images)
    assert torch.equal(features, expected)
    assert features.dtype == torch.float32
    assert encoder.width == features.shape[1] == 48
    features += 1  # an ordinary tensor, not an inference tensor
    assert not features.requires_grad
    assert not encoder.module.training
    assert all(not parameter.requires_grad for parameter in encoder.module.parameters())
    assert encoder.fingerprint == state_fingerprint(model)


def test_description_and_preprocessing(checkpoint):
    encoder = build(checkpoint, precision="auto")
    assert encoder.precision == "float32"  # as recorded in stores
    assert json.loads(json.dumps(encoder.description)) == encoder.description
    assert encoder.description == {"library": "timm", "name": VIT, "pretrained": None, "kwargs": VIT_KWARGS}
    # the size follows img_size, the rest the model's config
    expected = Preprocessing(32, 32, 0.9, "shortest", "bicubic", (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
    assert encoder.preprocessing == expected
    changes = {"mean": [0, 0, 0], "crop_pct": 1}
    assert build(checkpoint, preprocessing=changes).preprocessing == expected.override(changes)


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_half_precision_is_close_and_keeps_weights_in_float32(checkpoint, precision):
    try:
        low = build(checkpoint, precision=precision)
    except ModelError as error:
        pytest.skip(str(error))  # a virtual machine that announces instructions it cannot execute
    exact = build(checkpoint)
    images = pictures(4)
    features = low.embed(images)
    assert features.dtype == torch.float32
    assert not torch.equal(features, exact.embed(images))
    assert torch.nn.functional.cosine_similarity(features, exact.embed(images)).min() > 0.999
    assert all(parameter.dtype == torch.float32 for parameter in low.module.parameters())
    assert low.fingerprint == exact.fingerprint


def test_only_the_classifier_is_dropped_and_positions_are_resampled(tmp_path, checkpoint):
    whole = small_models.vit(num_classes=7)
    whole.load_state_dict(small_models.vit().state_dict(), strict=False)
    state = whole.state_dict()
    torch.save({"state_dict": state}, tmp_path / "w.pth")
    assert build(tmp_path).fingerprint == build(checkpoint).fingerprint
    torch.save({**state, "blocks.0.extra.weight": torch.ones(1)}, tmp_path / "w.pth")
    assert_model_error(r"1 key unknown: blocks\.0\.extra\.weight", build, tmp_path)
    del state["blocks.1.mlp.fc1.bias"]
    torch.save(state, tmp_path / "w.pth")
    assert_model_error(rf"w\.pth.*{VIT}.*1 key missing: blocks\.1\.mlp\.fc1\.bias", build, tmp_path)
    torch.save(small_models.vit(embed_dim=96).state_dict(), tmp_path / "w.pth")
    assert_model_error("not a checkpoint of", build, tmp_path)
    torch.save(small_models.vit(img_size=64).state_dict(), tmp_path / "w.pth")
    assert build(tmp_path).embed(pictures(1)).shape == (1, 48)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"name": "vit_tiny_patch16_242"}, "did you mean 'vit_tiny_patch16_224'"),
        ({"name": f"{VIT}.augreg_in21k_ft_in2k"}, "no pretrained tag.*did you mean"),
        ({"name": f"{VIT}.nonsense"}, "no pretrained tag 'nonsense'; valid: augreg"),
        ({"kwargs": {**VIT_KWARGS, "embed_dims": 3}}, "cannot be built.*'embed_dims'"),
        ({"kwargs": {**VIT_KWARGS, "num_classes": 3}}, "'num_classes' is not for kwargs"),
        ({"kwargs": {**VIT_KWARGS, "in_chans": 1}}, "'in_chans' is not for kwargs"),
        ({"kwargs": {**VIT_KWARGS, "num_heads": 5}}, "cannot be built"),
        ({"kwargs": {**VIT_KWARGS, "global_pool": ""}}, "not one vector per image"),
        ({"preprocessing": {"meen": [0, 0, 0]}}, "did you mean 'mean'"),
        ({"name": "vit_small_patch16_36x1_224", "origin": "", "kwargs": {}}, "publishes no weights.*as origin"),
        ({"preprocessing": {"height": 40}}, r"cannot embed 40 x 32 images.*preprocessing\.height"),
    ],
)
def test_wrong_names_and_arguments_are_one_line_errors(tmp_path, checkpoint, changes, expected):
    origin = tmp_path if "origin" in changes else checkpoint
    assert_model_error(expected, build, **{**changes, "origin": origin})


def test_an_unreachable_hub_is_a_fast_one_line_error(tmp_path, monkeypatch, capfd):
    """Nothing listens on port 9 of this machine, so the connection is refused."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(
        "huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE",
        "http://127.0.0.1:9/{repo_id}/resolve/{revision}/{filename}",
    )
    origin = tmp_path / "weights"
    origin.mkdir()
    started = time.monotonic()
    message = assert_model_error(
        "timm model 'vit_tiny_patch16_224.augreg_in21k'", build, origin, "vit_tiny_patch16_224.augreg_in21k"
    )
    assert time.monotonic() - started < 5
    assert "https://huggingface.co/timm/vit_tiny_patch16_224.augreg_in21k" in message
    assert f"put it at {origin / 'model.safetensors'}" in message
    assert capfd.readouterr() == ("", "")


def test_a_cached_file_of_the_hub_is_used_offline(tmp_path):
    """The cache folder has the layout of the hub's client."""
    repository = tmp_path / "models--timm--vit_tiny_patch16_224.augreg_in21k"
    snapshot = repository / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("0" * 40)
    save_file(small_models.vit(num_classes=5).state_dict(), snapshot / "model.safetensors")
    code = (
        "import sys; sys.path.insert(0, '.'); from pipeline.encoders import backbone as b; "
        f"model = b.Backbone(library='timm', name='{VIT}.augreg_in21k', origin='.', kwargs={VIT_KWARGS!r}); "
        "encoder = b.build_image_encoder(model, 'cpu'); "
        "print(encoder.width, encoder.description['pretrained'])"
    )
    environment = {"HF_HUB_CACHE": str(tmp_path), "HF_HUB_OFFLINE": "1", "HOME": str(tmp_path)}
    root = Path(__file__).parents[2]
    process = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, env=environment, cwd=root
    )
    assert process.stdout.split() == ["48", "augreg_in21k"], process.stderr
    assert process.stderr == ""
