"""open_clip models from local files: both towers, activation, preprocessing, error messages."""

import copy
import json

import open_clip
import pytest
import torch

from encoders import small_models
from encoders.small_models import CLIP_CONFIG, assert_model_error, pictures
from pipeline.encoders import clip_encoder
from pipeline.encoders.backbone import Backbone
from pipeline.encoders.preprocessing import Preprocessing

QUICK = open_clip.transformer.QuickGELU


def write_model(folder, state=None, name="w", **config):
    """Write weights and a config into a folder; return the folder."""
    folder.mkdir(exist_ok=True)
    torch.save(state or small_models.clip().state_dict(), folder / f"{name}.pt")
    (folder / "open_clip_config.json").write_text(json.dumps({**CLIP_CONFIG, **config}))
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("clip"))


def build(origin, name="tiny", **changes):
    return clip_encoder.build(Backbone(library="open_clip", name=name, origin=str(origin), **changes), "cpu")


def activations(encoder):
    towers = (encoder.module.visual.transformer, encoder.module.transformer)
    return {type(block.mlp.gelu) for tower in towers for block in tower.resblocks}


def open_clip_embedding(model, images):
    """Embed images in [0, 1] by open_clip itself."""
    mean = torch.tensor(open_clip.OPENAI_DATASET_MEAN)[:, None, None]
    std = torch.tensor(open_clip.OPENAI_DATASET_STD)[:, None, None]
    with torch.no_grad():
        return model.encode_image((images - mean) / std)


def test_embeddings_equal_those_of_open_clip(folder):
    registered = set(open_clip.list_models())
    encoder = build(folder)
    model = small_models.clip()
    images, texts = pictures(3), ["a photo of the digit seven", "a photo of the letter Q"]
    with torch.no_grad():
        expected = model.encode_text(open_clip.SimpleTokenizer(context_length=16)(texts), normalize=True)
    assert torch.equal(encoder.embed(images), open_clip_embedding(model, images))
    assert torch.allclose(encoder.embed_texts(texts), expected, atol=1e-6)
    assert torch.allclose(encoder.embed_texts(texts).norm(dim=1), torch.ones(2))
    assert encoder.width == 24
    assert encoder.logit_scale == pytest.approx(1 / 0.07, rel=1e-5)
    assert activations(encoder) == {torch.nn.GELU}
    assert set(open_clip.list_models()) == registered  # the model is not registered globally


def test_texts_do_not_depend_on_their_neighbours(folder):
    encoder = build(folder)
    texts = [f"a photo of {i}" for i in range(70)]  # more than one batch
    whole = encoder.embed_texts(texts)
    assert whole.shape == (70, 24)
    assert torch.equal(encoder.embed_texts(texts[65:66])[0], whole[65])
    assert torch.equal(encoder.embed_texts(texts[::-1]).flip(0), whole)


def test_preprocessing_and_description(folder, tmp_path):
    encoder = build(folder)
    clip = (open_clip.OPENAI_DATASET_MEAN, open_clip.OPENAI_DATASET_STD)
    assert encoder.preprocessing == Preprocessing(32, 32, 1.0, "shortest", "bicubic", *clip)
    assert build(folder, preprocessing={"std": [1, 1, 1]}).preprocessing.std == (1.0, 1.0, 1.0)
    assert str(folder) not in json.dumps(encoder.description)
    assert encoder.description["config"]["quick_gelu"] is False
    # config as on the hub
    content = {"model_cfg": CLIP_CONFIG, "preprocess_cfg": {"mean": [0.5] * 3, "resize_mode": "squash"}}
    (write_model(tmp_path) / "open_clip_config.json").write_text(json.dumps(content))
    preprocessing = build(tmp_path).preprocessing
    assert (preprocessing.mean, preprocessing.resize_mode) == ((0.5, 0.5, 0.5), "squash")


MARKS = {key: torch.tensor(32) for key in ("input_resolution", "context_length", "vocab_size")}


@pytest.mark.parametrize(
    ("folder", "file", "marks", "config", "choice", "expected"),
    [
        ("plain", "w", {}, {}, "auto", torch.nn.GELU),
        ("plain", "w", {}, {}, True, QUICK),  # explicit
        ("clip_openai", "w", {}, {}, "auto", QUICK),
        ("plain", "vit_b.openai", {}, {}, "auto", QUICK),
        ("plain", "w", {}, {"quick_gelu": True}, "auto", QUICK),
        ("plain", "w", MARKS, {"quick_gelu": True}, False, torch.nn.GELU),
    ],
)
def test_quick_gelu_follows_choice_config_and_file_names(tmp_path, folder, file, marks, config, choice, expected):
    origin = write_model(tmp_path / folder, {**small_models.clip().state_dict(), **marks}, file, **config)
    assert activations(build(origin, quick_gelu=choice)) == {expected}


