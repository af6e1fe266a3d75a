"""Test LwF, iCaRL, EEIL and IL2M on a head: distillation, herding, memory, rectified scores."""

import math

import numpy as np
import pytest
import torch

from comparison.head_cases import C, drawn, move, rows_of, shifted_seed, small_head, whole_batch
from pipeline.comparison.heads import rehearsing
from pipeline.comparison.heads.regularised import LearningWithoutForgetting
from pipeline.comparison.heads.rehearsing import DualMemory, EndToEnd, ExemplarClassifier, herding
from pipeline.comparison.heads.training import Training, TrainingBatch, distillation, head_tasks, run_head
from reference import herding as oracle
from reference.basics import softmax


def naive_distillation(logits, old, temperature=2.0):
    losses = []
    for new_row, old_row in zip(logits.tolist(), old.tolist(), strict=True):
        p, q = (softmax([v / temperature for v in row]) for row in (old_row, new_row))
        losses.append(-sum(p_c * math.log(q_c) for p_c, q_c in zip(p, q, strict=True)))
    return sum(losses) / len(losses)


def naive_cross_entropy(logits, y):
    losses = [-math.log(softmax(row)[c]) for row, c in zip(logits.tolist(), y, strict=True)]
    return sum(losses) / len(losses)


def test_distillation_is_the_softened_cross_entropy():
    new, old = drawn(5, 3), drawn(5, 3, seed=1)
    assert distillation(new, old).item() == pytest.approx(naive_distillation(new, old))
    assert distillation(old, old) < distillation(new, old)


def started_task(method, *, first=2):
    """Return a head of 5 classes that changed after the method recorded its answers, the rows and the old logits."""
    head, x = small_head(classes=5), drawn(8, 4)
    y = torch.tensor([2, 3, 4, 2, 3, 4, 2, 4])
    rows = rows_of(x, y, first=first, classes_seen=5)
    method.begin_task(head, rows)
    old = head.logits(x).detach()
    move(head, 0.2)
    return head, rows, old


def test_lwf_adds_the_distillation_of_the_earlier_classes():
    method = LearningWithoutForgetting()
    method.strength = 3.0
    head, rows, old = started_task(method)
    index = torch.tensor([4, 1, 6])  # the recorded answers must be those of the batch's rows
    loss = method.loss(head, rows, TrainingBatch(index, rows.x[index], rows.y[index], 0.0))
    new = head.logits(rows.x[index])
    cross_entropy = naive_cross_entropy(new[:, 2:], (rows.y[index] - 2).tolist())
    assert loss.item() == pytest.approx(cross_entropy + 3.0 * naive_distillation(new[:, :2], old[index, :2]))


def test_icarl_trains_sigmoids_on_labels_and_on_old_answers():
    method = ExemplarClassifier()
    head, rows, old = started_task(method)
    new = head.logits(rows.x).detach()
    total = 0.0
    for i, label in enumerate(rows.y.tolist()):
        for c in range(5):
            g = 1 / (1 + math.exp(-new[i, c]))
            q = 1 / (1 + math.exp(-old[i, c])) if c < 2 else float(c == label)
            total -= q * math.log(g) + (1 - q) * math.log(1 - g)
    loss = method.loss(head, rows, whole_batch(rows))
    assert loss.item() == pytest.approx(total / len(rows.y))


def test_eeil_distils_each_earlier_task_separately():
    method = EndToEnd()
    method.tasks = [slice(0, 1), slice(1, 2)]
    head, rows, old = started_task(method)
    new = head.logits(rows.x)
    expected = naive_cross_entropy(new, rows.y.tolist())
    expected += sum(naive_distillation(new[:, c], old[:, c]) for c in (slice(0, 1), slice(1, 2)))
    assert method.loss(head, rows, whole_batch(rows)).item() == pytest.approx(expected)


def rows_by_class(rows):
    return {int(c): rows.x[rows.y == c] for c in rows.y.unique()}


