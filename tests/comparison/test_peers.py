from dataclasses import replace

import numpy as np
import pytest

from comparison.shifted_problem import ShiftedProblem
from pipeline.comparison.labelled_tasks import LabelledTask, pseudo_labelled_tasks, source_tasks
from pipeline.comparison.methods import fecam, nearest_class_mean, ranpac, streaming_lda
from pipeline.comparison.referee_variants import first_labels
from pipeline.comparison.registry import compared_method
from pipeline.errors import InputError
from pipeline.method.continual_metrics import accuracy_matrix, final_accuracy
from reference import fecam as fecam_oracle
from reference import nearest_class_mean as mean_oracle
from reference import ranpac as ranpac_oracle
from reference import streaming_lda as lda_oracle

SOURCE = ["nearest-class-mean", "streaming-lda", "ranpac", "fecam"]
PSEUDO = [f"{name}-pseudo" for name in SOURCE]
PEERS = [*SOURCE, *PSEUDO]


@pytest.fixture(autouse=True)
def few_features(monkeypatch):
    monkeypatch.setattr(ranpac, "M", 40)


def run(name, problem):
    return compared_method(name).run(problem)


def A_T(name, made):
    return final_accuracy(accuracy_matrix(run(name, made.build()), made.test_y, made.test_tasks))


class WithEmptyClass:
    """Noisy pseudo-labels with weights and a gate, under which class 3 keeps no row."""

    def __init__(self, seed, **kind):
        rng = np.random.default_rng(seed)
        self.made = ShiftedProblem(seed, noise=2.0, **kind)
        y = self.made.y
        labels = np.where((y % 2 == 1) & (rng.random(len(y)) < 0.2), y - 1, y)  # 5, 6 → 4, 6
        labels = np.where(y == 3, 2, labels)
        self.problem = self.made.given(
            self.made.build(), labels, rng.uniform(0.1, 1, size=len(y)), rng.random(len(y)) < 0.8
        )
        self.source = list(self.made.source_rows())
        self.target = list(self.made.target_rows(first_labels(self.problem)))
        assert not any((labels == 3).any() for _, _, labels, _ in self.target)


SEEDS = pytest.mark.parametrize("seed", range(3))


@SEEDS
def test_nearest_class_mean_agrees_with_its_oracle(seed):
    case = WithEmptyClass(seed)
    of_source = mean_oracle.means(case.source)
    of_target = mean_oracle.means(case.target, of_source)
    for name, fitted, expected in [
        ("nearest-class-mean", nearest_class_mean.source_means(case.problem), of_source),
        ("nearest-class-mean-pseudo", nearest_class_mean.pseudo_means(case.problem), of_target),
    ]:
        np.testing.assert_allclose(np.vstack(fitted), expected, atol=1e-12)
        for predicted, K in zip(run(name, case.problem), (2, 4, 7), strict=True):
            answers = mean_oracle.predict(case.made.test_x, expected[:K])
            np.testing.assert_array_equal(predicted, answers)


@SEEDS
def test_streaming_lda_agrees_with_its_oracle(seed):
    case = WithEmptyClass(seed)
    of_source = list(lda_oracle.stream(case.source, shrinkage=1e-4))
    means = of_source[-1][0]
    of_target = list(lda_oracle.stream(case.target, shrinkage=1e-4, fallback=means))
    for name, expected in [("streaming-lda", of_source), ("streaming-lda-pseudo", of_target)]:
        module = streaming_lda.of_pseudo_labels if "pseudo" in name else streaming_lda.of_source
        for model, predicted, (mean, covariance) in zip(
            module(case.problem), run(name, case.problem), expected, strict=True
        ):
            np.testing.assert_allclose(model.means, mean, atol=1e-12)
            W = np.linalg.inv(covariance) @ mean.T
            np.testing.assert_allclose(model.classifier.W, W, rtol=1e-6, atol=1e-8)
            scores = lda_oracle.scores(case.made.test_x, mean, covariance)
            np.testing.assert_array_equal(predicted, scores.argmax(axis=1))


