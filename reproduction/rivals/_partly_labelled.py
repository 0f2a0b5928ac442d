"""Base class of semi-supervised classifiers: -1 is unlabelled, one class against the rest."""

from numbers import Real
from typing import Any, Self

import numpy as np

from bagwise._common.sklearn import Interval
from bagwise._common.types import Floats, Ints
from bagwise.base import BagClassifierMixin, RowEstimator, fit_method
from bagwise.base._kernel_machine import KernelMachine
from bagwise.exceptions import LabelError
from bagwise.labels import Labels
from bagwise.loops.threads import one_core_if_few
from bagwise.solvers.margin.feature_space import FeatureSpace
from bagwise.solvers.result import SolverResult
from bagwise.validation import check_partial_labels, check_rows


class PartlyLabelledClassifier(BagClassifierMixin, KernelMachine, RowEstimator):
    """An SVM per class, for rows of which some have no label.

    Two classes need one SVM, positive for ``classes_[1]``; more need one per class, against the
    rest. A subclass implements `_solve`, or `_learn`.
    """

    label_kind_ = "partial"
    _parameter_constraints: dict[str, Any] = {
        "positive_share": [Interval(Real, 0, 1, closed="neither"), "array-like", None]
    }
    positive_share: Any = None

    @fit_method
    def fit(self, X: Any, y: Any) -> Self:
        """Learn from rows with and without a label.

        Parameters
        ----------
        X : array-like or CSR of shape (n_rows, n_features)
            The rows.
        y : array-like of shape (n_rows,)
            The label of each row; -1 if it is unknown.

        Returns
        -------
        self
        """
        rows = check_rows(self, X, reset=True)
        labels = check_partial_labels(y, rows.shape[0])
        rows = rows.astype(np.float64, copy=False)
        signs = [labels.signs(k) for k in labels.positives]
        shares = self._shares(labels)
        with one_core_if_few(rows.size):
            results = self._learn(rows, signs, shares)
        self._keep_progress(results, "raise max_iter, scale the features, or lower C1 and C2")
        self.classes_ = labels.classes
        predicted = self._labels_of(self._one_column_for_two(self._score_rows(rows)))
        self.transduction_ = np.where(labels.known, labels.classes[labels.codes], predicted)
        return self

    def _shares(self, labels: Labels) -> list[float]:
        """Share of the positive class of each SVM among the unlabelled rows."""
        if self.positive_share is None:
            shares = labels.counts / labels.known.sum()
        else:
            shares = self._numbers(self.positive_share)
            if shares.ndim == 0 and len(labels.classes) == 2:
                shares = np.array([1 - shares, shares])
        if shares.shape != labels.classes.shape:
            raise LabelError(
                f"positive_share={self.positive_share} does not fit y, which has "
                f"{len(labels.classes)} classes: give the share of each class (of two classes, "
                "that of the second is enough), or leave it out to take the shares among the "
                "labelled rows."
            )
        if not ((shares > 0).all() and abs(shares.sum() - 1) <= 1e-6):
            raise LabelError(
                f"positive_share={self.positive_share} are not shares: each is positive, and they "
                "add up to 1."
            )
        return [float(shares[k]) for k in labels.positives]

    @staticmethod
    def _numbers(shares: Any) -> Floats:
        try:
            return np.asarray(shares, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise LabelError(
                f"positive_share={shares} are not numbers: give the share of each class."
            ) from error

    def _learn(self, rows: Any, signs: list[Ints], shares: list[float]) -> list[SolverResult]:
        """Fit and store an SVM per sign vector: 1, -1, and 0 for an unknown label."""
        space = self._space(rows)
        problems = list(zip(signs, shares, strict=True))
        results = [self._solve(space, *each) for each in self._track(problems, "class")]
        self._keep_each(space, results)
        return results

    def _solve(self, space: FeatureSpace, signs: Ints, share: float) -> SolverResult:
        """Fit one SVM; ``solution`` begins with (coef of rows, intercept)."""
        raise NotImplementedError


def balanced_cost(C1: float, signs: Ints) -> float:
    """Cost of an unlabelled row that gives both kinds of rows the same total cost."""
    n_labelled = int(np.count_nonzero(signs))
    return C1 * n_labelled / max(1, len(signs) - n_labelled)
