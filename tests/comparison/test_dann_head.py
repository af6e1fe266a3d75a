"""DANN on a head: the reversed gradient, the discriminator, and that features become alike."""

import math

import pytest
import torch

from comparison.head_cases import WIDTH, drawn, shifted_problem, small_head, some_rows, whole_batch
from pipeline.comparison.head_training.domain_discriminator import (
    DomainDiscriminator,
    adversarial_strength,
    reversed_gradient,
)
from pipeline.comparison.head_training.growing_head import new_head
from pipeline.comparison.head_training.optimisers import AnnealedMomentum
from pipeline.comparison.head_training.task_rows import tasks_of
from pipeline.comparison.head_training.training_loop import FineTuning, Training, train
from pipeline.comparison.methods import dann_head


def dann_case(progress):
    """Return DANN in double precision, its head, some rows and the batch of all of them."""
    head, x = small_head(), drawn(5, 4)
    rows = some_rows(
        x, torch.tensor([0, 1, 2, 1, 0]), first=0, seen=3, target=drawn(5, 4, seed=8) + 1
    )
    method = dann_head.DomainAdversarial()
    method.begin_task(head, rows, torch.Generator().manual_seed(0))
    method.discriminator.parameters = [
        p.detach().double().requires_grad_() for p in method.discriminator.parameters
    ]
    return method, head, rows, whole_batch(rows, progress)


def slope(loss, tensor, index, step=1e-6):
    """Return the derivative of loss() by one number of a tensor, by central differences."""
    with torch.no_grad():
        tensor[index] += step
        above = loss().item()
        tensor[index] -= 2 * step
        below = loss().item()
        tensor[index] += step
    return (above - below) / (2 * step)


@pytest.mark.parametrize("progress", [0.0, 0.1, 0.9])
def test_dann_reverses_the_gradient_at_the_features_and_nowhere_else(progress):
    method, head, rows, batch = dann_case(progress)
    strength = adversarial_strength(progress)
    hidden, output = head.parameters["hidden_weight"], head.parameters["output_weight"]
    inner = method.discriminator.parameters[0]
    gradients = torch.autograd.grad(method.loss(head, rows, batch), [hidden, output, inner])

    def task():
        return FineTuning().loss(head, rows, batch)

    def domain():
        return method.discriminator.loss(head.hidden(rows.x), head.hidden(rows.target))

    for i in range(5):
        for j in range(4):
            wanted = slope(task, hidden, (i, j)) - strength * slope(domain, hidden, (i, j))
            assert gradients[0][i, j].item() == pytest.approx(wanted, abs=1e-6)
            assert gradients[2][i, j].item() == pytest.approx(
                slope(domain, inner, (i, j)), abs=1e-6
            )
        assert gradients[1][0, i].item() == pytest.approx(slope(task, output, (0, i)), abs=1e-6)
    assert max(abs(slope(domain, hidden, (i, 0))) for i in range(5)) > 1e-3


def test_the_reversal_changes_no_value():
    z = drawn(4, 3).requires_grad_()
    torch.testing.assert_close(reversed_gradient(z, 0.7), z)
    (gradient,) = torch.autograd.grad(reversed_gradient(z, 0.7).sum(), [z])
    torch.testing.assert_close(gradient, torch.full((4, 3), -0.7, dtype=torch.float64))


def test_the_adversary_is_faded_in():
    assert adversarial_strength(0.0) == 0.0
    assert adversarial_strength(0.5) == pytest.approx(2 / (1 + math.exp(-5)) - 1)
    assert 0.999 < adversarial_strength(1.0) < 1.0


def test_the_discriminator_calls_the_target_positive():
    discriminator = DomainDiscriminator(3, torch.Generator().manual_seed(0))
    source, target = drawn(4, 3, dtype=torch.float32), drawn(6, 3, seed=1, dtype=torch.float32)
    p_source = discriminator.logit(source).sigmoid()
    p_target = discriminator.logit(target).sigmoid()
    expected = -(1 - p_source).log().mean() - p_target.log().mean()
    torch.testing.assert_close(discriminator.loss(source, target), expected)


def test_dann_makes_the_domains_features_alike():
    """The same training without an adversary leaves a larger distance between the domains' hidden layers."""
    problem, _ = shifted_problem(shift=0.5)
    gaps = []
    for method in (Unadversarial(), dann_head.DomainAdversarial()):
        task = next(iter(tasks_of(problem)))
        generator = torch.Generator().manual_seed(0)
        head = new_head(WIDTH, generator).grown(2, generator)
        method.begin_task(head, task, generator)
        train(method, head, task, generator, Training(steps=300))
        z = [head.hidden(x).detach() for x in (task.x, task.target)]
        gaps.append(((z[0].mean(dim=0) - z[1].mean(dim=0)).norm() / z[0].std()).item())
    assert gaps[1] < 0.8 * gaps[0]


class Unadversarial(FineTuning):
    def optimiser(self, parameters, how):
        return AnnealedMomentum(parameters, dann_head.RATE)