@SEEDS
def test_ranpac_agrees_with_its_oracle(seed):
    case = WithEmptyClass(seed)
    P = ranpac.projection(case.problem)
    assert P.shape == (10, 40)
    for name, fitted, tasks in [
        ("ranpac", ranpac.of_source(case.problem), case.source),
        ("ranpac-pseudo", ranpac.of_pseudo_labels(case.problem), case.target),
    ]:
        predictions = run(name, case.problem)
        for t, (model, predicted) in enumerate(zip(fitted, predictions, strict=True)):
            W, ridge = ranpac_oracle.fit(tasks[: t + 1], P, ranpac.RIDGES, case.source)
            assert model.ridge == ridge
            np.testing.assert_allclose(model.W, W, rtol=1e-6, atol=1e-8)
            h = np.array([ranpac_oracle.lift(row, P) for row in case.made.test_x])
            np.testing.assert_array_equal(predicted, (h @ W).argmax(axis=1))


@SEEDS
@pytest.mark.parametrize("nonnegative", [True, False])
def test_fecam_agrees_with_its_oracle(seed, nonnegative):
    case = WithEmptyClass(seed, nonnegative=nonnegative)
    assert fecam.are_nonnegative(case.problem) == nonnegative
    how = {"tukey": nonnegative, "gamma2": float(nonnegative)}
    of_source = fecam_oracle.distances(case.source, case.made.test_x, **how)
    of_target = fecam_oracle.distances(case.target, case.made.test_x, **how, fallback=of_source)
    for name, measured, expected in [
        ("fecam", fecam.of_source(case.problem), of_source),
        ("fecam-pseudo", fecam.of_pseudo_labels(case.problem), of_target),
    ]:
        np.testing.assert_allclose(np.hstack(measured), expected, rtol=1e-7)
        for predicted, K in zip(run(name, case.problem), (2, 4, 7), strict=True):
            np.testing.assert_array_equal(predicted, expected[:, :K].argmin(axis=1))


@pytest.mark.parametrize("nonnegative", [True, False])
@pytest.mark.parametrize("name", SOURCE)
def test_each_beats_chance_clearly_and_adapts_to_a_shifted_target(name, nonnegative):
    made = [
        ShiftedProblem(seed, (2, 3, 3), d=20, n=240, tests=160, shift=1.0, nonnegative=nonnegative)
        for seed in range(3)
    ]
    of_source = np.mean([A_T(name, problem) for problem in made])
    of_target = np.mean([A_T(f"{name}-pseudo", problem) for problem in made])
    assert of_source > 0.8  # chance is 1/8
    assert of_target > max(0.95, of_source)


@pytest.mark.parametrize("sizes", [(2, 2, 3), (1, 1, 1), (4,)])
@pytest.mark.parametrize("name", PEERS)
def test_predictions_are_among_the_classes_seen(name, sizes):
    made = ShiftedProblem(0, sizes)
    predictions = run(name, made.build())
    assert len(predictions) == len(sizes)
    for predicted, K in zip(predictions, np.cumsum(sizes), strict=True):
        assert predicted.shape == (70,)
        assert set(predicted) <= set(range(K))
    assert len(set(predictions[-1])) == sum(sizes)


