"""Fixtures: tiny models and small images."""

import pytest

from pipeline.encoders.backbone import Backbone
from small_project import VIT_KWARGS, draw_image, write_tiny_weights


@pytest.fixture(scope="session")
def weights(tmp_path_factory):
    """Folder with random weights of a tiny ViT and a tiny CLIP."""
    folder = tmp_path_factory.mktemp("weights")
    write_tiny_weights(folder)
    return folder


@pytest.fixture
def vit(weights):
    return Backbone(library="timm", name="vit_tiny_patch16_224", origin=str(weights / "vit"), kwargs=VIT_KWARGS)


@pytest.fixture(scope="session")
def photos(tmp_path_factory):
    """Twenty-one small images; the last is a copy of the first."""
    folder = tmp_path_factory.mktemp("photos")
    paths = [folder / f"{i:02}.png" for i in range(21)]
    for i, path in enumerate(paths):
        draw_image(path, i % 20)
    return paths