def test_quick_gelu_follows_tag_and_model_name(tmp_path, monkeypatch):
    """A small model is given real names and tags."""
    configs = {"ViT-B-32": CLIP_CONFIG, "ViT-B-32-quickgelu": {**CLIP_CONFIG, "quick_gelu": True}}
    assert open_clip.get_model_config("ViT-B-32-quickgelu")["quick_gelu"] is True
    monkeypatch.setattr(open_clip, "get_model_config", lambda name: copy.deepcopy(configs[name]))
    torch.save(small_models.clip().state_dict(), tmp_path / "w.pt")
    for name, tag, expected in (
        ("ViT-B-32", "openai", QUICK),
        ("ViT-B/32", "openai", QUICK),
        ("ViT-B-32", "laion2b_s34b_b79k", torch.nn.GELU),
        ("ViT-B-32", "", torch.nn.GELU),
        ("ViT-B-32-quickgelu", "", QUICK),
    ):
        encoder = build(tmp_path, name, pretrained=tag)
        assert activations(encoder) == {expected}
        assert encoder.preprocessing.mean == open_clip.OPENAI_DATASET_MEAN


def test_state_dict_of_an_original_openai_file_is_loaded(tmp_path):
    """OpenAI's files have weights in half precision and settings among them."""
    model = small_models.clip(quick_gelu=True).half().float()  # values representable in half precision
    state = {key: tensor.half() for key, tensor in model.state_dict().items()}
    encoder = build(write_model(tmp_path, {**state, **MARKS}))
    assert activations(encoder) == {QUICK}
    assert encoder.module.logit_scale.dtype == torch.float32
    assert torch.equal(encoder.embed(pictures(2)), open_clip_embedding(model, pictures(2)))


def test_a_missing_key_is_an_error(tmp_path):
    state = small_models.clip().state_dict()
    del state["ln_final.bias"]
    assert_model_error(r"w\.pt.*'tiny'.*1 key missing: ln_final\.bias", build, write_model(tmp_path, state))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", "not valid JSON"),
        ("[]", "must be a JSON object"),
        ('{"embed_dim": 3}', "vision_cfg is missing"),
        ('{"embed_dim": 3, "vision_cfg": 1, "text_cfg": {}}', "vision_cfg is missing"),
        ('{"embed_dim": 3, "vision_cfg": {"lairs": 1}, "text_cfg": {}}', "cannot be built.*lairs"),
    ],
)
def test_a_bad_config_is_a_one_line_error(tmp_path, text, expected):
    (write_model(tmp_path) / "open_clip_config.json").write_text(text)
    assert_model_error(expected, build, tmp_path)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"name": "ViT-B-33"}, "no model 'ViT-B-33'.*did you mean 'ViT-B-32'"),
        ({"name": "local-dir:x"}, "no model 'local-dir:x'"),
        ({"name": "ViT-B-32", "pretrained": "openia"}, "did you mean 'openai'"),
        ({"name": "ViT-B-32"}, r"holds no checkpoint.*pretrained \(openai"),
        ({"name": "ViT-B-32", "origin": "nowhere"}, "no such file or folder"),
    ],
)
def test_wrong_names_tags_and_origins_are_one_line_errors(tmp_path, changes, expected):
    assert_model_error(expected, build, changes.pop("origin", tmp_path), **changes)


@pytest.mark.parametrize("name", ["ViT-B-32", "hf-hub:laion/CLIP-ViT-B-32-laion2B-s34B-b79K"])
def test_an_unreachable_hub_is_a_one_line_error(tmp_path, monkeypatch, capfd, name):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    message = assert_model_error(
        "HF_HUB_OFFLINE is set", build, tmp_path, name=name, pretrained="" if ":" in name else "openai"
    )
    file = "open_clip_config.json" if ":" in name else "open_clip_model.safetensors"
    assert f"put it at {tmp_path / file}" in message
    assert "https://huggingface.co/" in message
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", ["ViT-B-32", "ViT-B-16-plus-240", "coca_ViT-B-32"])
def test_tokenizer_equals_that_of_open_clip(name):
    tokenizer = clip_encoder._tokenizer(name, open_clip.get_model_config(name)["text_cfg"])
    texts = ["a photo of a cat", "UPPER & lower"]
    assert torch.equal(tokenizer(texts), open_clip.get_tokenizer(name)(texts))
