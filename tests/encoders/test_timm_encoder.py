"""timm models from local checkpoints: features, strictness, preprocessing, messages."""

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from encoders import small_models
from encoders.small_models import VIT, VIT_KWARGS, pictures
from pipeline.encoders import image_decoding, timm_encoder
from pipeline.encoders.backbone import Backbone
from pipeline.encoders.checkpoints import state_fingerprint
from pipeline.errors import ModelError

REAL = Path(__file__).parents[3] / "shared" / "real"
HALF = [0.5, 0.5, 0.5]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    path = tmp_path_factory.mktemp("vit") / "vit.safetensors"
    save_file(small_models.vit().state_dict(), path)
    return path


def build(origin, name=VIT, **changes):
    backbone = Backbone(library="timm", name=name, origin=str(origin), **{"kwargs": VIT_KWARGS, **changes})
    return timm_encoder.build(backbone, "cpu")


def refused(expected, origin, *args, **changes):
    with pytest.raises(ModelError, match=expected) as error:
        build(origin, *args, **changes)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_embedding_is_the_models_own(checkpoint):
    encoder = build(checkpoint)
    model = small_models.vit()
    images = pictures(3)
    with torch.no_grad():
        expected = model((images - 0.5) / 0.5)
    features = encoder.embed(images)
    assert torch.equal(features, expected)
    assert features.dtype == torch.float32
    assert encoder.width == features.shape[1] == 48
    features += 1  # an ordinary tensor, not one of inference mode
    assert not features.requires_grad
    assert not encoder.module.training
    assert all(not parameter.requires_grad for parameter in encoder.module.parameters())
    assert encoder.fingerprint == state_fingerprint(model)


def test_description_is_json_without_paths(checkpoint):
    encoder = build(checkpoint, precision="auto")
    assert encoder.precision == "float32"  # what stores record of the CPU
    assert json.loads(json.dumps(encoder.description)) == encoder.description
    assert encoder.description == {"library": "timm", "name": VIT, "pretrained": None, "kwargs": VIT_KWARGS}


def test_size_follows_img_size_and_the_rest_the_models_config(checkpoint):
    ours = build(checkpoint).preprocessing
    assert (ours.height, ours.width) == (32, 32)
    assert (ours.crop_pct, ours.interpolation, ours.resize_mode) == (0.9, "bicubic", "shortest")
    assert ours.mean == (0.5, 0.5, 0.5)
    other = build(checkpoint, preprocessing={"mean": [0, 0, 0], "crop_pct": 1}).preprocessing
    assert other == ours.override({"mean": [0, 0, 0], "crop_pct": 1.0})


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_low_precision_is_close_and_weights_stay_float32(checkpoint, precision):
    try:
        low = build(checkpoint, precision=precision)
    except ModelError as error:
        pytest.skip(str(error))  # a virtual machine that announces what it cannot execute
    exact = build(checkpoint)
    images = pictures(4)
    features = low.embed(images)
    assert features.dtype == torch.float32
    assert not torch.equal(features, exact.embed(images))
    assert torch.nn.functional.cosine_similarity(features, exact.embed(images)).min() > 0.999
    assert all(parameter.dtype == torch.float32 for parameter in low.module.parameters())
    assert low.fingerprint == exact.fingerprint


def test_classifier_is_dropped_and_nothing_else(tmp_path, checkpoint):
    whole = small_models.vit(num_classes=7)
    whole.load_state_dict(small_models.vit().state_dict(), strict=False)
    state = whole.state_dict()
    torch.save({"state_dict": state}, tmp_path / "w.pth")
    assert build(tmp_path).fingerprint == build(checkpoint).fingerprint
    torch.save({**state, "blocks.0.extra.weight": torch.ones(1)}, tmp_path / "w.pth")
    refused(r"1 key unknown: blocks\.0\.extra\.weight", tmp_path)
    del state["blocks.1.mlp.fc1.bias"]
    torch.save(state, tmp_path / "w.pth")
    refused(rf"w\.pth.*{VIT}.*1 key missing: blocks\.1\.mlp\.fc1\.bias", tmp_path)
    torch.save(small_models.vit(embed_dim=96).state_dict(), tmp_path / "w.pth")
    refused("not a checkpoint of", tmp_path)


