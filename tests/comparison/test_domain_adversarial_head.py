"""Test DANN on a head: the reversed gradient and the discriminator."""

import math
from dataclasses import replace

import pytest
import torch

from comparison.head_cases import WIDTH, drawn, rows_of, seeded, shifted_seed, small_head, whole_batch
from pipeline.comparison.heads.domain_adversarial import DomainAdversarial, adversarial_strength, domain_loss
from pipeline.comparison.heads.training import FineTuning, GrowingHead, head_tasks, new_head, train


def slope(loss, tensor, index, step=1e-6):
    """Return the derivative of loss() with respect to one number of a tensor, by central differences."""
    with torch.no_grad():
        tensor[index] += step
        loss_above = loss().item()
        tensor[index] -= 2 * step
        loss_below = loss().item()
        tensor[index] += step
    return (loss_above - loss_below) / (2 * step)


@pytest.mark.parametrize("progress", [0.0, 0.1, 0.9])
def test_the_gradient_is_reversed_only_at_the_features(progress):
    head, y = small_head(), torch.tensor([0, 1, 2, 1, 0])
    rows = rows_of(drawn(5, 4), y, first=0, classes_seen=3, target=drawn(5, 4, seed=8) + 1)
    method = seeded(DomainAdversarial())
    method.begin_task(head, rows)
    method.discriminator = discriminator = GrowingHead(
        {name: p.detach().double().requires_grad_() for name, p in method.discriminator.parameters.items()}
    )
    hidden, output = head.parameters["hidden_weight"], head.parameters["output_weight"]
    inner, batch = discriminator.parameters["hidden_weight"], whole_batch(rows, progress)
    by_hidden, by_output, by_inner = torch.autograd.grad(method.loss(head, rows, batch), [hidden, output, inner])

    def class_loss():
        return FineTuning().loss(head, rows, batch)

    def adversarial_loss():
        return domain_loss(discriminator, head.hidden(rows.x), head.hidden(rows.target))

    strength = adversarial_strength(progress)
    for i in range(5):
        for j in range(4):
            expected = slope(class_loss, hidden, (i, j)) - strength * slope(adversarial_loss, hidden, (i, j))
            assert by_hidden[i, j].item() == pytest.approx(expected, abs=1e-6)
            assert by_inner[i, j].item() == pytest.approx(slope(adversarial_loss, inner, (i, j)), abs=1e-6)
        assert by_output[0, i].item() == pytest.approx(slope(class_loss, output, (0, i)), abs=1e-6)
    assert max(abs(slope(adversarial_loss, hidden, (i, 0))) for i in range(5)) > 1e-3


def test_the_schedules_match_the_paper():
    assert adversarial_strength(0.0) == 0.0
    assert adversarial_strength(0.5) == pytest.approx(2 / (1 + math.exp(-5)) - 1)
    assert 0.999 < adversarial_strength(1.0) < 1.0
    rate = DomainAdversarial().learning_rate(DomainAdversarial.training, 0.5)
    assert rate == pytest.approx(0.01 / (1 + 10 * 0.5) ** 0.75)


def test_the_target_is_the_discriminators_positive_class():
    generator = torch.Generator().manual_seed(0)
    discriminator = new_head(3, generator).grown(1, generator)
    source, target = drawn(4, 3, dtype=torch.float32), drawn(6, 3, seed=1, dtype=torch.float32)
    p_source, p_target = (discriminator.logits(z).sigmoid() for z in (source, target))
    expected = -(1 - p_source).log().mean() - p_target.log().mean()
    torch.testing.assert_close(domain_loss(discriminator, source, target), expected)


def test_the_discriminator_is_trained_with_the_head_and_kept_for_the_next_task():
    method = seeded(DomainAdversarial())
    task, second, *_ = head_tasks(shifted_seed()[0])
    head = new_head(WIDTH, method.generator).grown(2, method.generator)
    method.begin_task(head, task)
    before = {name: tensor.clone() for name, tensor in method.discriminator.parameters.items()}
    train(method, head, task, replace(method.training, steps=2))
    assert not any(torch.equal(before[name], tensor) for name, tensor in method.discriminator.parameters.items())
    trained = method.discriminator
    method.begin_task(head.grown(2, method.generator), second)
    assert method.discriminator is trained
