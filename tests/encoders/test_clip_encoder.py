"""open_clip models from local files: both towers, activation, preprocessing, messages."""

from __future__ import annotations

import copy
import json
import warnings
from pathlib import Path

import open_clip
import pytest
import torch
from safetensors.torch import save_file

from encoders import small_models
from encoders.small_models import CLIP_CONFIG, pictures
from pipeline.encoders import clip_encoder
from pipeline.encoders.clip_encoder import ClipEncoder
from pipeline.errors import ModelError

QUICK = open_clip.transformer.QuickGELU


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("clip")
    save_file(small_models.clip().state_dict(), path / "tiny.safetensors")
    small_models.clip_config(path)
    return path


def build(folder: Path, **changes: object) -> ClipEncoder:
    settings = {"origin": folder, "config": folder / "tiny.json", **changes}
    return clip_encoder.build(str(settings.pop("name", "tiny")), **settings)


def activations(encoder: ClipEncoder) -> set[type]:
    towers = (encoder.module.visual.transformer, encoder.module.transformer)
    return {type(block.mlp.gelu) for tower in towers for block in tower.resblocks}


def test_both_towers_are_open_clips_own(folder: Path) -> None:
    registered = set(open_clip.list_models())
    encoder = build(folder)
    model = small_models.clip()
    images, texts = pictures(3), ["a photo of the digit seven", "a photo of the letter Q"]
    mean = torch.tensor(open_clip.OPENAI_DATASET_MEAN)[:, None, None]
    std = torch.tensor(open_clip.OPENAI_DATASET_STD)[:, None, None]
    with torch.no_grad():
        expected = model.encode_image((images - mean) / std)
        tokens = open_clip.SimpleTokenizer(context_length=16)(texts)
        words = model.encode_text(tokens, normalize=True)
    assert torch.equal(encoder.embed(images), expected)
    assert torch.allclose(encoder.embed_texts(texts), words, atol=1e-6)
    assert torch.allclose(encoder.embed_texts(texts).norm(dim=1), torch.ones(2))
    assert encoder.embed_texts([]).shape == (0, 24)
    assert encoder.width == 24
    assert encoder.logit_scale == pytest.approx(1 / 0.07, rel=1e-5)
    assert activations(encoder) == {torch.nn.GELU}
    assert set(open_clip.list_models()) == registered  # no global state


def test_texts_do_not_depend_on_their_neighbours(folder: Path) -> None:
    encoder = build(folder)
    texts = [f"a photo of {i}" for i in range(70)]  # more than one batch
    whole = encoder.embed_texts(texts)
    assert whole.shape == (70, 24)
    assert torch.equal(encoder.embed_texts(texts[65:66])[0], whole[65])
    assert torch.equal(encoder.embed_texts(texts[::-1]).flip(0), whole)


def test_images_have_the_same_bits_whatever_the_neighbours(folder: Path) -> None:
    encoder = build(folder)
    images = pictures(16)
    assert torch.equal(encoder.embed(images.flip(0)).flip(0), encoder.embed(images))


def test_preprocessing_and_description(folder: Path) -> None:
    encoder = build(folder)
    ours = encoder.preprocessing
    assert (ours.height, ours.width, ours.crop_pct) == (32, 32, 1.0)
    assert (ours.interpolation, ours.resize_mode) == ("bicubic", "shortest")
    assert ours.mean == open_clip.OPENAI_DATASET_MEAN
    other = build(folder, preprocessing_override={"std": [1, 1, 1]})
    assert other.preprocessing.std == (1.0, 1.0, 1.0)
    text = json.dumps(encoder.description)
    assert str(folder) not in text
    assert encoder.description["config"]["quick_gelu"] is False


def test_hub_form_of_a_config_brings_its_preprocessing(folder: Path, tmp_path: Path) -> None:
    content = {
        "model_cfg": CLIP_CONFIG,
        "preprocess_cfg": {"mean": [0.5] * 3, "resize_mode": "squash"},
    }
    (tmp_path / "open_clip_config.json").write_text(json.dumps(content))
    ours = build(folder, config=tmp_path / "open_clip_config.json").preprocessing
    assert ours.mean == (0.5, 0.5, 0.5)
    assert ours.resize_mode == "squash"


