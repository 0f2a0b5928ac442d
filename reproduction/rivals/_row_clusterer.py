"""Base class of the clusterers of plain rows."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from sklearn.base import ClusterMixin
from sklearn.utils import check_random_state

from bagwise._common.types import Floats, Ints
from bagwise.base import RowEstimator, fit_method
from bagwise.base._kernel_machine import KernelMachine
from bagwise.exceptions import InputError
from bagwise.loops.threads import one_core_if_few
from bagwise.solvers.margin.feature_space import FeatureSpace
from bagwise.solvers.result import SolverResult
from bagwise.validation import check_rows
from reproduction.rivals.solvers.kernel_kmeans import first_labels, kernel_kmeans, squared_lengths
from reproduction.rivals.solvers.linear_algebra import one_core_if_sparse

MOST_ROWS = 20_000  # maximum for methods that compare all pairs of rows in each round


def check_number_of_rows(name: str, n_rows: int) -> None:
    """Raise an error if there are too many rows to compare all pairs in each round.

    Parameters
    ----------
    name : str
        Name of the method.
    n_rows : int
        Number of rows.
    """
    if n_rows > MOST_ROWS:
        raise InputError(
            f"X has {n_rows:,} rows, and {name} compares all {n_rows**2 / 1e9:,.1f} billion pairs "
            f"in each round: it is for {MOST_ROWS:,} rows at most. Fit part of the rows and "
            "predict the others, or use sklearn.kernel_approximation.Nystroem and a linear method."
        )


class TwoWayClusterer(ClusterMixin, KernelMachine, RowEstimator):
    """A linear or kernel model that splits rows into two clusters; a subclass defines `_solve`."""

    @fit_method
    def fit(self, X: Any, y: Any = None) -> Self:
        """Split the rows into two clusters.

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
        rows = check_rows(self, X, reset=True, min_rows=2).astype(np.float64, copy=False)
        if self.kernel != "linear":
            check_number_of_rows(f"{type(self).__name__} with a kernel", rows.shape[0])
        space = self._space(rows)
        result = self._solve(space, rows)
        self._keep_progress(result, "raise max_iter, scale the features, or lower C")
        coef, intercept = result.solution
        self._keep(space, coef[None], np.atleast_1d(intercept))
        self.labels_ = (self._score_rows(rows)[:, 0] > 0).astype(np.int64)
        return self

    def decision_function(self, X: Any) -> Floats:
        """Score each row: positive in cluster 1.

        Parameters
        ----------
        X : array-like or CSR of shape (n_rows, n_features)
            The rows.

        Returns
        -------
        ndarray of shape (n_rows,)
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
            0 or 1.
        """
        return (self.decision_function(X) > 0).astype(np.int64)

    def _solve(self, space: FeatureSpace, rows: Any) -> SolverResult:
        """Fit the model; ``solution`` is (coef of rows, intercept)."""
        raise NotImplementedError

    def _improve(
        self, solver: Callable[..., SolverResult], space: FeatureSpace, rows: Any
    ) -> SolverResult:
        """Run a solver that starts from labels 1 and -1, chosen by `init`."""
        with one_core_if_few(rows.size), one_core_if_sparse(rows):
            return solver(
                space,
                self._start(space),
                C=self.C,
                balance=self.balance,
                tol=self.tol,
                steps=self._track(range(self.max_iter), "round"),
            )

    def _start(self, space: FeatureSpace) -> Ints:
        """Initial labels 1 and -1, by kernel k-means or the best of random labelings."""
        rng = check_random_state(self.random_state)
        lengths = squared_lengths(space)
        by = "k-means++" if self.init == "kmeans" else "alignment"
        labels = first_labels(space, lengths, 2, by, rng)
        if self.init == "kmeans":
            labels = kernel_kmeans(space, lengths, labels, 2, max_iter=100).solution[0]
        return np.where(labels == 1, 1, -1)
