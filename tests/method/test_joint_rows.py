"""CLIP's image embedding beside the vision model's in the kernel."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from pipeline.errors import InputError
from pipeline.method.adaptation import TargetTask, run_problem
from pipeline.method.adversarial_refinement import JointConstant, SourceBranch
from pipeline.method.joint_rows import JointRows, kernel_features
from pipeline.method.random_fourier_features import deviation, draw_basis, draw_ensemble
from pipeline.method.source_model import fit_source
from pipeline.method.variants import variant
from shifted_problem import SCALE, TASKS, Problem


def unit(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def rows(seed, n=40, d=6, d_clip=4):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)), rng.normal(size=(n, d_clip))


def test_the_kernel_is_the_printed_one():
    g, c = rows(0)
    gamma, share = 0.3, 0.5
    basis = draw_basis(6, 200_000, gamma, "gamma", 0, d_clip=4)
    features = kernel_features(basis, {"original": g[:8]}, c[:8], share)
    z = features.of("original", np.arange(8)).astype(np.float64) + basis.pivot
    for i in range(8):
        for j in range(8):
            apart = ((unit(g)[i] - unit(g)[j]) ** 2).sum()
            apart += share**2 * ((unit(c)[i] - unit(c)[j]) ** 2).sum()
            assert z[i] @ z[j] == pytest.approx(np.exp(-gamma * apart / (1 + share**2)), abs=0.01)


def test_without_a_share_or_without_rows_it_is_vision_alone():
    g, c = rows(1)
    basis = draw_basis(6, 30, 0.3, "gamma", 0, d_clip=4)
    plain = deviation(draw_basis(6, 30, 0.3, "gamma", 0), g)
    for clip, share in ((c, 0.0), (None, 0.5)):
        features = kernel_features(basis, {"original": g}, clip, share)
        np.testing.assert_array_equal(features.of("original", np.arange(40)), plain)
    joint = kernel_features(basis, {"original": g}, c, 0.5).of("original", np.arange(40))
    assert np.abs(joint - plain).max() > 0.01


def test_every_kind_of_basis_keeps_the_clip_part():
    whole = draw_ensemble(6, 30, 0.3, "gamma", 0, members=2, d_clip=4)
    first = draw_basis(6, 30, 0.3, "gamma", 0, d_clip=4)
    np.testing.assert_array_equal(whole.member(0).clip, first.clip)
    np.testing.assert_array_equal(first.nested(7).joint().omega, first.joint().omega[:, :7])
    with pytest.raises(InputError, match="no frequencies for CLIP"):
        draw_basis(6, 30, 0.3, "gamma", 0).joint()


def test_rows_of_other_images_are_refused_and_subsets_are_subsets():
    g, c = rows(2)
    with pytest.raises(InputError, match="40 vision and 39 CLIP rows"):
        JointRows(g, c[:39], 0.5)
    some = np.array([3, 5, 30])
    both = JointRows(g, c, 0.5)
    np.testing.assert_array_equal(both.subset(some)[np.arange(3)], both[some])
    assert both.shape == (40, 10)


def test_a_telling_clip_embedding_helps_and_a_useless_one_is_survived():
    problem = Problem(9, D=60, n=140)
    basis = draw_basis(10, 60, 1.0, "bandwidth", 9, d_clip=7)
    rng = np.random.default_rng(0)

    def accuracy(strength):
        options = replace(variant("no_clip"), clip_in_kernel=1.0)
        source_clip = strength * np.eye(7)[problem.source_y] + rng.normal(size=(140, 7))
        clip = strength * np.eye(7)[problem.y] + rng.normal(size=(140, 7))
        sources = fit_source(
            basis, problem.source_views, problem.source_y, TASKS, options, clip=source_clip
        )
        tasks = [
            TargetTask(t.classes, t.views, t.cosines, clip[np.isin(problem.y, t.classes)])
            for t in problem.tasks()
        ]
        adapted = run_problem(basis, tasks, sources, options, SCALE)
        right = [
            a.labels.label == problem.y[np.isin(problem.y, t.classes)]
            for a, t in zip(adapted, tasks, strict=True)
        ]
        return np.mean(np.concatenate(right))

    assert accuracy(10.0) > max(accuracy(0.0), 0.95)
    assert accuracy(0.0) > 0.5


def test_refinement_sees_the_same_joint_features():
    g, c = rows(3)
    basis = draw_basis(6, 30, 0.3, "gamma", 0, d_clip=4)
    labels = np.arange(40) % 3
    options = replace(variant("calibrated"), views=("original",))
    (source,) = fit_source(basis, {"original": g}, labels, [np.arange(3)], options, clip=c)
    branch = SourceBranch(basis, source.classifier, np.arange(3), JointConstant(basis, c, 0.5))
    images = torch.arange(40)
    features = kernel_features(basis, {"original": g}, c, 0.5).of("original", np.arange(40))
    np.testing.assert_allclose(
        branch.deviation(torch.from_numpy(g), images).numpy(), features, atol=1e-6
    )
    places = torch.stack([torch.from_numpy(labels), images], dim=1)
    np.testing.assert_allclose(
        branch.log_odds(torch.from_numpy(g)[5:9], places[5:9]).numpy(),
        branch.log_odds(torch.from_numpy(g), places).numpy()[5:9],
        rtol=1e-9,
    )
    with pytest.raises(InputError, match="which images"):
        branch.scores(torch.from_numpy(g))
