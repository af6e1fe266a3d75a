"""LwF, iCaRL, EEIL and IL2M on a head: distillation, herding, memory, rectified scores."""

import math

import numpy as np
import pytest
import torch

from comparison.head_cases import (
    C,
    drawn,
    shifted_problem,
    small_head,
    some_rows,
    strong,
    whole_batch,
)
from pipeline.comparison.head_training.distillation import distillation
from pipeline.comparison.head_training.exemplars import Rehearsal, herding
from pipeline.comparison.head_training.task_rows import Batch, tasks_of
from pipeline.comparison.head_training.training_loop import Training, run_head
from pipeline.comparison.methods import il2m_head
from pipeline.comparison.methods.eeil_head import EndToEnd
from pipeline.comparison.methods.icarl_head import ExemplarClassifier
from pipeline.comparison.methods.lwf_head import LearningWithoutForgetting
from reference import herding as oracle


def soft(logits, temperature=1.0):
    weights = [math.exp(v / temperature) for v in logits]
    return [w / sum(weights) for w in weights]


def hand_distillation(logits, old, temperature):
    rows = [
        -sum(
            p * math.log(q) for p, q in zip(soft(o, temperature), soft(n, temperature), strict=True)
        )
        for n, o in zip(logits.tolist(), old.tolist(), strict=True)
    ]
    return sum(rows) / len(rows)


def test_distillation_is_the_softened_cross_entropy():
    new, old = drawn(5, 3), drawn(5, 3, seed=1)
    assert distillation(new, old).item() == pytest.approx(hand_distillation(new, old, 2.0))
    assert distillation(new, old, 1.0).item() == pytest.approx(hand_distillation(new, old, 1.0))
    assert distillation(old, old) < distillation(new, old)


def hand_cross_entropy(logits, y):
    losses = [-math.log(soft(row)[label]) for row, label in zip(logits.tolist(), y, strict=True)]
    return sum(losses) / len(losses)


def begun(method, *, first=2):
    """Return a head of 5 classes that moved after the method recorded its answers, the rows and the old logits."""
    head, x = small_head(classes=5), drawn(8, 4, dtype=torch.float32).double()
    y = torch.tensor([2, 3, 4, 2, 3, 4, 2, 4])
    rows = some_rows(x, y, first=first, seen=5)
    method.begin_task(head, rows, torch.Generator().manual_seed(0))
    old = head.logits(x).detach()
    with torch.no_grad():
        for tensor in head.parameters.values():
            tensor.add_(0.2)
    return head, rows, old


def test_lwf_adds_the_distillation_of_the_earlier_classes():
    method = strong(LearningWithoutForgetting(), 3.0)
    head, rows, old = begun(method)
    part = torch.tensor([4, 1, 6])  # the recorded answers must follow the rows of a batch
    loss = method.loss(head, rows, Batch(part, rows.x[part], rows.y[part], 0.0))
    new = head.logits(rows.x[part])
    own = hand_cross_entropy(new[:, 2:], (rows.y[part] - 2).tolist())
    kept = hand_distillation(new[:, :2], old[part, :2], 2.0)
    assert loss.item() == pytest.approx(own + 3.0 * kept)


def test_icarl_trains_sigmoids_on_labels_and_on_old_answers():
    method = ExemplarClassifier()
    head, rows, old = begun(method)
    new = head.logits(rows.x).detach()
    total = 0.0
    for i, label in enumerate(rows.y.tolist()):
        for c in range(5):
            g = 1 / (1 + math.exp(-new[i, c]))
            q = 1 / (1 + math.exp(-old[i, c])) if c < 2 else float(c == label)
            total -= q * math.log(g) + (1 - q) * math.log(1 - g)
    loss = method.loss(head, rows, whole_batch(rows))
    assert loss.item() == pytest.approx(total / len(rows.y))


def test_eeil_distils_every_task_by_itself_and_new_ones_when_balanced():
    method = EndToEnd()
    method.tasks = [slice(0, 1), slice(1, 2)]
    head, rows, old = begun(method)
    new = head.logits(rows.x)
    plain = hand_cross_entropy(new, rows.y.tolist())
    parts = [hand_distillation(new[:, c], old[:, c], 2.0) for c in (slice(0, 1), slice(1, 2))]
    assert method.loss(head, rows, whole_batch(rows)).item() == pytest.approx(plain + sum(parts))

    balanced = []

    class Watched(EndToEnd):
        def loss(self, head, rows, batch):
            balanced.append((rows.y.tolist(), list(self.distilled)))
            return super().loss(head, rows, batch)

    run_head(shifted_problem()[0], Watched(Training(steps=10), per_class=4))
    sizes = [np.bincount(labels).tolist() for labels, _ in balanced]
    # a task of 10 steps, then twice one of 10 and 4 balanced ones, all tasks under distillation
    assert (
        sizes
        == [[30] * 2] * 10
        + [[4] * 2 + [30] * 2] * 10
        + [[4] * 4] * 4
        + [[4] * 4 + [30] * 2] * 10
        + [[4] * 6] * 4
    )
    assert [len(tasks) for _, tasks in balanced] == [0] * 10 + [1] * 10 + [2] * 4 + [2] * 10 + [
        3
    ] * 4