def test_the_memory_keeps_to_its_budget_and_eeil_fine_tunes_on_equally_many_rows_per_class(monkeypatch):
    steps = []

    class RecordedEndToEnd(EndToEnd):
        def loss(self, head, rows, batch):
            steps.append((rows, len(self.distilled)))
            return super().loss(head, rows, batch)

    monkeypatch.setattr(rehearsing, "PER_CLASS", 4)
    monkeypatch.setattr(RecordedEndToEnd, "training", Training(steps=10))
    seed, method = shifted_seed()[0], RecordedEndToEnd()
    run_head(seed, method)
    assert [(np.bincount(rows.y).tolist(), distilled) for rows, distilled in steps] == (
        [([30] * 2, 0)] * 10
        + [([4] * 2 + [30] * 2, 1)] * 10
        + [([4] * 4, 2)] * 4  # balanced: the new task is distilled too
        + [([4] * 4 + [30] * 2, 2)] * 10
        + [([4] * 6, 3)] * 4
    )
    assert [len(exemplars) for exemplars in method.memory] == [4] * C
    source = {c: x for task in head_tasks(seed) for c, x in rows_by_class(task).items()}
    for rows, _ in steps:  # every rehearsed row has its own label
        for c, x in rows_by_class(rows).items():
            assert (x[:, None] == source[c][None]).all(dim=2).any(dim=1).all()


@pytest.mark.parametrize("m", [1, 4, 12, 20])
@pytest.mark.parametrize("features", [drawn(12, 3, seed=5), torch.ones(3, 2), torch.ones(0, 2)])
def test_herding_agrees_with_its_oracle_and_takes_the_first_of_equal_rows(features, m):
    chosen = herding(features, m).tolist()
    assert chosen == oracle.herding(features.tolist(), m)
    assert len(set(chosen)) == len(chosen) == min(m, len(features))
    assert len(features) == 12 or chosen == sorted(chosen)


def test_icarl_predicts_the_nearest_mean_of_exemplars():
    head, method = small_head(), ExemplarClassifier()
    # the means have different lengths before scaling
    method.memory = [drawn(9, 4, seed=1), drawn(1, 4, seed=2)]
    x = drawn(200, 4, seed=3)

    def phi(rows):
        hidden = head.hidden(rows).detach().numpy()
        return hidden / np.maximum(np.linalg.norm(hidden, axis=1, keepdims=True), 1e-12)

    means = {c: phi(memory).mean(axis=0) for c, memory in enumerate(method.memory)}
    scaled = {c: mean / np.linalg.norm(mean) for c, mean in means.items()}
    expected = [min(scaled, key=lambda c: np.sum((row - scaled[c]) ** 2)) for row in phi(x)]
    assert expected != [max(means, key=lambda c: row @ means[c]) for row in phi(x)]
    assert method.predict(head, x).tolist() == expected
    assert set(expected) == {0, 1}


def test_il2m_remembers_the_scores_of_each_state_and_rectifies_rows_predicted_as_a_new_class():
    """Apply eq. (1) row by row, to a task of one class followed by a task of two."""
    method, x = DualMemory(), drawn(6, 4)
    heads = [small_head(classes=1), small_head(classes=3)]
    tasks = [
        rows_of(x, torch.zeros(6, dtype=torch.int64), first=0, classes_seen=1),
        rows_of(x, torch.tensor([0, 1, 1, 2, 2, 2]), first=1, classes_seen=3),
    ]
    for head, rows in zip(heads, tasks, strict=True):
        method.begin_task(head, rows)
        method.end_task(head, rows)
    early, late = ([softmax(r) for r in h.logits(x).tolist()] for h in heads)
    mu_p = sum(row[0] for row in early) / 6
    mu_n = late[0][0]  # the one row of class 0 in the second task
    top_p = sum(max(row) for row in early) / 6
    top_n = sum(max(row) for row in late[1:]) / 5
    factor = mu_p / mu_n * top_n / top_p
    assert method.confidence.tolist() == pytest.approx([top_p, top_n, top_n])
    test = drawn(200, 4, seed=9)
    expected = []
    for row in (softmax(r) for r in heads[1].logits(test).tolist()):
        new_on_top = max(range(3), key=row.__getitem__) >= 1
        rectified = [row[0] * factor if new_on_top else row[0], *row[1:]]
        expected.append(max(range(3), key=rectified.__getitem__))
    assert method.predict(heads[1], test).tolist() == expected
    assert expected != heads[1].logits(test).argmax(dim=1).tolist()  # rectification changes predictions
