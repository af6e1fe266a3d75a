"""EWC, SI, MAS and RWalk on a head: importances, penalties, and that they forget less."""

import pytest
import torch

from comparison.head_cases import (
    drawn,
    scores,
    shifted_problem,
    small_head,
    some_rows,
    strong,
    whole_batch,
)
from pipeline.comparison.head_training.anchored_penalty import Anchor, anchored
from pipeline.comparison.head_training.gradient_magnitudes import fisher, output_sensitivity
from pipeline.comparison.head_training.training_loop import (
    FineTuning,
    Step,
    Training,
    run_head,
    train,
)
from pipeline.comparison.methods import ewc_head, rwalk_head, si_head
from pipeline.comparison.methods.lwf_head import LearningWithoutForgetting
from pipeline.comparison.methods.mas_head import MemoryAwareSynapses

FORGETFUL = Training(rate=0.03)  # so fast that the second task overwrites the hidden layer


@pytest.mark.parametrize(
    "method",
    [
        strong(ewc_head.ElasticWeights(FORGETFUL), 1e4),
        strong(si_head.SynapticIntelligence(FORGETFUL), 1.0),
        strong(MemoryAwareSynapses(FORGETFUL), 1e-4),
        strong(rwalk_head.RiemannianWalk(FORGETFUL), 0.01),
        strong(LearningWithoutForgetting(FORGETFUL), 10.0),
    ],
    ids=["ewc", "si", "mas", "rwalk", "lwf"],
)
def test_forgets_less_than_a_head_without_regulariser(method):
    problem, labels = shifted_problem(noise=0.3, shift=0.0)
    _, plain = scores(run_head(problem, FineTuning(FORGETFUL)), labels)
    _, defended = scores(run_head(problem, method), labels)
    assert plain > 0.2
    assert defended < 0.6 * plain


def test_the_penalty_leaves_later_classes_free():
    head = small_head(classes=2)
    importance = {name: torch.ones_like(t) for name, t in head.frozen().parameters.items()}
    anchor = anchored(head, importance)
    assert anchor.penalty(head).item() == 0.0
    grown = head.grown(2, torch.Generator().manual_seed(0))
    assert anchor.penalty(grown).item() == pytest.approx(0.0)
    with torch.no_grad():
        grown.parameters["output_bias"][:] += 3.0  # two old ones, two new ones
        grown.parameters["hidden_weight"][0, 0] += 2.0
    assert anchor.penalty(grown).item() == pytest.approx(2 * 9.0 + 4.0)


def naive_fisher(head, x, own):
    """One row and one class at a time, by autograd: Σ_y p(y|x) (∂ log p(y|x))², the mean over rows."""
    total = {name: torch.zeros_like(t) for name, t in head.parameters.items()}
    for row in x:
        log_p = head.logits(row[None])[0, own].log_softmax(dim=0)
        for y in range(len(log_p)):
            gradients = torch.autograd.grad(
                log_p[y], list(head.parameters.values()), retain_graph=True
            )
            for name, gradient in zip(head.parameters, gradients, strict=True):
                total[name] += log_p[y].exp().detach() * gradient**2 / len(x)
    return total


@pytest.mark.parametrize("own", [slice(0, 3), slice(1, 3)])
def test_fisher_is_that_of_a_loop_over_rows_and_classes(own):
    head, x = small_head(), drawn(6, 4)
    ours, naive = fisher(head, x, own), naive_fisher(head, x, own)
    for name, expected in naive.items():
        torch.testing.assert_close(ours[name], expected)
    assert ours["hidden_weight"].max() > 0


def test_mas_importance_is_that_of_a_loop_over_rows():
    head, x = small_head(), drawn(6, 4)
    total = {name: torch.zeros_like(t) for name, t in head.parameters.items()}
    for row in x:
        norm = (head.logits(row[None]) ** 2).sum()
        gradients = torch.autograd.grad(norm, list(head.parameters.values()))
        for name, gradient in zip(head.parameters, gradients, strict=True):
            total[name] += gradient.abs() / len(x)
    for name, ours in output_sensitivity(head, x).items():
        torch.testing.assert_close(ours, total[name])


def test_mas_measures_importance_on_the_targets_rows_too():
    head, x = small_head(), drawn(6, 4)
    method = MemoryAwareSynapses()
    rows = some_rows(x[:2], torch.zeros(2, dtype=torch.int64), first=0, seen=3, target=x[2:])
    for times in (1, 2):  # importances add up over tasks
        method.end_task(head, rows, torch.Generator())
        for name, expected in output_sensitivity(head, x).items():
            torch.testing.assert_close(method.anchor.importance[name], times * expected)


def test_ewc_keeps_the_sum_of_the_tasks_penalties():
    first, second, third = (
        small_head(classes=2),
        small_head(classes=3),
        small_head(classes=4),
    )
    anchors = [
        Anchor(h.frozen().parameters, fisher(h, drawn(6, 4, seed=s), slice(0, h.classes)))
        for s, h in enumerate([first, second])
    ]
    with torch.no_grad():
        for number, head in enumerate([first, second, third]):
            for tensor in head.parameters.values():
                tensor.add_(drawn(*tensor.shape, seed=10 + number))
    merged = ewc_head.merged(*anchors)

    def both(head):
        return sum(anchor.penalty(head) for anchor in anchors).item()

    moved = third.frozen()
    moved.parameters["hidden_weight"] += 1.0
    moved.parameters["output_weight"] -= 0.5
    change = merged.penalty(moved).item() - merged.penalty(third).item()
    assert change == pytest.approx(both(moved) - both(third))
    assert abs(change) > 1e-3


