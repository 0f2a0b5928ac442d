"""WellSVMClassifier: a convex semi-supervised SVM, for rows with few labels (Li 2013)."""

from dataclasses import KW_ONLY
from numbers import Real
from typing import Any, Self

import numpy as np
from sklearn.utils import check_random_state

from bagwise._common.sklearn import Interval, StrOptions
from bagwise._common.types import Array
from bagwise.base import BagClassifierMixin, RowEstimator, fit_method
from bagwise.base._label_machine import LabelMachine
from bagwise.base._parameters import POSITIVE, with_parameters
from bagwise.exceptions import LabelError
from bagwise.labels import Labels
from bagwise.loops.threads import one_core_if_few
from bagwise.solvers.result import SolverResult
from bagwise.solvers.wellsvm.well_svm import PartialLabels, canonical_order, supervised, well_svm
from bagwise.validation import check_partial_labels, check_rows

Z = 2.0  # standard errors by which the threshold may deviate from the balance


@with_parameters
class WellSVMClassifier(BagClassifierMixin, LabelMachine, RowEstimator):
    r"""Weakly labelled SVM for semi-supervised learning (WellSVM, Li 2013).

    The labels :math:`\hat y` of the unlabelled rows and the SVM are chosen together, among the
    label vectors B with the balance of the labelled rows. The problem is relaxed to a convex one,

    .. math:: \max_{0 \le \alpha \le C} \; \min_{\hat y \in B} \;
        \sum_i \alpha_i - \tfrac12 \Bigl|\sum_i \alpha_i \hat y_i \varphi(x_i)\Bigr|^2

    whose solution mixes a few label vectors. More than two classes are handled one-vs-rest.

    Parameters
    ----------
    C1 : float, default=1.0
        Cost of a margin error of a labelled row.
    C2 : float or "auto", default="auto"
        Cost of a margin error of an unlabelled row; "auto" gives labelled and unlabelled rows the
        same total cost, ``C1 * n_labelled / n_unlabelled``. Far above that, many label vectors are
        needed and the fit is slow.
    balance : float, array-like of shape (n_classes,) or None, default=None
        Share of ``classes_[1]`` (two classes), or of each of ``classes_``, among the unlabelled
        rows; None takes the shares of the labelled rows, a poor estimate from a dozen labels. It
        is rounded to a whole number of rows.
    threshold : {"auto", "zero", "balanced"}, default="auto"
        Where a score becomes positive: "zero" at 0, "balanced" where the unlabelled rows have that
        balance. "auto", for two classes, moves from 0 only until the share of positive rows is
        within two standard errors (Wilson) of that balance.
    kernel : str or callable, default="linear"
        "linear", another of scikit-learn's names ("rbf", "poly", ...), a function of two vectors,
        or "precomputed".
    {gamma}
    offset : float, default=0.2
        Value of the constant feature whose weight is the offset of the SVM, in units of the root
        mean squared length of the rows; 0 for none. With a dozen labels and balanced classes, 0 is
        often better.
    tol : float, default=1e-2
        Violation of a new label vector, and decrease of the objective, to stop at; relative. The
        search also stops if two consecutive label vectors change a smaller share of the labels.
    max_cuts : int, default=50
        Maximum number of label vectors.
    random_state : int, RandomState or None, default=0
        For the order of the coordinate descent (and the Nystroem approximation).
    {verbose}

    Attributes
    ----------
    {classes_}
    coef_ : ndarray of shape (n_machines, n_features)
        The weights of the features (linear kernel); one SVM for two classes, else one per class.
    support_ : ndarray of shape (n_support,)
        Training rows with non-zero weight (other kernels).
    support_vectors_ : ndarray or CSR of shape (n_support, n_features)
        Those rows.
    dual_coef_ : ndarray of shape (n_machines, n_support)
        Their weights.
    nystroem_ : Nystroem
        The approximation of the kernel, if there were more than 20,000 rows.
    {gamma_}
    intercept_ : ndarray of shape (n_machines,)
        The intercepts.
    transduction_ : ndarray of shape (n_rows,)
        The label of each training row: as given, or as predicted.
    label_vectors_ : list of ndarray of int8 of shape (n_cuts, n_rows)
        For each SVM, the generated label vectors.
    label_weights_ : list of ndarray of shape (n_cuts,)
        The weights of the label vectors, with sum 1.
    objective_curve_ : ndarray of shape (n_iterations,)
        The objective after each label vector, summed over the SVMs.
    duality_gap_ : float
        Relative distance of the objective to the lowest bound over the generated label vectors, the
        last one included. Not a bound over all of them: the search for the most violated one is
        local.
    n_iter_ : int
        Number of label vectors; the largest number over all SVMs.
    {n_features_in_}

    Notes
    -----
    Cost of a pass: the non-zeros of X (or the square of the rows, with a kernel), times a few dozen
    passes. Memory: X, once more if dense and centred; a kernel matrix up to 20,000 rows.
    Standardise dense features first. Rows are centred, in the feature space of the kernel; sparse
    rows stay sparse in memory.

    References
    ----------
    Li, Tsang, Kwok, Zhou. Convex and scalable weakly labeled SVMs. JMLR 14 (2013).

    Examples
    --------
    >>> from bagwise.semi_supervised import WellSVMClassifier
    >>> X = [[0.0], [0.2], [0.3], [2.7], [2.8], [3.0]]
    >>> model = WellSVMClassifier().fit(X, ["low", -1, -1, -1, -1, "high"])
    >>> model.predict([[0.5], [2.5]])
    array(['low', 'high'], dtype=object)
    """

    label_kind_ = "partial"
    _parameter_constraints = {
        "C2": [StrOptions({"auto"}), POSITIVE],
        "balance": [None, Interval(Real, 0, 1, closed="both"), "array-like"],
        "threshold": [StrOptions({"auto", "zero", "balanced"})],
    }

    C1: float = 1.0
    C2: Any = "auto"
    _: KW_ONLY
    balance: Any = None
    threshold: str = "auto"
    kernel: Any = "linear"
    gamma: Any = "scale"
    offset: float = 0.2
    tol: float = 1e-2
    max_cuts: int = 50
    random_state: Any = 0
    verbose: int = 0

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
        X = check_rows(self, X, reset=True)
        labels = check_partial_labels(y, X.shape[0])
        shares = _shares(self.balance, labels)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        problems = [_one_vs_rest(labels, k, shares[k]) for k in labels.positives]
        with one_core_if_few(X.size):
            results = self._learn(X, problems, seed)
        self.classes_ = labels.classes
        self.label_vectors_ = [result.solution.signs.T.copy() for result in results]
        self.label_weights_ = [result.solution.weights for result in results]
        if self.threshold == "balanced" or (self.threshold == "auto" and len(problems) == 1):
            self.intercept_ = self.intercept_ - self._thresholds(X, problems)
        predicted = self._labels_of(self._one_column_for_two(self._score_rows(X)))
        self.transduction_ = np.where(labels.known, labels.classes[labels.codes], predicted)
        return self

    def _generate(self, rows: Any, labels: PartialLabels, seed: int) -> SolverResult:
        signs = labels.signs
        costs = self._costs(labels)
        order = canonical_order(rows, signs)
        known = order[signs[order] != 0]
        tol = self.tol if len(labels.unknown) else self.tol / 100  # nothing to choose
        own = signs[known], costs[known]
        scores, alpha = supervised(rows, known, *own, tol=tol / 10, seed=seed)
        start = np.zeros(len(signs))
        start[known] = alpha
        first = labels.choose(scores, np.ones(len(signs)), scores)
        return well_svm(
            rows,
            labels,
            costs,
            first,
            alpha=start,
            order=order,
            tol=tol,
            max_cuts=self.max_cuts,
            stable=self.tol,
            seed=seed,
        )

    def _costs(self, labels: PartialLabels) -> Array:
        n_unknown = len(labels.unknown)
        n_known = len(labels.signs) - n_unknown
        C2 = self.C2 if self.C2 != "auto" else self.C1 * n_known / max(1, n_unknown)
        return np.where(labels.signs != 0, self.C1, C2)

    def _thresholds(self, X: Any, labels: list[PartialLabels]) -> Array:
        """For each SVM, a score between the negatives and the positives of its balance."""
        found = []
        for scores, each in zip(self._score_rows(X).T, labels, strict=True):
            values, lowest, highest = scores[each.unknown], each.n_negative, each.n_negative
            if self.threshold == "auto":
                lowest, highest = _plausible(each)
            n_negative = min(max(int(np.sum(values <= 0)), lowest), highest)
            found.append(_between(values, n_negative))
        return np.array(found)


