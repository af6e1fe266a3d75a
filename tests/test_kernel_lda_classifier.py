"""KernelLDAClassifier passes scikit-learn's checks, agrees with a naive oracle and can be fitted in batches."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.utils.estimator_checks import parametrize_with_checks

from pipeline import KernelLDAClassifier
from pipeline.method.random_fourier_features import deviations
from reference import class_statistics as statistics_oracle
from reference import kernel_lda as oracle
from reference.basics import softmax

X, y = load_digits(return_X_y=True)


@parametrize_with_checks([KernelLDAClassifier(D=100)])
def test_estimator_passes_scikit_learn_checks(estimator, check):
    check(estimator)


def test_probabilities_agree_with_the_oracle():
    rows, labels, weights = X[:60], y[:60], np.random.default_rng(0).uniform(0.1, 1, 60)
    model = KernelLDAClassifier(D=12, sigma=1.0, ridge=0.2).fit(rows, labels, sample_weight=weights)
    z = deviations(model.basis_, rows).astype(np.float64) + model.basis_.pivot
    covariance = statistics_oracle.covariance(z, labels, weights, 10)
    means = statistics_oracle.means(z, labels, weights, 10)
    expected = [softmax(row) for row in oracle.scores(z, means, oracle.regularised(covariance, 0.2))]
    np.testing.assert_allclose(model.predict_proba(rows), expected, atol=1e-7)


def test_batches_in_any_order_give_the_same_model():
    labels = np.array([f"digit {digit}" for digit in y])
    whole = KernelLDAClassifier(D=50, sigma=1.0).fit(X, labels)
    parts = KernelLDAClassifier(D=50, sigma=1.0)
    by_class = np.argsort(y, kind="stable")[::-1]
    for batch in np.array_split(by_class, 7):
        parts.partial_fit(X[batch], labels[batch], classes=whole.classes_)
    np.testing.assert_allclose(parts.predict_proba(X), whole.predict_proba(X), atol=1e-5)  # float32 features
    assert (parts.predict(X) == whole.predict(X)).all()


def test_class_without_rows_is_not_predicted_and_unknown_class_is_refused():
    first = y < 4
    model = KernelLDAClassifier(D=50).partial_fit(X[first], y[first], classes=range(5))
    assert model.predict_proba(X).shape == (len(X), 5)
    assert (model.predict_proba(X)[:, 4] == 0).all()
    with pytest.raises(ValueError, match=r"class 9 is not among `classes`"):
        model.partial_fit(X[y == 9], y[y == 9])