def test_quick_gelu_by_every_sign(folder: Path, tmp_path: Path) -> None:
    state = small_models.clip().state_dict()
    assert activations(build(folder, quick_gelu=True)) == {QUICK}
    # the config says so
    small_models.clip_config(tmp_path, quick_gelu=True)
    assert activations(build(folder, config=tmp_path / "tiny.json")) == {QUICK}
    assert activations(build(folder, config=tmp_path / "tiny.json", quick_gelu=False)) == {
        torch.nn.GELU
    }
    # the file's or its folder's name says so
    for name in ("clip_openai.safetensors", "vit_b.openai/open_clip_model.safetensors"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        save_file(state, path)
        assert activations(build(folder, origin=path)) == {QUICK}
    # OpenAI's own settings are in the file
    marks = {key: torch.tensor(32) for key in ("input_resolution", "context_length", "vocab_size")}
    torch.save({**state, **marks}, tmp_path / "ViT-B-32.pt")
    assert activations(build(folder, origin=tmp_path / "ViT-B-32.pt")) == {QUICK}
    with pytest.raises(ModelError, match="quick_gelu: expected auto"):
        build(folder, quick_gelu="yes")


def test_quick_gelu_by_tag_and_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """open_clip's record of the tag, and names in -quickgelu: a small model under real names."""
    configs = {"ViT-B-32": CLIP_CONFIG, "ViT-B-32-quickgelu": {**CLIP_CONFIG, "quick_gelu": True}}
    assert open_clip.get_model_config("ViT-B-32-quickgelu")["quick_gelu"] is True
    monkeypatch.setattr(open_clip, "get_model_config", lambda name: copy.deepcopy(configs[name]))
    save_file(small_models.clip().state_dict(), tmp_path / "w.safetensors")

    def of(name: str, tag: str | None) -> set[type]:
        return activations(clip_encoder.build(name, origin=tmp_path, pretrained=tag))

    assert of("ViT-B-32", "openai") == {QUICK}
    assert of("ViT-B/32", "openai") == {QUICK}
    assert of("ViT-B-32", "laion2b_s34b_b79k") == {torch.nn.GELU}
    assert of("ViT-B-32", None) == {torch.nn.GELU}
    assert of("ViT-B-32-quickgelu", None) == {QUICK}
    encoder = clip_encoder.build("ViT-B-32", origin=tmp_path, pretrained="openai")
    assert encoder.preprocessing.mean == open_clip.OPENAI_DATASET_MEAN


def test_original_openai_file(folder: Path, tmp_path: Path) -> None:
    """TorchScript, half precision, settings among the weights: as OpenAI published them."""
    model = small_models.clip(quick_gelu=True).half().float()  # values that half precision holds
    model.output_dict = False
    for key in ("input_resolution", "context_length", "vocab_size"):
        vars(model).pop(key, None)
        model.register_buffer(key, torch.tensor(32))
    images = pictures(2)
    mean = torch.tensor(open_clip.OPENAI_DATASET_MEAN)[:, None, None]
    std = torch.tensor(open_clip.OPENAI_DATASET_STD)[:, None, None]
    with torch.no_grad():
        expected = model.encode_image((images - mean) / std)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tokens = torch.zeros((2, 16), dtype=torch.long)
        script = torch.jit.trace(model, (images, tokens), strict=False)
        torch.jit.save(script.half(), tmp_path / "ViT-B-32.pt")
    encoder = build(folder, origin=tmp_path / "ViT-B-32.pt")
    assert activations(encoder) == {QUICK}
    assert encoder.module.logit_scale.dtype == torch.float32
    assert torch.equal(encoder.embed(images), expected)


def test_strict(folder: Path, tmp_path: Path) -> None:
    state = small_models.clip().state_dict()
    missing = {key: tensor for key, tensor in state.items() if key != "ln_final.bias"}
    torch.save(missing, tmp_path / "w.pt")
    with pytest.raises(ModelError, match=r"w\.pt.*'tiny'.*1 keys missing: ln_final\.bias"):
        build(folder, origin=tmp_path)
    torch.save({**state, "extra": torch.ones(1)}, tmp_path / "w.pt")
    with pytest.raises(ModelError, match="1 keys unknown: extra"):
        build(folder, origin=tmp_path)
    torch.save({**state, "text_projection": torch.ones(3, 3)}, tmp_path / "w.pt")
    with pytest.raises(ModelError, match="not a checkpoint of") as error:
        build(folder, origin=tmp_path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", "not valid JSON"),
        ("[]", "must be a JSON object"),
        ('{"embed_dim": 3}', "lacks vision_cfg, text_cfg"),
        ('{"embed_dim": 3, "vision_cfg": 1, "text_cfg": {}}', "vision_cfg must be a JSON object"),
        ('{"embed_dim": 3, "vision_cfg": {"lairs": 1}, "text_cfg": {}}', "cannot be built.*lairs"),
    ],
)
def test_bad_configs(folder: Path, tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "c.json").write_text(text)
    with pytest.raises(ModelError, match=expected) as error:
        build(folder, config=tmp_path / "c.json")
    assert "\n" not in str(error.value)


def test_names_tags_and_weights(folder: Path, tmp_path: Path) -> None:
    for settings, expected in [
        ({"config": tmp_path / "none.json"}, "model config cannot be read"),
        ({"config": None, "name": "ViT-B-33"}, "no model 'ViT-B-33'.*did you mean 'ViT-B-32'"),
        ({"config": None, "name": "local-dir:x"}, "no model 'local-dir:x'"),
        ({"config": None, "name": "ViT-B-32", "pretrained": "openia"}, "did you mean 'openai'"),
        ({"origin": None}, "'tiny' has no weights"),
        ({"origin": tmp_path}, "holds no checkpoint"),
        ({"origin": tmp_path / "nowhere"}, "no such file or folder"),
    ]:
        with pytest.raises(ModelError, match=expected) as error:
            build(folder, **settings)
        assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["ViT-B-32", "hf-hub:laion/CLIP-ViT-B-32-laion2B-s34B-b79K"])
def test_hub_that_is_not_there_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], name: str
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ModelError) as error:
        clip_encoder.build(name, origin=tmp_path, pretrained=None if ":" in name else "openai")
    message = str(error.value)
    assert "\n" not in message
    assert "HF_HUB_OFFLINE is set" in message
    file = "open_clip_config.json" if ":" in name else "open_clip_model.safetensors"
    assert f"put it at {tmp_path / file}" in message
    assert "https://huggingface.co/" in message
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", ["ViT-B-32", "ViT-B-16-plus-240", "coca_ViT-B-32"])
def test_tokenizer_is_the_one_open_clip_picks(name: str) -> None:
    ours = clip_encoder._tokenizer(name, open_clip.get_model_config(name)["text_cfg"])
    texts = ["a photo of a cat", "UPPER & lower"]
    assert torch.equal(ours(texts), open_clip.get_tokenizer(name)(texts))