@pytest.mark.parametrize("name", PEERS)
def test_the_same_seed_gives_the_same_predictions(name):
    made = ShiftedProblem(1, noise=3.0)
    for a, b in zip(run(name, made.build(5)), run(name, made.build(5)), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", PEERS)
def test_only_ranpac_has_randomness(name):
    made = ShiftedProblem(1, noise=3.0, tests=700)
    a, b = run(name, made.build(5))[-1], run(name, made.build(6))[-1]
    assert (a != b).any() == name.startswith("ranpac")


@pytest.mark.parametrize("name", PEERS)
def test_the_order_of_tasks_does_not_matter_in_the_end(name):
    """With the same labels: those of `first_labels` come from a source model, which has an order."""
    made = ShiftedProblem(2, noise=2.0)
    noisy = np.where(made.y % 2 == 0, made.y, np.where(made.y == made.y.max(), made.y, made.y - 1))
    noisy = np.where(np.arange(len(noisy)) % 3 == 0, noisy, made.y)
    weights = np.random.default_rng(0).uniform(0.2, 1, size=len(noisy))
    moved = ShiftedProblem(2, noise=2.0)
    new = np.array(
        [3, 4, 5, 6, 0, 1, 2]
    )  # class sets {0,1}, {2,3}, {4,5,6} arrive as 4–6, 0–1, 2–3
    moved.sizes = (3, 2, 2)
    for classes in ("y", "source_y", "test_y"):
        setattr(moved, classes, new[getattr(made, classes)])
    moved.cosines = made.cosines[:, np.argsort(new)]
    moved.test_cosines = made.test_cosines[:, np.argsort(new)]
    plain = run(name, made.given(made.build(), noisy, weights))
    other = run(name, moved.given(moved.build(), new[noisy], weights))
    np.testing.assert_array_equal(new[plain[-1]], other[-1])


@pytest.mark.parametrize("name", [n for n in PEERS if not n.startswith("ranpac")])
def test_the_order_of_rows_does_not_matter(name):
    """Not to RanPAC: which rows are held out depends on it."""
    made, order = ShiftedProblem(3, noise=2.0), np.random.default_rng(0).permutation(84)
    plain = run(name, made.build())
    for field in ("source_x", "source_y", "x", "y", "cosines"):
        setattr(made, field, getattr(made, field)[order])
    for a, b in zip(plain, run(name, made.build()), strict=True):
        np.testing.assert_array_equal(a, b)


FOLDS = {
    "streaming-lda": lambda tasks, made: [
        after.classifier.W for after in streaming_lda.discriminants(tasks, 10)
    ],
    "ranpac": lambda tasks, made: [
        after.W for after in ranpac.regressions(tasks, ranpac.projection(made.build()))
    ],
    "fecam": lambda tasks, made: fecam.distances(tasks, made.test_x, tukey=False),
}


@pytest.mark.parametrize("fold", FOLDS.values(), ids=FOLDS)
def test_earlier_tasks_are_never_read_again(fold):
    made = ShiftedProblem(4)

    def spoiling():
        for task in source_tasks(made.build()):
            rows = task.rows.copy()
            yield replace(task, rows=rows)
            rows[:] = np.nan  # only once the next task is asked for

    plain, spoiled = fold(source_tasks(made.build()), made), fold(spoiling(), made)
    for a, b in zip(plain, spoiled, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", SOURCE)
def test_pseudo_labelled_peers_are_source_free(name):
    """Once the source is fitted its rows and labels may vanish."""
    case = WithEmptyClass(5)  # the class without a row asks for the source's statistic
    plain = run(f"{name}-pseudo", WithEmptyClass(5).problem)
    run(name, case.problem)
    case.problem.source.views["original"][:] = np.nan
    case.problem.source.labels[:] = 0
    for a, b in zip(plain, run(f"{name}-pseudo", case.problem), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", SOURCE)
def test_a_peer_and_its_pseudo_labelled_form_share_the_source_fit(name):
    case = WithEmptyClass(6)
    first = run(name, case.problem)
    keys = set(case.problem._shared)
    run(f"{name}-pseudo", case.problem)
    assert set(case.problem._shared) == keys
    for a, b in zip(first, run(name, case.problem), strict=True):
        np.testing.assert_array_equal(a, b)


def test_nearest_class_mean_is_the_reference_row_of_that_kind():
    problem = ShiftedProblem(7, noise=3.0).build()
    for a, b in zip(run("nearest-class-mean", problem), run("nearest_mean", problem), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("nonnegative", [True, False])
@pytest.mark.parametrize("name", PEERS)
def test_one_row_per_class_and_one_class_per_task(name, nonnegative):
    """Nothing to estimate a covariance from, more features than rows: the nearest row, then."""
    made = ShiftedProblem(8, (1,) * 6, d=30, n=6, tests=60, noise=0.7, nonnegative=nonnegative)
    problem = made.given(made.build(), made.y)
    x, y = (made.x, made.y) if "pseudo" in name else (made.source_x, made.source_y)
    rows, test = x[np.argsort(y)], made.test_x
    if name.startswith("fecam"):
        rows, test = fecam.features(rows, nonnegative), fecam.features(test, nonnegative)
    for predicted, K in zip(run(name, problem), range(1, 7), strict=True):
        if name.startswith("ranpac"):  # no row is held out: the largest ridge
            P = ranpac.projection(problem)
            tasks = [([c], rows[c : c + 1], [c], [1.0]) for c in range(K)]
            W, ridge = ranpac_oracle.fit(tasks, P, ranpac.RIDGES)
            assert ridge == max(ranpac.RIDGES)
            expected = (ranpac.lifted(test, P) @ W).argmax(axis=1)
        else:
            expected = mean_oracle.predict(test, [mean_oracle.unit(row) for row in rows[:K]])
        np.testing.assert_array_equal(predicted, expected)


@pytest.mark.parametrize("name", PSEUDO)
def test_a_target_without_any_kept_row_leaves_the_source(name):
    made = ShiftedProblem(9)
    problem = made.given(made.build(), made.y, kept=np.zeros(84, dtype=bool))
    predictions = run(name, problem)
    source = {"streaming-lda-pseudo": "nearest-class-mean"}.get(name, name.removesuffix("-pseudo"))
    if name == "ranpac-pseudo":  # of the source it has means, not the Gram matrix
        assert all(np.isin(p, range(K)).all() for p, K in zip(predictions, (2, 4, 7), strict=True))
        assert np.mean(predictions[-1] == made.test_y) > 0.5
        return
    for a, b in zip(predictions, run(source, problem), strict=True):
        np.testing.assert_array_equal(a, b)


def test_rows_of_no_weight_are_left_out():
    made = ShiftedProblem(10)
    weights = np.where(np.arange(84) % 2 == 0, 1.0, 0.0)
    as_weights = made.given(made.build(), made.y, weights)
    as_gate = made.given(made.build(), made.y, kept=weights > 0)
    for a, b in zip(pseudo_labelled_tasks(as_weights), pseudo_labelled_tasks(as_gate), strict=True):
        np.testing.assert_array_equal(a.rows, b.rows)
        assert (a.weights > 0).all()
        assert a.seen == b.seen


@pytest.mark.parametrize("name", SOURCE)
def test_weights_count(name):
    """A row of weight 2 is two rows of weight 1."""
    made = ShiftedProblem(11, noise=2.0)
    task = next(source_tasks(made.build()))
    one = LabelledTask(task.classes, task.rows[:12], task.labels[:12], np.full(12, 2.0))
    two = LabelledTask(
        task.classes, np.repeat(one.rows, 2, axis=0), np.repeat(one.labels, 2), np.ones(24)
    )
    if name == "nearest-class-mean":
        a, b = (nearest_class_mean.new_means(t) for t in (one, two))
    elif name == "ranpac":  # which rows are held out differs; the sums do not
        P = ranpac.projection(made.build())
        a, b = (ranpac.regressions([t], P)[0].means for t in (one, two))
    else:
        a, b = (FOLDS[name]([t], made)[0] for t in (one, two))
    np.testing.assert_allclose(a, b, rtol=1e-9)


def test_the_correlation_of_a_class_is_one_and_positive_definite_even_of_two_rows():
    rows = fecam.features(np.random.default_rng(0).random((2, 50)), tukey=True)
    centred = rows - rows.mean(axis=0)
    for off_diagonal in (0.0, 1.0):
        R = fecam.correlation(centred.T @ centred / 2, off_diagonal)
        np.testing.assert_allclose(np.diag(R), 1, rtol=1e-12)
        assert np.linalg.eigvalsh(R).min() > 1e-3
    np.testing.assert_array_equal(fecam.correlation(np.zeros((3, 3)), 1.0), np.eye(3))


def test_a_class_without_a_source_row_is_named():
    made = ShiftedProblem(12)
    made.source_y = np.where(made.source_y == 3, 2, made.source_y)
    with pytest.raises(InputError, match=r"source: no train row of class 3$"):
        run("streaming-lda", made.build())
