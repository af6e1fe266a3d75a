"""The dual form against the D×D one: the same solutions, row by row, and the same released variant."""

import numpy as np
import pytest

from pipeline.method import row_scatter
from pipeline.method.adaptation import adapt_tasks
from pipeline.method.referee import Referee
from pipeline.method.row_scatter import RowScatter
from pipeline.method.variants import VARIANTS
from shifted_problem import SCALE, Problem


def grown(pieces, ridge):
    scatter = RowScatter(pieces[0].shape[1], (), ridge)
    for piece in pieces:
        scatter = scatter.grown(piece)
    return scatter


@pytest.mark.parametrize("cuts", [[], [3], [3, 3, 9], [1, 2, 4, 8, 11]])
def test_a_solution_is_that_of_the_formed_scatter_however_the_rows_arrive(cuts):
    rng = np.random.default_rng(0)
    rows, right = rng.normal(size=(12, 30)), rng.normal(size=(30, 4))
    scatter = grown(np.split(rows, cuts), 0.5)
    expected = np.linalg.solve(rows.T @ rows + 0.5 * np.eye(30), right)
    np.testing.assert_allclose(scatter.solve(right, 0.5), expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(np.tril(scatter.dense()), np.tril(rows.T @ rows), rtol=1e-13)


def test_room_ends_where_the_formed_scatter_is_cheaper():
    scatter = RowScatter(8, (), 1.0).grown(np.ones((6, 8)))
    assert scatter.has_room(4)
    assert not scatter.has_room(5)


@pytest.mark.parametrize("spoilt", [1e9, np.nan, np.inf])
def test_a_ridge_too_small_for_the_rows_is_refused(spoilt):
    assert RowScatter(3, (), 1e-6).grown(np.full((1, 3), spoilt)) is None


@pytest.mark.parametrize("rows_per_feature", [0.6, 1.25, 9.0])
def test_the_released_variant_is_the_same_by_rows_and_by_features(monkeypatch, rows_per_feature):
    # 0.6: the rows of the first tasks only, then the scatter is formed; 9: never formed, more rows than features
    problem, options = Problem(0, D=100), VARIANTS["released"]

    def classifiers():
        sources = problem.sources(options)
        adapted = adapt_tasks(Referee(problem.basis, options, SCALE), problem.tasks(), sources)
        return [model.classifier for model in (*sources, *adapted)]

    monkeypatch.setattr(row_scatter, "ROWS_PER_FEATURE", rows_per_feature)
    by_rows = classifiers()
    monkeypatch.setattr(row_scatter, "ROWS_PER_FEATURE", 0)
    formed = classifiers()
    for mine, theirs in zip(by_rows, formed, strict=True):
        np.testing.assert_allclose(mine.W, theirs.W, rtol=1e-6, atol=1e-6 * np.abs(theirs.W).max())
        np.testing.assert_allclose(mine.b, theirs.b, rtol=1e-6)
