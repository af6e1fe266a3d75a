from functools import partial

import numpy as np
import pytest
import torch
from torch.nn.functional import softplus

from pipeline.errors import InputError
from pipeline.method.adversarial_refinement import Ascent, SourceBranch, ascend, pixel_gradient
from pipeline.method.kernel_lda import Classifier
from pipeline.method.kernel_rows import joined_rows
from pipeline.method.random_fourier_features import draw_basis
from reference import adversarial_refinement as oracle

D, SIZE, PIXELS = 12, (1, 2, 3), 6
CLASSES = np.array([1, 2, 4])
LABELS = torch.arange(7) % 3


def model():
    rng = np.random.default_rng(0)
    basis = draw_basis(4, D, 1.0, "gamma", seed=0)
    classifier = Classifier(20 * rng.normal(size=(D, 5)), rng.normal(size=5))
    projection = torch.from_numpy(rng.normal(size=(4, PIXELS)))

    def forward(images):
        return images.flatten(1) @ projection.T.to(images)

    return basis, classifier, projection, forward


def images(n=7, dtype=torch.float64):
    generator = torch.Generator().manual_seed(1)
    return torch.rand((n, *SIZE), generator=generator, dtype=dtype)


def labelled_loss(branch, positions):
    return lambda embeddings: softplus(branch.log_odds(embeddings, positions))


def labelled_odds(branch, positions):
    return lambda embeddings: branch.log_odds(embeddings, positions)


@pytest.mark.parametrize("d_clip", [0, 3])
@pytest.mark.parametrize("sigma", [1e-4, 1.0])
def test_deviation_and_scores_are_those_of_the_numpy_path(sigma, d_clip):
    """Also where CLIP is in the kernel: the positions of labels then say which images they are of."""
    rng, (_, classifier, *_) = np.random.default_rng(3), model()
    basis = draw_basis(4, D, sigma, "gamma", 0, d_clip=d_clip)
    x, clip = rng.normal(size=(9, 4)).astype(np.float32), rng.normal(size=(9, d_clip)) if d_clip else None
    if not d_clip:
        x[4] = 0  # a zero row stays zero
    expected = joined_rows(basis, {"original": x}, clip, 0.5).deviations("original", np.arange(9))
    branch, which = SourceBranch(basis, classifier, CLASSES, clip, 0.5), torch.arange(9)
    ours = branch.deviation(torch.from_numpy(x), which).numpy()
    np.testing.assert_allclose(ours, expected, atol=1e-6 * np.abs(expected).max())
    scores = classifier.scores(expected)[:, CLASSES]
    found = branch.scores(torch.from_numpy(x), which).numpy()
    np.testing.assert_allclose(found, scores, atol=1e-5 * np.abs(scores).max())
    if d_clip:
        positions = torch.stack([which % 3, which], dim=1)
        every, some = (branch.log_odds(torch.from_numpy(x)[i], positions[i]) for i in (slice(9), slice(5, 8)))
        torch.testing.assert_close(some, every[5:8])
        with pytest.raises(InputError, match="which images"):
            branch.scores(torch.from_numpy(x))


@pytest.mark.parametrize("height", [labelled_loss, labelled_odds])
def test_gradient_and_steps_are_those_of_the_oracle(height):
    """Of the log-odds up to a positive factor."""
    basis, classifier, projection, forward = model()
    W, b = classifier.W[:, CLASSES], classifier.b[CLASSES]
    pictures, climb = images(3), height(SourceBranch(basis, classifier, CLASSES), LABELS[:3])
    found = pixel_gradient(pictures, forward, climb).flatten(1).numpy()
    refined = ascend(pictures, forward, climb, Ascent(4, 0.03, 0.08)).flatten(1)
    for i, pixels in enumerate(pictures.flatten(1).tolist()):
        given = {"omega": basis.omega, "beta": basis.beta, "W": W, "b": b, "label": int(LABELS[i])}
        loss = partial(oracle.loss, projection=projection.numpy(), **given)
        slopes = oracle.gradient(loss, pixels)
        unit = np.array(slopes) / np.linalg.norm(slopes)
        np.testing.assert_allclose(found[i] / np.linalg.norm(found[i]), unit, atol=1e-6)
        if height is labelled_loss:
            np.testing.assert_allclose(found[i], slopes, rtol=1e-5)
        expected = oracle.ascend(loss, pixels, steps=4, step_size=0.03, radius=0.08)
        np.testing.assert_allclose(refined[i].numpy(), expected, atol=1e-9)


@pytest.mark.parametrize("radius", [0.004, 0.3, 5.0])
def test_the_ball_and_the_range_of_pixels_hold_and_no_steps_return_the_input_bit_for_bit(radius):
    basis, classifier, _, forward = model()
    climb, pictures = labelled_loss(SourceBranch(basis, classifier, CLASSES), LABELS), images(dtype=torch.float32)
    before = pictures.clone()
    assert torch.equal(ascend(pictures, forward, climb, Ascent(0, 0.2, radius)), before)
    refined = ascend(pictures, forward, climb, Ascent(9, 0.2, radius))
    assert torch.equal(pictures, before)  # steps leave the input alone
    assert refined.dtype == torch.float32
    assert 0 <= refined.min() <= refined.max() <= 1
    assert (refined - pictures).abs().max() <= radius + 1e-6
    assert not torch.equal(refined, pictures)


def test_a_sure_image_still_moves_in_float32():
    """Climbing the loss itself, its gradient would vanish: the log-odds rise in the same direction."""
    basis, classifier, _, forward = model()
    pictures = images(dtype=torch.float32)
    unsure = SourceBranch(basis, classifier, CLASSES)
    positions = unsure.scores(forward(pictures)).argmax(dim=1)
    factor = -1000 / float(unsure.log_odds(forward(pictures), positions).max())
    sure = SourceBranch(basis, Classifier(factor * classifier.W, factor * classifier.b), CLASSES)
    assert not pixel_gradient(pictures, forward, labelled_loss(sure, positions)).any()
    gradient = pixel_gradient(pictures, forward, labelled_odds(sure, positions))
    assert torch.isfinite(gradient).all()
    assert (gradient.abs().amax(dim=(1, 2, 3)) > 1).all()


def test_a_single_class_leaves_the_views_alone():
    basis, classifier, _, forward = model()
    odds = labelled_odds(SourceBranch(basis, classifier, CLASSES[:1]), torch.zeros(7, dtype=torch.long))
    assert torch.equal(ascend(images(), forward, odds, Ascent(3, 0.1, 0.1)), images())
