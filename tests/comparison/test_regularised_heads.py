"""Test EWC, SI, MAS and RWalk on a head: importances and penalties."""

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
    """Return the mean over rows of the sum of the terms that ``gradients_of(row, parameters)`` yields, by parameter."""
    total = {name: torch.zeros_like(t) for name, t in head.parameters.items()}
    for row in x:
        for terms in gradients_of(row[None], list(head.parameters.values())):
            for name, term in zip(total, terms, strict=True):
                total[name] += term / len(x)
    return total


@pytest.mark.parametrize("columns", [slice(0, 3), slice(1, 3)])
def test_fisher_agrees_with_a_loop_over_rows_and_classes(columns):
    head, x = small_head(), drawn(6, 4)

    def squares(row, parameters):
        log_p = head.logits(row)[0, columns].log_softmax(dim=0)
        for value in log_p:
            gradients = torch.autograd.grad(value, parameters, retain_graph=True)
            yield [value.exp().detach() * gradient**2 for gradient in gradients]

    importance = fisher(head, x, columns)
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
    for tasks in (1, 2):  # importances are summed over tasks
        method.end_task(head, rows)
        torch.testing.assert_close(method.anchor.importance, {n: tasks * t for n, t in expected.items()})


def test_ewc_keeps_the_sum_of_the_tasks_penalties_times_half_of_lambda():
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


def test_si_path_integrals_sum_to_the_decrease_of_the_loss():
    """Check eq. (2) with full batches and small steps."""
    head, rows = small_head(), small_task()
    method = seeded(regularised.SynapticIntelligence())
    start = head.frozen().parameters
    before = method.loss(head, rows, whole_batch(rows)).item()
    method.begin_task(head, rows)
    train(method, head, rows, Training(steps=400, rate=1e-3))
    decrease = before - method.loss(head, rows, whole_batch(rows)).item()
    assert decrease > 0.1
    assert sum(p.sum().item() for p in method.path.values()) == pytest.approx(decrease, rel=0.02)

    method.path["output_bias"][0] = -1.0  # a parameter that increased the loss
    method.end_task(head, rows)
    assert method.anchor.importance["output_bias"][0] == 0.0
    change = {n: end - start[n] for n, end in head.frozen().parameters.items()}
    expected = {n: path.clamp(min=0) / (change[n] ** 2 + 0.1) for n, path in method.path.items()}  # eq. (5)
    torch.testing.assert_close(method.anchor.importance, expected)


def test_rwalk_scores_intervals_by_its_equations(monkeypatch):
    monkeypatch.setattr(regularised, "INTERVAL", 2)
    head, rows, method = small_head(), small_task(), regularised.RiemannianWalk()
    method.begin_task(head, rows)
    information = scores = decrease = start = None
    for number in range(4):
        before = head.frozen().parameters
        gradient = {n: drawn(*t.shape, seed=number) for n, t in before.items()}
        move(head, lambda tensor, n=number: 0.1 * drawn(*tensor.shape, seed=20 + n))
        after = head.frozen().parameters
        share = {n: -gradient[n] * (after[n] - before[n]) for n in after}
        method.after_step(head, rows, TrainingStep(whole_batch(rows), gradient, before))
        if number % 2 == 0:
            start, decrease = before, share
            continue
        decrease = {n: decrease[n] + share[n] for n in after}
        new = fisher(head, rows.x, rows.columns)
        information = {n: 0.9 * new[n] + 0.1 * (information or new)[n] for n in after}  # eq. (6)
        distance = {n: information[n] * (after[n] - start[n]) ** 2 / 2 for n in after}
        term = {n: (decrease[n] / (distance[n] + 1e-3)).clamp(min=0) for n in after}  # eq. (7)
        scores = term if scores is None else {n: scores[n] + term[n] for n in after}
    method.end_task(head, rows)
    largest = [max(t.max() for t in v.values()) for v in (information, scores)]
    expected = {n: information[n] / largest[0] + scores[n] / largest[1] for n in head.parameters}  # eq. (8)
    torch.testing.assert_close(method.anchor.importance, expected)
    earlier, new = {"a": torch.tensor([4.0])}, {"a": torch.tensor([2.0, 6.0])}
    assert regularised.running_mean(earlier, new, 0.5)["a"].tolist() == [3.0, 3.0]