def test_position_embedding_is_resampled_as_timm_does(tmp_path):
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
        ({"preprocessing": {"meen": HALF}}, "did you mean 'mean'"),
        ({"preprocessing": {"height": 40}}, r"cannot embed 40 x 32 images.*preprocessing\.height"),
    ],
)
def test_wrong_names_and_arguments_are_one_line(checkpoint, changes, expected):
    refused(expected, checkpoint, **changes)


def test_an_unreachable_hub_is_one_fast_line(tmp_path, monkeypatch, capfd):
    """Nothing listens on port 9 of this machine: a refused connection, as good as no network."""
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
    message = refused("timm model 'vit_tiny_patch16_224.augreg_in21k'", origin, "vit_tiny_patch16_224.augreg_in21k")
    assert time.monotonic() - started < 5
    assert "https://huggingface.co/timm/vit_tiny_patch16_224.augreg_in21k" in message
    assert f"put it at {origin / 'model.safetensors'}" in message
    assert capfd.readouterr() == ("", "")


def test_a_cached_file_of_the_hub_is_used_offline(tmp_path):
    """A cached file is used without a request; the folder is laid out as the hub's client does."""
    repository = tmp_path / "models--timm--vit_tiny_patch16_224.augreg_in21k"
    snapshot = repository / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("0" * 40)
    save_file(small_models.vit(num_classes=5).state_dict(), snapshot / "model.safetensors")
    code = (
        "import sys; sys.path.insert(0, '.'); from pipeline.encoders import backbone as b; "
        f"model = b.Backbone(library='timm', name='{VIT}.augreg_in21k', origin='.', kwargs={VIT_KWARGS!r}); "
        "e = b.build_image_encoder(model, 'cpu'); "
        "print(e.width, e.description['pretrained'])"
    )
    environment = {"HF_HUB_CACHE": str(tmp_path), "HF_HUB_OFFLINE": "1", "HOME": str(tmp_path)}
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, env=environment, cwd=root
    )
    assert done.stdout.split() == ["48", "augreg_in21k"], done.stderr
    assert done.stderr == ""


def test_a_model_without_weights_is_refused_with_the_remedy(tmp_path):
    refused(r"publishes no weights.*as origin", tmp_path, "vit_small_patch16_36x1_224", kwargs={})


@pytest.mark.skipif(not REAL.is_dir(), reason=f"needs real weights and photos in {REAL}")
def test_real_weights_reproduce_real_embeddings(tmp_path):
    """efficientnet_lite0 on Office-Caltech photos against embeddings of other software."""
    import tarfile

    encoder = build(
        REAL / "weights" / "efficientnet_lite0.safetensors",
        "efficientnet_lite0",
        kwargs={},
        preprocessing={"mean": HALF, "std": HALF, "crop_pct": 0.875, "interpolation": "bicubic"},
    )
    assert encoder.width == 1280
    with np.load(REAL / "office_caltech10" / "vision.npz") as given:
        paths, expected = given["paths"][::320], given["original"][::320].astype(np.float32)
    with tarfile.open(REAL / "office_caltech10" / "images.tar") as archive:
        members = {f"images/{path}" for path in paths}
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.4
        archive.extractall(tmp_path, [m for m in archive if m.name.removeprefix("./") in members])
    crops = [encoder.preprocessing.crop(image_decoding.decode(tmp_path / "images" / path)) for path in paths]
    images = torch.from_numpy(np.stack(crops)).permute(0, 3, 1, 2).float() / 255
    features = encoder.embed(images)
    cosines = torch.nn.functional.cosine_similarity(features, torch.from_numpy(expected))
    assert cosines.min() > 0.98
    assert cosines.mean() > 0.995
    assert torch.equal(encoder.embed(images.flip(0)).flip(0), features)  # same bits at any position