@pytest.mark.parametrize("m", [1, 4, 12, 20])
def test_herding_is_that_of_the_oracle(m):
    features = drawn(12, 3, seed=5)
    chosen = herding(features, m).tolist()
    assert chosen == oracle.herding(features.tolist(), m)
    assert len(chosen) == min(m, 12)


def test_herding_takes_the_first_of_equal_rows_and_each_row_once():
    assert herding(torch.ones(3, 2), 5).tolist() == [0, 1, 2]
    assert herding(torch.ones(0, 2), 5).tolist() == []


def test_the_memory_keeps_to_its_budget_and_is_rehearsed_with_its_labels():
    seen = []

    class Watched(Rehearsal):
        def begin_task(self, head, rows, generator):
            seen.append(rows)

    problem, _ = shifted_problem()
    method = Watched(Training(steps=1), per_class=3)
    run_head(problem, method)
    assert [len(kept) for kept in method.memory] == [3] * C
    assert [np.bincount(rows.y).tolist() for rows in seen][-1] == [3] * 4 + [30] * 2
    own = {c: rows for t in tasks_of(problem) for c, rows in of_classes(t).items()}
    for rows in seen:
        for c, kept in of_classes(rows).items():
            assert (kept[:, None] == own[c][None]).all(dim=2).any(dim=1).all()
    assert [len(kept) for kept in default_memory(problem)] == [20] * C


def of_classes(rows):
    return {int(c): rows.x[rows.y == c] for c in rows.y.unique()}


def default_memory(problem):
    method = Rehearsal(Training(steps=1))
    run_head(problem, method)
    return method.memory


def test_icarl_predicts_the_nearest_mean_of_exemplars():
    head = small_head()
    method = ExemplarClassifier()
    # a class with no row, and two whose means are of unlike length until they are scaled to 1
    method.memory = [drawn(9, 4, seed=1), drawn(0, 4), drawn(1, 4, seed=2)]
    x = drawn(200, 4, seed=3)

    def phi(rows):
        hidden = head.hidden(rows).detach().numpy()
        return hidden / np.maximum(np.linalg.norm(hidden, axis=1, keepdims=True), 1e-12)

    means = {c: phi(method.memory[c]).mean(axis=0) for c in (0, 2)}
    scaled = {c: mean / np.linalg.norm(mean) for c, mean in means.items()}
    expected = [min(scaled, key=lambda c: np.sum((row - scaled[c]) ** 2)) for row in phi(x)]
    assert expected != [max(means, key=lambda c: row @ means[c]) for row in phi(x)]
    assert method.predict(head, x).tolist() == expected
    assert set(expected) == {0, 2}


def test_il2m_rectifies_by_hand():
    scores_ = torch.tensor([[0.2, 0.2, 0.6], [0.5, 0.1, 0.4], [0.1, 0.3, 0.6]])
    ratio = torch.tensor([4.0, 0.5, 9.0])
    expected = [
        [0.8, 0.1, 0.6],
        [0.5, 0.1, 0.4],
        [0.4, 0.15, 0.6],
    ]  # the middle row is an old class's already
    np.testing.assert_allclose(il2m_head.rectified(scores_, ratio, 2), expected, rtol=1e-6)


def test_il2m_remembers_the_scores_of_each_state():
    """Eq. (1) with means taken row by row, over two tasks of one class and two."""
    method = il2m_head.DualMemory()
    heads = [small_head(classes=1), small_head(classes=3)]
    x = drawn(6, 4)
    tasks = [
        some_rows(x, torch.zeros(6, dtype=torch.int64), first=0, seen=1),
        some_rows(x, torch.tensor([0, 1, 1, 2, 2, 2]), first=1, seen=3),
    ]
    for head, rows in zip(heads, tasks, strict=True):
        method.begin_task(head, rows, torch.Generator())
        method.end_task(head, rows, torch.Generator())
    early, late = ([soft(r) for r in h.logits(x).tolist()] for h in heads)
    mu_p = sum(row[0] for row in early) / 6
    mu_n = late[0][0]  # the one row of class 0 in the second task
    top_p = sum(max(row) for row in early) / 6
    top_n = sum(max(row) for row in late[1:]) / 5
    factor = mu_p / mu_n * top_n / top_p
    assert method.confidence.tolist() == pytest.approx([top_p, top_n, top_n])
    test = drawn(200, 4, seed=9)
    expected = []
    for row in (soft(r) for r in heads[1].logits(test).tolist()):
        new_on_top = max(range(3), key=row.__getitem__) >= 1
        fixed = [row[0] * factor if new_on_top else row[0], *row[1:]]
        expected.append(max(range(3), key=fixed.__getitem__))
    assert method.predict(heads[1], test).tolist() == expected
    assert expected != heads[1].logits(test).argmax(dim=1).tolist()  # the rectification mattered
