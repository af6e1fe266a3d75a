"""The picture of the views: panels, informative captions, nothing cut off."""

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from pipeline.method.frequency_views import ViewSettings
from pipeline.method.views import VIEWS
from pipeline.report.view_picture import draw_views

DIGEST = bytes(range(32))


def crop(h, w):
    ramp = np.linspace(0, 255, h * w * 3).reshape(h, w, 3)
    return (ramp + np.random.default_rng(0).normal(0, 20, ramp.shape)).clip(0, 255).astype(np.uint8)


def panels(figure):
    return {axis.get_title(): axis.images[0].get_array() for axis in figure.axes}


@pytest.mark.parametrize("size", [(32, 32), (224, 224), (33, 75), (300, 60)])
@pytest.mark.parametrize("noise", ["matched", 0.1])
def test_panels_and_captions_are_neither_cut_off_nor_overlapping(size, noise):
    figure = draw_views(crop(*size), DIGEST, ViewSettings("db2", 2, noise, seed=3))
    assert list(panels(figure)) == [*VIEWS, "removed"]
    caption = figure.get_suptitle()
    for text in ("db2", "2 levels", f"noise {noise}", "seed 3", "% of the energy"):
        assert text in caption
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    drawn = [part for axis in figure.axes for part in (axis.title, axis.xaxis.label, axis)]
    boxes = [part.get_window_extent(renderer) for part in (figure._suptitle, *drawn)]
    for i, box in enumerate(boxes):
        assert min(box.x0, box.y0) >= 0
        assert box.x1 <= figure.bbox.x1
        assert box.y1 <= figure.bbox.y1
        assert not any(box.overlaps(other) for other in boxes[:i])


def test_panels_hold_the_views():
    pixels = crop(16, 16)
    shown = panels(draw_views(pixels, DIGEST, ViewSettings()))
    np.testing.assert_allclose(shown["original"], pixels / 255, atol=1e-6)
    blocks = pixels.reshape(8, 2, 8, 2, 3).mean(axis=(1, 3)) / 255  # Haar's LL: means of 2×2
    np.testing.assert_allclose(shown["zeros"][::2, ::2], blocks, atol=1e-6)
    assert not np.allclose(shown["rand"], shown["zeros"])
    assert shown["removed"].max() == pytest.approx(1)


@pytest.mark.parametrize("grey", [0, 90, 255])
def test_a_blank_crop_has_nothing_removed(grey):
    figure = draw_views(np.full((32, 32, 3), grey, np.uint8), DIGEST, ViewSettings())
    assert panels(figure)["removed"].max() == 0
    assert "removed: 0" in figure.get_suptitle()
