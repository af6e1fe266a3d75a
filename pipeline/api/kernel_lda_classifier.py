"""The method's kernel LDA as a scikit-learn classifier that needs no project."""

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
    """Linear discriminant analysis of random Fourier features, eqs. (7)–(13), as a scikit-learn classifier.

    Rows are divided by their norms, as embeddings are before the kernel. `partial_fit` adds up statistics, so batches
    in any order give the same classifier as `fit` on all rows. A class may first appear in any batch if ``classes``
    names it in the first call.

    Parameters
    ----------
    D : int, default 1000
        Number of Fourier features.
    sigma : float, default 1e-4
        Scale of the kernel, as defined by ``convention``.
    convention : {"gamma", "bandwidth", "spread"}, default "gamma"
        The kernel is exp(−σ‖x−y‖²), exp(−‖x−y‖²/(2σ²)), or has frequencies drawn from N(0, σ² I).
    ridge : float, default 0.1
        Added to the diagonal of the covariance, as a fraction of the mean of that diagonal.
    orthogonal : bool, default False
        Draw orthogonal frequencies, which approximate the same kernel with a smaller error.
    random_state : int, RandomState or None, default 0
        Seed of the frequencies. An int gives the same basis as in the pipeline for that seed.

    Attributes
    ----------
    classes_ : ndarray of shape (C,)
        The class labels.
    basis_ : Basis
        The frequencies and phases.
    statistics_ : ClassStatistics
        The sums from which the classifier is computed.
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
    _classifier: Classifier | None  # None until it is first needed

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
        """Fit to these rows, discarding all earlier ones.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows, one per sample.
        y : array-like of shape (n,)
            The class of each row.
        sample_weight : array-like of shape (n,), optional
            Non-negative weights; ones if omitted.

        Returns
        -------
        KernelLDAClassifier
            The estimator itself.
        """
        self._update(X, y, sample_weight, classes=None, first=True, min_samples=2)
        self._solve()  # so that rows without spread fail here instead of in `predict`
        return self

    def partial_fit(
        self, X: npt.ArrayLike, y: npt.ArrayLike, classes: Sequence[Any] | None = None, sample_weight: Any = None
    ) -> Self:
        """Add rows to the ones of earlier calls.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows, one per sample.
        y : array-like of shape (n,)
            The class of each row.
        classes : array-like of shape (C,), optional
            All classes that will ever appear. Read in the first call only, and optional if that call has rows of all.
        sample_weight : array-like of shape (n,), optional
            Non-negative weights; ones if omitted.

        Returns
        -------
        KernelLDAClassifier
            The estimator itself.

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
        """Return the class probabilities softmax(F), eq. (13).

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows, one per sample.

        Returns
        -------
        ndarray of shape (n, C)
            The probability of a class without any rows so far is 0.
        """
        check_is_fitted(self)
        rows = validate_data(self, X, reset=False)
        classifier, seen = self._solve(), self._classes_seen()
        p = np.zeros((len(rows), len(self.classes_)))
        for index in row_blocks(len(rows), BLOCK_IMAGES):
            scores = classifier.scores(deviations(self.basis_, rows[index]))
            p[np.ix_(index, seen)] = softmax(scores)
        return p

    def _update(self, X: Any, y: Any, weights: Any, *, classes: Any, first: bool, min_samples: int = 1) -> Self:
        rows, labels = validate_data(
            self, X, y, reset=first, ensure_min_samples=min_samples, ensure_min_features=2 if first else 1
        )
        check_classification_targets(labels)
        weights = _check_sample_weight(weights, rows, ensure_non_negative=True)
        if first:
            self.classes_ = np.unique(labels if classes is None else np.asarray(classes))
        index = np.minimum(np.searchsorted(self.classes_, labels), len(self.classes_) - 1)
        if (unknown := self.classes_[index] != labels).any():
            raise ValueError(f"y: class {labels[unknown][0]} is not among `classes` of the first call")
        try:
            statistics = self._start(rows.shape[1]) if first else self.statistics_
            for block in row_blocks(len(rows), BLOCK_IMAGES):
                # float64: rounding of float32 products would swamp the differences between similar rows
                features = deviations(self.basis_, rows[block]).astype(np.float64)
                statistics.update(features, index[block], weights[block])
        except RefereeError as error:
            raise ValueError(str(error)) from None
        self.statistics_ = statistics
        self._classifier = None
        return self

    def _start(self, d: int) -> ClassStatistics:
        """Draw the basis and return empty statistics."""
        seed = self.random_state
        if not isinstance(seed, int):
            seed = int(check_random_state(seed).randint(2**31))
        self.basis_ = draw_basis(d, self.D, self.sigma, self.convention, seed, orthogonal=self.orthogonal)
        return zeros(len(self.classes_), self.D)

    def _classes_seen(self) -> npt.NDArray[np.intp]:
        """Return the classes (K,) that have rows so far."""
        return np.flatnonzero(self.statistics_.weight > 0)

    def _solve(self) -> Classifier:
        """Return the discriminants of the classes seen, eqs. (11), (12)."""
        if self._classifier is None:
            statistics, regularisation = self.statistics_, Regularisation(self.ridge)
            means = statistics.means()[self._classes_seen()]
            try:
                within = statistics.within()
                ridge = regularisation.absolute_ridge(within, means, self.basis_.D)
                self._classifier = solve(means, within, regularisation, ridge=ridge)
            except RefereeError as error:
                raise ValueError(str(error)) from None
        return self._classifier