def test_ewc_takes_the_penalty_at_half_its_strength():
    head = small_head()
    method = strong(ewc_head.ElasticWeights(), 6.0)
    x = drawn(6, 4)
    method.end_task(head, some_rows(x, torch.zeros(6), first=0, seen=3), torch.Generator())
    with torch.no_grad():
        head.parameters["output_bias"] += 2.0
    expected = 6.0 / 2 * 4.0 * fisher(head, x, slice(0, 3))["output_bias"].sum()
    assert method.penalty(head).item() == pytest.approx(expected.item())


def small_task(n=40):
    x = drawn(n, 4)
    return some_rows(x, (x[:, 0] > 0).long() + (x[:, 1] > 0).long(), first=0, seen=3)


def test_si_shares_out_the_fall_of_the_loss():
    """Eq. (2): over full batches and small steps the path integrals of all parameters sum to the loss's own fall."""
    head, rows = small_head(), small_task()
    method = si_head.SynapticIntelligence(Training(steps=400, rate=1e-3))
    start = head.frozen().parameters
    before = method.loss(head, rows, whole_batch(rows)).item()
    method.begin_task(head, rows, torch.Generator())
    train(method, head, rows, torch.Generator().manual_seed(0))
    fall = before - method.loss(head, rows, whole_batch(rows)).item()
    assert fall > 0.1
    assert sum(p.sum().item() for p in method.path.values()) == pytest.approx(fall, rel=0.02)

    method.path["output_bias"][0] = -1.0  # as if it had made the loss worse
    method.end_task(head, rows, torch.Generator())  # eq. (5)
    assert method.anchor.importance["output_bias"][0] == 0.0
    for name, path in method.path.items():
        way = head.parameters[name].detach() - start[name]
        expected = path.clamp(min=0) / (way**2 + 0.1)
        torch.testing.assert_close(method.anchor.importance[name], expected)


def test_the_path_integral_uses_the_gradient_without_the_penalty():
    seen = []

    class Pulled(FineTuning):
        def penalty(self, head):
            return 1e3 * sum((t**2).sum() for t in head.parameters.values())

        def after_step(self, head, rows, step):
            seen.append(step)

    head, rows = small_head(), small_task()
    method = Pulled(Training(steps=1))
    names, values = zip(*head.parameters.items(), strict=True)
    plain = torch.autograd.grad(method.loss(head, rows, whole_batch(rows)), values)
    start = head.frozen().parameters
    train(method, head, rows, torch.Generator().manual_seed(0))
    for name, gradient in zip(names, plain, strict=True):
        torch.testing.assert_close(seen[0].gradient[name], gradient)
        torch.testing.assert_close(seen[0].before[name], start[name])
        pulled = head.parameters[name].detach() - start[name]
        assert (pulled * start[name] <= 0).all()  # but the step is taken with it


def test_rwalk_scores_intervals_as_its_equations_say(monkeypatch):
    monkeypatch.setattr(rwalk_head, "INTERVAL", 2)
    head, rows = small_head(), small_task()
    method = strong(rwalk_head.RiemannianWalk(), 3.0)
    method.begin_task(head, rows, torch.Generator())
    information = scores_ = fall = since = None
    for number in range(4):
        before = head.frozen().parameters
        gradient = {n: drawn(*t.shape, seed=number) for n, t in before.items()}
        since = before if number % 2 == 0 else since
        with torch.no_grad():
            for tensor in head.parameters.values():
                tensor.add_(0.1 * drawn(*tensor.shape, seed=20 + number))
        now = head.frozen().parameters
        share = {n: -gradient[n] * (now[n] - before[n]) for n in now}
        fall = share if number % 2 == 0 else {n: fall[n] + share[n] for n in now}
        method.after_step(head, rows, Step(whole_batch(rows), gradient, before))
        if number % 2:
            new = fisher(head, rows.x, rows.own)
            old = information or new
            information = {n: 0.9 * new[n] + 0.1 * old[n] for n in now}  # (6)
            term = {  # (7)
                n: (fall[n] / (information[n] * (now[n] - since[n]) ** 2 / 2 + 1e-3)).clamp(min=0)
                for n in now
            }
            scores_ = term if scores_ is None else {n: scores_[n] + term[n] for n in now}
    method.end_task(head, rows, torch.Generator())
    largest = [max(t.max() for t in v.values()) for v in (information, scores_)]
    for n in head.parameters:
        expected = information[n] / largest[0] + scores_[n] / largest[1]
        torch.testing.assert_close(method.anchor.importance[n], expected)
    with torch.no_grad():
        head.parameters["output_bias"] += 2.0
    expected = 3.0 * 4.0 * method.anchor.importance["output_bias"].sum()  # (8)
    assert method.penalty(head).item() == pytest.approx(expected.item())
    halved = rwalk_head.averaged({"a": torch.tensor([4.0])}, {"a": torch.tensor([2.0, 6.0])})
    assert halved["a"].tolist() == [3.0, 3.0]
