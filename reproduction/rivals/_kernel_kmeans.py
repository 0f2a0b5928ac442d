"""KernelKMeans: k-means in the feature space of a kernel."""

from dataclasses import KW_ONLY
from typing import Any, Self

import numpy as np
from sklearn.base import ClusterMixin
from sklearn.utils import check_random_state

from bagwise import loops
from bagwise._common.sklearn import StrOptions
from bagwise._common.types import Ints
from bagwise.base import RowEstimator, fit_method
from bagwise.base._kernel_machine import KernelMachine
from bagwise.base._parameters import with_parameters
from bagwise.loops.threads import one_core_if_few
from bagwise.validation import check_rows
from reproduction.rivals._row_clusterer import check_number_of_rows
from reproduction.rivals.solvers.kernel_kmeans import first_labels, kernel_kmeans, squared_lengths


@with_parameters
class KernelKMeans(ClusterMixin, KernelMachine, RowEstimator):
    r"""k-means in the feature space of a kernel.

    .. math:: \min \sum_i |\phi(x_i) - m_{k(i)}|^2

    over clusters k and their means m, by Lloyd's algorithm with several initialisations. With the
    linear kernel it is k-means.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    {kernel}
    {gamma}
    {degree}
    {coef0}
    init : {"k-means++", "random", "alignment"}, default="k-means++"
        The first labels: the nearest of rows drawn far from each other, random balanced labels, or
        the best aligned with the kernel of twenty such labelings.
    n_init : int, default=10
        Number of starts; the best outcome is kept.
    max_iter : int, default=300
        Maximum number of iterations per initialisation.
    random_state : int, RandomState or None, default=None
        For the first labels.
    {verbose}

    Attributes
    ----------
    labels_ : ndarray of shape (n_rows,)
        The cluster of each training row.
    inertia_ : float
        The sum of squares.
    coef_ : ndarray of shape (n_clusters, n_features)
        Twice the means (linear kernel): scores are minus squared distances, without ``x @ x``.
    support_ : ndarray of shape (n_support,)
        Positions of the training rows with non-zero weight (nonlinear kernels).
    support_vectors_ : ndarray or CSR of shape (n_support, n_features)
        Those rows.
    dual_coef_ : ndarray of shape (n_clusters, n_support)
        Twice the shares of these rows in the means.
    {gamma_}
    intercept_ : ndarray of shape (n_clusters,)
        Minus the squared lengths of the means.
    objective_curve_ : ndarray of shape (n_iterations,)
        The sum of squares of the best start after each round; it never rises.
    n_iter_ : int
        Number of rounds of the best start.
    {n_features_in_}

    Notes
    -----
    Standardise dense features first.

    Cost of a round: the kernel between all rows, kept in memory up to 3,000 rows and computed in
    blocks beyond.

    References
    ----------
    Schölkopf, Smola, Müller. Nonlinear component analysis as a kernel eigenvalue problem. Neural
    Computation 10, 1998.

    Examples
    --------
    >>> from reproduction.rivals import KernelKMeans
    >>> X = [[0.0], [0.3], [0.6], [2.0], [2.3], [2.6]]
    >>> labels = KernelKMeans(n_clusters=2, random_state=0).fit_predict(X)
    >>> (labels == labels[0]).tolist()
    [True, True, True, False, False, False]
    """

    _parameter_constraints = {"init": [StrOptions({"k-means++", "random", "alignment"})]}

    n_clusters: int = 8
    _: KW_ONLY
    kernel: Any = "rbf"
    gamma: Any = "scale"
    degree: float = 3
    coef0: float = 1.0
    init: str = "k-means++"
    n_init: int = 10
    max_iter: int = 300
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
            Not used.

        Returns
        -------
        self
        """
        rows = check_rows(self, X, reset=True, min_rows=self.n_clusters)
        if self.kernel != "linear":
            check_number_of_rows("KernelKMeans with a kernel", rows.shape[0])
        space = self._space(rows.astype(np.float64, copy=False))
        rng = check_random_state(self.random_state)
        with one_core_if_few(rows.size):
            lengths = squared_lengths(space)
            results = []
            for _ in self._track(range(self.n_init), "start"):
                labels = first_labels(space, lengths, self.n_clusters, self.init, rng)
                found = kernel_kmeans(space, lengths, labels, self.n_clusters, self.max_iter)
                results.append(found)
        ends = np.array([result.objective_curve[-1] for result in results])
        best = results[int(loops.ties.settled(ends).argmin())]
        self._keep_progress(best, "raise max_iter")
        labels, coef, intercept = best.solution
        self._keep(space, coef, intercept)
        self.labels_ = labels
        self.inertia_ = float(best.objective_curve[-1])
        return self

    def predict(self, X: Any) -> Ints:
        """Predict the nearest cluster of each row.

        Parameters
        ----------
        X : array-like or CSR of shape (n_rows, n_features)
            The rows.

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        return loops.ties.settled(self._evaluate(X, self._score), axis=1).argmax(axis=1)
