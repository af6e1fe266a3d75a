"""The kernel LDA of the method as a scikit-learn classifier, for those who want only that."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from pipeline.errors import RefereeError
from pipeline.method.class_statistics import ClassStatistics, zeros
from pipeline.method.kernel_lda import Classifier, Regularisation, solve
from pipeline.method.random_fourier_features import Convention, deviations, draw_basis
from pipeline.method.rows import BLOCK_IMAGES, row_blocks
from pipeline.method.zero_shot import softmax


class KernelLDAClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Linear discriminants of random Fourier features, eqs. (7)–(13), as a scikit-learn classifier.

    Rows are divided by their norms, as embeddings are before the kernel. Statistics add: `partial_fit` on batches, in
    any order, gives the classifier that `fit` on all rows gives, and a class may come at any time if ``classes`` named
    it at first.

    Parameters
    ----------
    D : int, default 1000
        Number of Fourier features.
    sigma : float, default 1e-4
        Of the kernel, in the meaning that ``convention`` gives it.
    convention : {"gamma", "bandwidth", "spread"}, default "gamma"
        exp(−σ‖x−y‖²), exp(−‖x−y‖²/(2σ²)), or frequencies drawn from N(0, σ² I).
    ridge : float, default 0.1
        Added to the diagonal of the covariance, as a share of its mean diagonal.
    orthogonal : bool, default False
        Draw orthogonal frequencies: the same kernel, a smaller error.
    random_state : int, RandomState or None, default 0
        Draws the frequencies. An int gives the basis that the pipeline draws for that seed.

    Attributes
    ----------
    classes_ : ndarray of shape (C,)
        The class labels.
    basis_ : Basis
        The frequencies and phases.
    statistics_ : ClassStatistics
        The sums that the classifier is made of.
    n_features_in_ : int
        Width d of the rows.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.model_selection import cross_val_score
    >>> X, y = load_digits(return_X_y=True)
    >>> model = KernelLDAClassifier(D=500, sigma=1.0)
    >>> bool(cross_val_score(model, X, y, cv=3).mean() > 0.93)
    True
    """

    statistics_: ClassStatistics
    _classifier: Classifier | None  # solved for when it is first asked for

    def __init__(
        self,
        D: int = 1000,
        sigma: float = 1e-4,
        *,
        convention: Convention = "gamma",
        ridge: float = 0.1,
        orthogonal: bool = False,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.D = D
        self.sigma = sigma
        self.convention = convention
        self.ridge = ridge
        self.orthogonal = orthogonal
        self.random_state = random_state

    def fit(self, X: npt.ArrayLike, y: npt.ArrayLike, sample_weight: Any = None) -> Self:
        """Fit to these rows alone.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows, one per sample.
        y : array-like of shape (n,)
            The class of each row.
        sample_weight : array-like of shape (n,), optional
            Weights from 0 on. Ones if omitted.

        Returns
        -------
        KernelLDAClassifier
            This one.
        """
        self._update(X, y, sample_weight, classes=None, first=True, at_least=2)
        self._solved()  # rows without spread are refused here and not by `predict`
        return self

    def partial_fit(
        self, X: npt.ArrayLike, y: npt.ArrayLike, classes: Sequence[Any] | None = None, sample_weight: Any = None
    ) -> Self:
        """Add rows to those of earlier calls.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows, one per sample.
        y : array-like of shape (n,)
            The class of each row.
        classes : array-like of shape (C,), optional
            All classes that will come; counts in the first call alone, and may be omitted if it has rows of all.
        sample_weight : array-like of shape (n,), optional
            Weights from 0 on. Ones if omitted.

        Returns
        -------
        KernelLDAClassifier
            This one.

        Examples
        --------
        >>> model = KernelLDAClassifier(D=50, sigma=1.0)
        >>> model = model.partial_fit([[1.0, 0.0], [1.0, 0.2]], ["a", "a"], classes=["a", "b"])
        >>> model.partial_fit([[0.0, 1.0], [0.2, 1.0]], ["b", "b"]).predict([[0.1, 1.0]]).tolist()
        ['b']
        """
        first = not hasattr(self, "classes_")
        return self._update(X, y, sample_weight, classes=classes if first else None, first=first)

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """Return the most probable class of each row.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows, one per sample.

        Returns
        -------
        ndarray of shape (n,)
        """
        p = self.predict_proba(X)
        labels: npt.NDArray[Any] = self.classes_[p.argmax(axis=1)]
        return labels

    def predict_proba(self, X: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return softmax(F), eq. (13).

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows, one per sample.

        Returns
        -------
        ndarray of shape (n, C)
            0 for a class that had no row yet.
        """
        check_is_fitted(self)
        rows = validate_data(self, X, reset=False)
        classifier, known = self._solved(), self._known()
        p = np.zeros((len(rows), len(self.classes_)))
        for index in row_blocks(len(rows), BLOCK_IMAGES):
            scores = classifier.scores(deviations(self.basis_, rows[index]))
            p[np.ix_(index, known)] = softmax(scores)
        return p

    def _update(self, X: Any, y: Any, weights: Any, *, classes: Any, first: bool, at_least: int = 1) -> Self:
        rows, labels = validate_data(
            self, X, y, reset=first, ensure_min_samples=at_least, ensure_min_features=2 if first else 1
        )
        check_classification_targets(labels)
        weights = _check_sample_weight(weights, rows, ensure_non_negative=True)
        if first:
            self.classes_ = np.unique(labels if classes is None else np.asarray(classes))
        index = np.minimum(np.searchsorted(self.classes_, labels), len(self.classes_) - 1)
        if (unknown := self.classes_[index] != labels).any():
            raise ValueError(f"y: class {labels[unknown][0]} is not among `classes` of the first call")
        try:
            statistics = self._first(rows.shape[1]) if first else self.statistics_
            for block in row_blocks(len(rows), BLOCK_IMAGES):
                # float64: rows that hardly differ would drown in the rounding of float32 products
                features = deviations(self.basis_, rows[block]).astype(np.float64)
                statistics.update(features, index[block], weights[block])
        except RefereeError as error:
            raise ValueError(str(error)) from None
        self.statistics_ = statistics
        self._classifier = None
        return self

    def _first(self, d: int) -> ClassStatistics:
        seed = self.random_state
        if not isinstance(seed, int):
            seed = int(check_random_state(seed).randint(2**31))
        self.basis_ = draw_basis(d, self.D, self.sigma, self.convention, seed, orthogonal=self.orthogonal)
        return zeros(len(self.classes_), self.D)

    def _known(self) -> npt.NDArray[np.intp]:
        """Return the classes (K,) that have rows so far."""
        return np.flatnonzero(self.statistics_.weight > 0)

    def _solved(self) -> Classifier:
        """Return the discriminants of these classes, eqs. (11), (12)."""
        if self._classifier is None:
            statistics, regularisation = self.statistics_, Regularisation(self.ridge)
            means = statistics.means()[self._known()]
            try:
                within = statistics.within()
                ridge = regularisation.absolute_ridge(within, means, self.basis_.D)
                self._classifier = solve(means, within, regularisation, ridge=ridge)
            except RefereeError as error:
                raise ValueError(str(error)) from None
        return self._classifier
