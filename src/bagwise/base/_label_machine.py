"""Base class of the three WellSVM estimators: the kernel, the fitted SVM and its scores."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from bagwise import loops
from bagwise._common.memory import require_memory
from bagwise._common.types import Array
from bagwise.base._finite import column_range
from bagwise.base._kernel_machine import KernelMachine, nystroem_of, transformed
from bagwise.base._parameters import COUNT, NOT_NEGATIVE, PRECOMPUTED_TOO
from bagwise.exceptions import InputError
from bagwise.solvers.result import SolverResult

SINGLE_GRAM = 5_000  # rows; beyond, the kernel matrix is kept in single precision


class LabelMachine(KernelMachine):
    """Linear and kernel SVMs with a regularised offset, trained by label generation.

    A subclass has the parameters `kernel`, `gamma`, `offset`, `tol`, `max_cuts` and `random_state`,
    and solves one problem by `_generate`. Rows and kernels are centred, so that 0 is the mean of
    the data; the constant feature `offset` lets the hyperplane move away from it.

    Attributes
    ----------
    degree, coef0 : float
        Parameters of polynomial kernels.
    center : bool
        Whether to centre; the paper does not.
    largest_gram, n_landmarks : int
        Number of rows beyond which the kernel is approximated, and of features that do so.
    """

    degree = 3
    coef0 = 1.0
    center = True
    largest_gram, n_landmarks = 20_000, 1_000
    _budget = "max_cuts"  # the parameter that limits the number of label vectors
    _generate: Any  # (rows, labels, seed) -> SolverResult

    _parameter_constraints: dict[str, Any] = {
        "kernel": PRECOMPUTED_TOO,
        "offset": [NOT_NEGATIVE],
        "max_cuts": [COUNT],
    }

    @property
    def _accepts_sparse(self) -> bool:  # type: ignore[override]
        return self.kernel != "precomputed"

    def _learn(self, X: Any, problems: Sequence[Any], seed: int) -> list[SolverResult]:
        """Fit and store an SVM for each set of admissible labels."""
        rows, centre = self._present(X, seed)
        each = iter(problems) if len(problems) == 1 else self._track(problems, "class")
        results = [self._generate(rows, labels, seed) for labels in each]
        self._keep_machines(X, rows, centre, results)
        return results

    def _present(self, X: Any, seed: int) -> tuple[Any, Array]:
        """Centre the training rows in the feature space and add the constant feature.

        Returns them as `loops.dual_descent` reads them, and what was subtracted from the features,
        or from the kernel values.
        """
        n = X.shape[0]
        if self.kernel == "precomputed":
            if n != X.shape[1]:
                raise InputError(
                    f"a precomputed kernel of {n} rows has {X.shape[1]} columns: expected {n}."
                )
            return self._present_gram(X)
        if self.kernel != "linear":
            self.gamma_ = self._width(X)
            if n <= self.largest_gram:
                require_memory(
                    (16.0 if n <= SINGLE_GRAM else 12.0) * n**2,
                    purpose=f"the kernel matrix of {n:,} rows and a copy",
                    remedy="fit part of the rows, or use kernel='linear'",
                )
                return self._present_gram(self._kernel_values(X, X, self.gamma_))
            self.nystroem_ = nystroem_of(self, self.gamma_, self.n_landmarks, seed, X)
            X = transformed(self.nystroem_, X, np.float32)
        centre = None
        if self.center:
            # Clipped to the range of each feature: rounding would make a constant tiny values.
            centre = np.asarray(X.mean(axis=0, dtype=np.float64)).ravel().clip(*column_range(X))
        ours = hasattr(self, "nystroem_")
        rows = loops.dual_descent.rows_of(X, centre=centre, overwrite=ours)
        rows = self._with_offset(rows)
        return rows, np.zeros(X.shape[1]) if centre is None else centre

    def _present_gram(self, K: Array) -> tuple[Any, Array]:
        kind = np.float64 if len(K) <= SINGLE_GRAM else np.float32
        K = K.astype(kind, copy=self.center)
        centre = np.zeros(len(K))
        if self.center:
            means = K.mean(axis=0, dtype=np.float64)
            centre = means - means.mean() / 2
            K -= centre.astype(kind)
            K -= centre.astype(kind)[:, None]
        return self._with_offset(loops.dual_descent.gram_rows(K)), centre

    def _with_offset(self, rows: Any) -> Any:
        """Add the constant feature, in units of the root mean square norm of the rows."""
        constant = self.offset * float(np.sqrt(rows.squares.mean()))
        return loops.dual_descent.with_constant(rows, constant)

    def _keep_machines(
        self, X: Any, rows: Any, centre: Array, results: Sequence[SolverResult]
    ) -> None:
        """Store the SVMs as hyperplanes, or as weights of training rows."""
        f = np.array([result.solution.f for result in results])
        coef = np.array([result.solution.coef for result in results])
        constant = rows.score_factors[0, 0] * f[:, rows.n_features]
        if rows.kind != loops.dual_descent.GRAM:
            self.coef_ = f[:, : rows.n_features]
            if rows.kind == loops.dual_descent.SPARSE:
                self.coef_ = self.coef_ - coef.sum(axis=1)[:, None] * centre
            self.intercept_ = constant - self.coef_ @ centre
        else:
            # A centred kernel value is the plain one minus means over the training rows.
            total = coef.sum(axis=1)
            self.dual_coef_ = coef - total[:, None] / len(centre) if self.center else coef
            self.intercept_ = constant - coef @ centre + total * centre.mean()
            self.support_ = np.flatnonzero(np.any(self.dual_coef_ != 0, axis=0))
            self.dual_coef_ = self.dual_coef_[:, self.support_]
            if self.kernel != "precomputed":
                self.support_vectors_ = X[self.support_]
        self.duality_gap_ = float(max(result.solution.gap for result in results))
        advice = "scale the features, or lower the costs and the offset"
        budget = getattr(self, self._budget)
        if max(result.n_iter for result in results) >= budget:  # labels are still violated
            advice = f"raise {self._budget}, or lower the cost of unlabelled data"
        self._keep_progress(results, advice)

    def _score_rows(self, X: Any) -> Array:
        """Scores of validated rows, of shape (n_rows, n_machines)."""
        if self.kernel == "precomputed":
            return X[:, self.support_] @ self.dual_coef_.T + self.intercept_
        return super()._score_rows(X)