def _shares(balance: Any, labels: Labels) -> Array:
    """Share of each class among the unlabelled rows."""
    if balance is None:
        return labels.counts / labels.known.sum()
    shares = np.asarray(balance, dtype=np.float64)
    if shares.ndim == 0:
        shares = np.array([1 - shares, shares])
    fits = shares.shape == labels.classes.shape
    if not fits or not (shares >= 0).all() or abs(shares.sum() - 1) > 1e-6:
        raise LabelError(
            f"balance={balance}: expected a share for each of the {len(labels.classes)} classes, "
            "not negative, with sum 1; leave it out to take the shares among the labelled rows."
        )
    return shares


def _one_vs_rest(labels: Labels, k: int, share: float) -> PartialLabels:
    """Signs of class `k` against the rest, and the number of negative unlabelled rows."""
    signs = labels.signs(k).astype(np.int8)
    # ceil of Prop. 5, despite rounding errors of a whole number
    return PartialLabels(signs, int(np.ceil(np.sum(signs == 0) * (1 - share) - 1e-9)))


def _plausible(labels: PartialLabels) -> tuple[int, int]:
    """Range of the number of negative unlabelled rows, within Z standard errors (Wilson)."""
    n_known, n_unknown = int(np.sum(labels.signs != 0)), len(labels.unknown)
    share = labels.n_negative / max(1, n_unknown)
    middle = share + Z**2 / (2 * n_known)
    error = Z * np.sqrt(share * (1 - share) / n_known + (Z / (2 * n_known)) ** 2)
    middle, error = middle / (1 + Z**2 / n_known), error / (1 + Z**2 / n_known)
    return int(np.ceil(n_unknown * (middle - error))), int(n_unknown * (middle + error))


def _between(values: Array, n_negative: int) -> float:
    """Threshold with `n_negative` values below: 0 if possible, else a midpoint of two values."""
    if n_negative == np.sum(values <= 0) or not 0 < n_negative < len(values):
        return 0.0
    ranked = np.partition(values, [n_negative - 1, n_negative])
    return float((ranked[n_negative - 1] + ranked[n_negative]) / 2)
