"""EWC, SI, MAS and RWalk on a head: importances, penalties, and that they forget less."""

import pytest
import torch

from comparison.head_cases import drawn, move, rows_of, seeded, small_head, small_task, whole_batch
from pipeline.comparison.heads import regularised
from pipeline.comparison.heads.regularised import Anchor, fisher
from pipeline.comparison.heads.training import Training, TrainingStep, train


def test_the_penalty_leaves_later_classes_free():
    head = small_head(classes=2)
    centre = head.frozen().parameters
    anchor = Anchor(centre, {name: torch.ones_like(t) for name, t in centre.items()})
    assert anchor.penalty(head).item() == 0.0
    grown = head.grown(2, torch.Generator().manual_seed(0))
    assert anchor.penalty(grown).item() == pytest.approx(0.0)
    with torch.no_grad():
        grown.parameters["output_bias"][:] += 3.0  # two old classes, two new ones
        grown.parameters["hidden_weight"][0, 0] += 2.0
    assert anchor.penalty(grown).item() == pytest.approx(2 * 9.0 + 4.0)


def mean_over_rows(head, x, gradients_of):
    """Return by parameter the mean over rows of what ``gradients_of(row, parameters)`` sums up, by autograd."""
    total = {name: torch.zeros_like(t) for name, t in head.parameters.items()}
    for row in x:
        for terms in gradients_of(row[None], list(head.parameters.values())):
            for name, term in zip(total, terms, strict=True):
                total[name] += term / len(x)
    return total


@pytest.mark.parametrize("own", [slice(0, 3), slice(1, 3)])
def test_fisher_agrees_with_a_loop_over_rows_and_classes(own):
    head, x = small_head(), drawn(6, 4)

    def squares(row, parameters):
        log_p = head.logits(row)[0, own].log_softmax(dim=0)
        for value in log_p:
            gradients = torch.autograd.grad(value, parameters, retain_graph=True)
            yield [value.exp().detach() * gradient**2 for gradient in gradients]

    importance = fisher(head, x, own)
    torch.testing.assert_close(importance, mean_over_rows(head, x, squares))
    assert importance["hidden_weight"].max() > 0


def test_mas_importance_agrees_with_a_loop_over_source_and_target_rows():
    head, x = small_head(), drawn(6, 4)

    def magnitudes(row, parameters):
        gradients = torch.autograd.grad((head.logits(row) ** 2).sum(), parameters)
        yield [gradient.abs() for gradient in gradients]

    expected = mean_over_rows(head, x, magnitudes)
    torch.testing.assert_close(regularised.output_sensitivity(head, x), expected)
    method = regularised.MemoryAwareSynapses()
    rows = rows_of(x[:2], torch.zeros(2, dtype=torch.int64), first=0, classes_seen=3, target=x[2:])
    for times in (1, 2):  # importances add up over tasks
        method.end_task(head, rows)
        torch.testing.assert_close(method.anchor.importance, {n: times * one for n, one in expected.items()})


def test_ewc_keeps_the_sum_of_the_tasks_penalties_and_takes_half_of_lambda():
    heads = [small_head(classes=c) for c in (2, 3, 4)]
    anchors = [
        Anchor(h.frozen().parameters, fisher(h, drawn(6, 4, seed=s), slice(0, s + 2))) for s, h in enumerate(heads[:2])
    ]
    for number, head in enumerate(heads):
        move(head, lambda tensor, n=number: drawn(*tensor.shape, seed=10 + n))
    merged, last = regularised.merged(*anchors), heads[2]
    moved = last.frozen()
    moved.parameters["hidden_weight"] += 1.0
    moved.parameters["output_weight"] -= 0.5
    change = (merged.penalty(moved) - merged.penalty(last)).item()
    expected = sum((a.penalty(moved) - a.penalty(last)).item() for a in anchors)
    assert change == pytest.approx(expected)
    assert abs(change) > 1e-3

    head, rows, method = small_head(), small_task(), regularised.ElasticWeights()
    method.end_task(head, rows)
    move(head, 2.0)
    summed = sum(2.0**2 * importance.sum() for importance in fisher(small_head(), rows.x, slice(0, 3)).values())
    assert method.penalty(head).item() == pytest.approx(regularised.LAMBDA / 2 * summed.item())


def test_si_shares_out_the_decrease_of_the_loss():
    """Eq. (2): over full batches and small steps the path integrals sum to the decrease of the loss."""
    head, rows = small_head(), small_task()
    method = seeded(regularised.SynapticIntelligence())
    start = head.frozen().parameters
    before = method.loss(head, rows, whole_batch(rows)).item()
    method.begin_task(head, rows)
    train(method, head, rows, Training(steps=400, rate=1e-3))
    decrease = before - method.loss(head, rows, whole_batch(rows)).item()
    assert decrease > 0.1
    assert sum(p.sum().item() for p in method.path.values()) == pytest.approx(decrease, rel=0.02)

    method.path["output_bias"][0] = -1.0  # as if it had made the loss worse
    method.end_task(head, rows)
    assert method.anchor.importance["output_bias"][0] == 0.0
    change = {n: now - start[n] for n, now in head.frozen().parameters.items()}
    expected = {n: path.clamp(min=0) / (change[n] ** 2 + 0.1) for n, path in method.path.items()}  # eq. (5)
    torch.testing.assert_close(method.anchor.importance, expected)


def test_rwalk_scores_intervals_as_its_equations_say(monkeypatch):
    monkeypatch.setattr(regularised, "INTERVAL", 2)
    head, rows, method = small_head(), small_task(), regularised.RiemannianWalk()
    method.begin_task(head, rows)
    information = scores = decrease = start = None
    for number in range(4):
        before = head.frozen().parameters
        gradient = {n: drawn(*t.shape, seed=number) for n, t in before.items()}
        move(head, lambda tensor, n=number: 0.1 * drawn(*tensor.shape, seed=20 + n))
        now = head.frozen().parameters
        share = {n: -gradient[n] * (now[n] - before[n]) for n in now}
        method.after_step(head, rows, TrainingStep(whole_batch(rows), gradient, before))
        if number % 2 == 0:
            start, decrease = before, share
            continue
        decrease = {n: decrease[n] + share[n] for n in now}
        new = fisher(head, rows.x, rows.columns)
        information = {n: 0.9 * new[n] + 0.1 * (information or new)[n] for n in now}  # eq. (6)
        term = {  # eq. (7)
            n: (decrease[n] / (information[n] * (now[n] - start[n]) ** 2 / 2 + 1e-3)).clamp(min=0) for n in now
        }
        scores = term if scores is None else {n: scores[n] + term[n] for n in now}
    method.end_task(head, rows)
    largest = [max(t.max() for t in v.values()) for v in (information, scores)]
    expected = {n: information[n] / largest[0] + scores[n] / largest[1] for n in head.parameters}  # eq. (8)
    torch.testing.assert_close(method.anchor.importance, expected)
    earlier, new = {"a": torch.tensor([4.0])}, {"a": torch.tensor([2.0, 6.0])}
    assert regularised.running_mean(earlier, new, 0.5)["a"].tolist() == [3.0, 3.0]
