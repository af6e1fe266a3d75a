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


def loss(branch, positions):
    return lambda embeddings: softplus(branch.log_odds(embeddings, positions))


def log_odds(branch, positions):
    return lambda embeddings: branch.log_odds(embeddings, positions)


@pytest.mark.parametrize("d_clip", [0, 3])
@pytest.mark.parametrize("sigma", [1e-4, 1.0])
def test_deviations_and_scores_equal_the_numpy_path(sigma, d_clip):
    """With CLIP in the kernel, positions also hold the row numbers of the images."""
    rng, (_, classifier, *_) = np.random.default_rng(3), model()
    basis = draw_basis(4, D, sigma, "gamma", 0, d_clip=d_clip)
    x, clip = rng.normal(size=(9, 4)).astype(np.float32), rng.normal(size=(9, d_clip)) if d_clip else None
    if not d_clip:
        x[4] = 0  # a zero row stays zero
    expected = joined_rows(basis, {"original": x}, clip, 0.5).deviations("original", np.arange(9))
    branch, index = SourceBranch(basis, classifier, CLASSES, clip, 0.5), torch.arange(9)
    found = branch.deviation(torch.from_numpy(x), index).numpy()
    np.testing.assert_allclose(found, expected, atol=1e-6 * np.abs(expected).max())
    scores = classifier.scores(expected)[:, CLASSES]
    found = branch.scores(torch.from_numpy(x), index).numpy()
    np.testing.assert_allclose(found, scores, atol=1e-5 * np.abs(scores).max())
    if d_clip:
        positions = torch.stack([index % 3, index], dim=1)
        batch, part = (branch.log_odds(torch.from_numpy(x)[i], positions[i]) for i in (slice(9), slice(5, 8)))
        torch.testing.assert_close(part, batch[5:8])
        with pytest.raises(InputError, match="row numbers of the images"):
            branch.scores(torch.from_numpy(x))


@pytest.mark.parametrize("objective_of", [loss, log_odds])
def test_gradients_and_steps_equal_the_oracles(objective_of):
    """The gradient of the log-odds is that of the loss up to a positive factor."""
    basis, classifier, projection, forward = model()
    W, b = classifier.W[:, CLASSES], classifier.b[CLASSES]
    pictures, objective = images(3), objective_of(SourceBranch(basis, classifier, CLASSES), LABELS[:3])
    found = pixel_gradient(pictures, forward, objective).flatten(1).numpy()
    refined = ascend(pictures, forward, objective, Ascent(4, 0.03, 0.08)).flatten(1)
    for i, pixels in enumerate(pictures.flatten(1).tolist()):
        model_arrays = {"omega": basis.omega, "beta": basis.beta, "W": W, "b": b}
        oracle_loss = partial(oracle.loss, projection=projection.numpy(), label=int(LABELS[i]), **model_arrays)
        slopes = oracle.gradient(oracle_loss, pixels)
        unit = np.array(slopes) / np.linalg.norm(slopes)
        np.testing.assert_allclose(found[i] / np.linalg.norm(found[i]), unit, atol=1e-6)
        if objective_of is loss:
            np.testing.assert_allclose(found[i], slopes, rtol=1e-5)
        expected = oracle.ascend(oracle_loss, pixels, steps=4, step_size=0.03, radius=0.08)
        np.testing.assert_allclose(refined[i].numpy(), expected, atol=1e-9)


@pytest.mark.parametrize("radius", [0.004, 0.3, 5.0])
def test_pixels_stay_within_the_radius_and_0_to_1_and_no_steps_change_nothing(radius):
    basis, classifier, _, forward = model()
    objective, pictures = loss(SourceBranch(basis, classifier, CLASSES), LABELS), images(dtype=torch.float32)
    before = pictures.clone()
    assert torch.equal(ascend(pictures, forward, objective, Ascent(0, 0.2, radius)), before)
    refined = ascend(pictures, forward, objective, Ascent(9, 0.2, radius))
    assert torch.equal(pictures, before)  # the input is not modified
    assert refined.dtype == torch.float32
    assert 0 <= refined.min() <= refined.max() <= 1
    assert (refined - pictures).abs().max() <= radius + 1e-6
    assert not torch.equal(refined, pictures)


def test_an_image_with_a_confident_label_still_moves_in_float32():
    """The gradient of the loss itself vanishes; that of the log-odds has the same direction."""
    basis, classifier, _, forward = model()
    pictures = images(dtype=torch.float32)
    branch = SourceBranch(basis, classifier, CLASSES)
    positions = branch.scores(forward(pictures)).argmax(dim=1)
    factor = -1000 / float(branch.log_odds(forward(pictures), positions).max())
    confident = SourceBranch(basis, Classifier(factor * classifier.W, factor * classifier.b), CLASSES)
    assert not pixel_gradient(pictures, forward, loss(confident, positions)).any()
    gradient = pixel_gradient(pictures, forward, log_odds(confident, positions))
    assert torch.isfinite(gradient).all()
    assert (gradient.abs().amax(dim=(1, 2, 3)) > 1).all()


def test_views_of_a_task_with_a_single_class_are_unchanged():
    basis, classifier, _, forward = model()
    objective = log_odds(SourceBranch(basis, classifier, CLASSES[:1]), torch.zeros(7, dtype=torch.long))
    assert torch.equal(ascend(images(), forward, objective, Ascent(3, 0.1, 0.1)), images())
