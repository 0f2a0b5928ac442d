"""WellSVMClustering: maximum margin clustering by a convex relaxation (Li 2013)."""

from dataclasses import KW_ONLY
from numbers import Real
from typing import Any, Self

import numpy as np
from sklearn.base import ClusterMixin, clone
from sklearn.utils import check_random_state

from bagwise._common.sklearn import Interval, StrOptions
from bagwise._common.types import Array, Ints
from bagwise.bags import Bags
from bagwise.base import RowEstimator, fit_method
from bagwise.base._finite import require_finite
from bagwise.base._label_machine import LabelMachine
from bagwise.base._parameters import POSITIVE, with_parameters
from bagwise.exceptions import InputError
from bagwise.loops.threads import one_core_if_few
from bagwise.solvers.result import SolverResult
from bagwise.solvers.wellsvm.well_svm import BoundedLabels, aligned_start, canonical_order, well_svm
from bagwise.validation import check_rows


@with_parameters
class WellSVMClustering(ClusterMixin, LabelMachine, RowEstimator):
    r"""Maximum margin clustering, relaxed to a convex problem (WellSVM, Li 2013).

    The labels and the SVM that separates them are chosen together, among the labelings B whose
    clusters differ in size by at most `balance` times the number of rows:

    .. math:: \max_{0 \le \alpha \le C} \; \min_{\hat y \in B} \;
        \sum_i \alpha_i - \tfrac12 \Bigl|\sum_i \alpha_i \hat y_i \varphi(x_i)\Bigr|^2

    For more than two clusters, the largest cluster is split in two until there are enough.

    Parameters
    ----------
    n_clusters : int, default=2
        The number of clusters.
    C : float or "auto", default="auto"
        Cost of a margin error of a row; "auto" is ``10 / n_rows``.
    balance : float, default=0.3
        Largest difference between the sizes of two clusters, as a share of their rows. An odd
        number of rows has a difference of at least one.
    kernel : str or callable, default="linear"
        "linear", another of scikit-learn's names ("rbf", "poly", ...), a function of two vectors,
        or "precomputed".
    {gamma}
    offset : float, default=0.0
        Value of the constant feature whose weight is the offset of the SVM, in units of the root
        mean squared length of the rows.
    n_init : int, default=20
        Number of random balanced labelings to start from, besides the two sides of the first
        principal component; the best by kernel alignment is used.
    tol : float, default=1e-2
        Violation of a new label vector, and decrease of the objective, to stop at; relative.
    max_cuts : int, default=50
        Maximum number of label vectors.
    random_state : int, RandomState or None, default=None
        For the first labels, the order of the coordinate descent (and the Nystroem approximation).
    {verbose}

    Attributes
    ----------
    labels_ : ndarray of shape (n_rows,)
        The cluster of each training row.
    coef_ : ndarray of shape (1, n_features)
        The weights of the features (linear kernel). This and the following attributes describe the
        first cut.
    support_ : ndarray of shape (n_support,)
        Training rows with non-zero weight (other kernels).
    support_vectors_ : ndarray or CSR of shape (n_support, n_features)
        Those rows.
    dual_coef_ : ndarray of shape (1, n_support)
        Their weights.
    nystroem_ : Nystroem
        The approximation of the kernel, if there were more than 20,000 rows.
    {gamma_}
    intercept_ : ndarray of shape (1,)
        The intercept, shifted if the signs of the scores would violate the balance.
    label_vectors_ : ndarray of int8 of shape (n_cuts, n_rows)
        The generated label vectors.
    label_weights_ : ndarray of shape (n_cuts,)
        The weights of the label vectors, with sum 1.
    objective_curve_ : ndarray of shape (n_iterations,)
        The objective after each label vector.
    duality_gap_ : float
        Relative distance of the objective to the lowest bound over the generated label vectors, the
        last one included. Not a bound over all of them: the search for the most violated one is
        local.
    splits_ : list of (int, ndarray, WellSVMClustering)
        The further cuts: the cluster, its rows, and the model that splits it.
    n_iter_ : int
        Number of label vectors.
    {n_features_in_}

    Notes
    -----
    Cost of a pass: the non-zeros of X (or the square of the rows, with a kernel), times a few dozen
    passes. Standardise dense features first. Rows are centred, in the feature space of the kernel;
    sparse rows stay sparse in memory.

    References
    ----------
    Li, Tsang, Kwok, Zhou. Convex and scalable weakly labeled SVMs. JMLR 14 (2013).

    Examples
    --------
    >>> from bagwise.cluster import WellSVMClustering
    >>> X = [[0.0], [0.2], [0.3], [2.7], [2.8], [3.0]]
    >>> labels = WellSVMClustering(random_state=0).fit_predict(X)
    >>> labels == labels[0]
    array([ True,  True,  True, False, False, False])
    """

    _parameter_constraints = {
        "C": [StrOptions({"auto"}), POSITIVE],
        "balance": [Interval(Real, 0, 1, closed="left")],
    }

    n_clusters: int = 2
    _: KW_ONLY
    C: Any = "auto"
    balance: float = 0.3
    kernel: Any = "linear"
    gamma: Any = "scale"
    offset: float = 0.0
    n_init: int = 20
    tol: float = 1e-2
    max_cuts: int = 50
    random_state: Any = None
    verbose: int = 0

    @fit_method
    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the clusters.

        Parameters
        ----------
        X : array-like or CSR of shape (n_rows, n_features)
            The rows.
        y : None
            Ignored.

        Returns
        -------
        self
        """
        X = check_rows(self, X, reset=True)
        if X.shape[0] < self.n_clusters:
            raise InputError(f"n_samples={X.shape[0]} is less than n_clusters={self.n_clusters}.")
        rng = check_random_state(self.random_state)
        labels = self._bisect(X, rng)
        self.splits_ = []
        for new in range(2, self.n_clusters):
            largest = int(np.bincount(labels).argmax())
            inside = np.flatnonzero(labels == largest)
            model = clone(self).set_params(n_clusters=2, random_state=rng.randint(2**31 - 1))
            self.splits_.append((largest, inside, model.fit(self._part(X[inside], inside))))
            labels[inside[model.labels_ == 1]] = new
        self.labels_ = np.minimum(labels, self.n_clusters - 1)
        return self

    def decision_function(self, X: Any) -> Array:
        """Score each row by the first cut.

        Parameters
        ----------
        X : array-like or CSR of shape (n_rows, n_features)
            The rows; with a precomputed kernel, its values with the training rows.

        Returns
        -------
        ndarray of shape (n_rows,)
            Positive on the side of cluster 1 (and of those cut from it).
        """
        return self._evaluate(X, self._score)[:, 0]

    def predict(self, X: Any) -> Ints:
        """Predict the cluster of each row.

        Parameters
        ----------
        X : array-like or CSR of shape (n_rows, n_features)
            The rows.

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        return self._evaluate(X, self._clusters)

    def _clusters(self, bags: Bags) -> Ints:
        X = bags.instances
        scores = require_finite(self._score(bags), "the score")
        labels = (scores[:, 0] > 0).astype(np.int64)
        for new, (cluster, rows, model) in enumerate(self.splits_, start=2):
            inside = np.flatnonzero(labels == cluster)
            if len(inside):
                labels[inside[model.predict(self._part(X[inside], rows)) == 1]] = new
        return np.minimum(labels, self.n_clusters - 1)

    def _part(self, X: Any, columns: Ints) -> Any:
        """Rows for a further cut; for a precomputed kernel, only the columns of its cluster."""
        return X[:, columns] if self.kernel == "precomputed" else X

    def _bisect(self, X: Any, rng: np.random.RandomState) -> Ints:
        """Split all rows into two clusters and keep the SVM."""
        n = X.shape[0]
        # ceil((N - beta) / 2) of each sign, despite rounding errors, and at most half of the rows
        labels = BoundedLabels(n, min(int(np.ceil(n * (1 - self.balance) / 2 - 1e-9)), n // 2))
        with one_core_if_few(X.size):
            (result,) = self._learn(X, [labels], int(rng.randint(2**31 - 1)))
        mixture = result.solution
        self.label_vectors_, self.label_weights_ = mixture.signs.T.copy(), mixture.weights
        scores = self._score_rows(X)[:, 0]
        signs = labels.choose(scores, np.ones(n), scores)[1]
        if n > 1 and (signs != np.where(scores > 0, 1, -1)).any():
            shift = (scores[signs < 0].max() + scores[signs > 0].min()) / 2
            self.intercept_ = self.intercept_ - shift
        return (signs > 0).astype(np.int64)

    def _generate(self, rows: Any, labels: BoundedLabels, seed: int) -> SolverResult:
        n = labels.n_rows
        order = canonical_order(rows, np.zeros(n))
        return well_svm(
            rows,
            labels,
            np.full(n, 10.0 / n if self.C == "auto" else self.C),
            aligned_start(rows, labels, order, self.n_init, seed),
            order=order,
            tol=self.tol,
            max_cuts=self.max_cuts,
            seed=seed,
            track=lambda it: self._track(it, "label vector"),
        )
