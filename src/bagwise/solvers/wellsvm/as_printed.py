"""WellSVM as printed: Algorithms 1 to 4 of Li 2013, with hinge or squared hinge loss.

A *variable* i of the SVM is represented, under the label vector t, by signed rows: the rows of a
sparse matrix B_t of shape (n_variables, n_rows). One signed row for a semi-supervised problem or a
clustering; the key instances of a positive bag, or one instance of a negative bag, for bags. With

    v_t = sum_i a_i sum_j B_tij phi(x_j)   and   w_t = mu_t v_t

the dual of the SVM under the weights mu of the label vectors is

    hinge:          max_a 1'a - 1/2 sum_t mu_t |v_t|^2,   0 <= a_i <= C_i
    squared hinge:  max_a -1/2 (sum_t mu_t |v_t|^2 + sum_i a_i^2 / C_i),   a >= 0, 1'a = 1

The second one is the nu-SVM of the paper: 1 / C_i is added to the diagonal of the Gram matrix.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.svm import OneClassSVM

from bagwise import loops
from bagwise._common.memory import require_memory
from bagwise._common.types import Array, Floats, Ints
from bagwise.solvers.result import SolverResult
from bagwise.solvers.wellsvm.well_svm import Mixture

MAX_STEPS = 1000  # of label-kernel learning; the paper observed less than 100
MAX_PASSES = 10_000  # of the coordinate descent over the variables
LEAST_TOL = 1e-10  # of an SVM

Generator = Callable[[Floats, Floats, Floats], Any]  # scores of a label vector, a, scores of f -> B


def as_printed(
    rows: Any,
    generate: Generator,
    costs: Floats,
    first: Any,
    *,
    loss: str,
    tol: float,
    max_iter: int,
    order: Ints,
    track: Callable[[Any], Any] = iter,
) -> SolverResult:
    """Fit the model by cutting planes (Algorithm 1) from an initial label vector.

    Parameters
    ----------
    rows : Rows
        The rows.
    generate : callable
        Maps the scores of the rows under a label vector, a, and the scores of the model (for ties)
        to the label vector of Eq. 16, 24 or 31.
    costs : ndarray of shape (n_variables,)
        C of each variable.
    first : csr_array of shape (n_variables, n_rows)
        The initial label vector.
    loss : {"hinge", "squared_hinge"}
        The loss.
    tol : float
        Absolute violation of the new label vector (epsilon) and decrease of the objective at which
        to stop, and largest change of mu at which label-kernel learning stops.
    max_iter : int
        Maximum number of label vectors.
    order : ndarray of int64 of shape (n_variables,)
        Order of the variables before the coordinate descent shuffles them.
    track : callable, default=iter
        Wraps the iterations, to show progress.

    Returns
    -------
    SolverResult
        ``solution`` is a `Mixture`, whose `signs` are those of the rows (0: not used) and whose
        `picks` are empty; the curve is the objective after each label vector.
    """
    svm = _MixedSVM(rows, costs, loss, tol, order)
    curve: list[float] = []
    converged, label = False, first
    for _ in track(range(max_iter)):
        svm.add(label)
        curve.append(svm.learn())
        squares = svm.squares()
        worst = svm.vectors()[int(np.argmax(squares))]
        of_worst, of_f = (loops.dual_descent.score(rows, v) for v in (worst, svm.f()))
        label = generate(of_worst, svm.alpha, of_f)
        violation = (svm.square(label) - squares.max()) / 2
        decrease = curve[-2] - curve[-1] if len(curve) > 1 else np.inf
        converged = violation <= tol or decrease <= tol
        if converged:
            break
    gap = violation + (squares.max() - svm.mu @ squares) / 2
    signs = np.array([B.sum(axis=0) for B in svm.labels], np.int8).T
    scale = np.array(max(gap, 0.0) / max(abs(curve[-1]), np.finfo(float).tiny))
    coef = svm.mu @ svm.coefs()
    found = Mixture(svm.f(), coef, np.empty((0, 0), np.int64), signs, svm.mu, scale)
    return SolverResult(found, curve, converged)


def scores_of_svm(
    rows: Any, label: Any, costs: Floats, *, loss: str, tol: float, order: Ints
) -> Floats:
    """Scores of all rows by the SVM of one label vector.

    Parameters
    ----------
    rows, costs, loss, tol, order
        As in `as_printed`.
    label : sparse array of shape (n_variables, n_rows)
        The signed rows, or weighted sums of rows, of each variable.

    Returns
    -------
    ndarray of shape (n_rows,)
    """
    svm = _MixedSVM(rows, costs, loss, tol, order)
    svm.add(label)
    svm.learn()
    return loops.dual_descent.score(rows, svm.f())


def signed(signs: Ints) -> Any:
    """The label vector in which each row is a variable of its own.

    Parameters
    ----------
    signs : ndarray of shape (n_rows,)
        The labels, 1 and -1; rows of label 0 are no variables.

    Returns
    -------
    csr_array of shape (n_variables, n_rows)
    """
    used = np.flatnonzero(signs)
    entries = (signs[used].astype(np.float64), used, np.arange(len(used) + 1))
    return sparse.csr_array(entries, shape=(len(used), len(signs)))


def best_rows(scores: Floats, offsets: Ints, positive: Array, n_keys: int) -> Any:
    """The label vector with the `n_keys` highest scores of each positive bag as key instances.

    Parameters
    ----------
    scores : ndarray of shape (n_rows,)
        The scores of the instances.
    offsets : ndarray of shape (n_bags + 1,)
        Where each bag begins.
    positive : ndarray of bool of shape (n_bags,)
        Which bags are positive.
    n_keys : int
        Number of key instances; all of a smaller bag.

    Returns
    -------
    csr_array of shape (n_positive_bags + n_negative_instances, n_rows)
        First the positive bags: the sum of their key instances; then the negative instances.
    """
    bag = np.repeat(np.arange(len(positive)), np.diff(offsets))
    inside = positive[bag]
    ranked = np.lexsort((-loops.ties.settled(scores), bag))
    rank = np.arange(len(bag)) - offsets[bag]  # of the rows `ranked`, inside their bags
    keys = np.sort(ranked[(rank < n_keys) & inside])
    negative = np.flatnonzero(~inside)
    n_positive = int(positive.sum())
    variable = np.append(np.cumsum(positive)[bag[keys]] - 1, n_positive + np.arange(len(negative)))
    values = np.repeat([1.0, -1.0], [len(keys), len(negative)])
    shape = n_positive + len(negative), len(bag)
    return sparse.csr_array((values, (variable, np.append(keys, negative))), shape=shape)


class _MixedSVM:
    """The SVM of weighted label vectors, and multiple label-kernel learning (Section 4.1.2)."""

    def __init__(self, rows: Any, costs: Floats, loss: str, tol: float, order: Ints) -> None:
        self.rows, self.costs, self.order = rows, costs, order
        self.nu_form, self.tol = loss == "squared_hinge", tol
        self.gram: Any = None
        if self.nu_form or rows.kind == loops.dual_descent.GRAM:
            self.gram = _gram(rows)
        self.labels: list[Any] = []
        self.tables: list[Any] = []  # of each label vector: its Gram matrix, or its features
        self.mu, self.alpha = np.ones(0), np.zeros(len(costs))

    def add(self, label: Any) -> None:
        """Add a label vector with weight 1 / T."""
        self.labels.append(label)
        if self.gram is None:
            self.tables.append(label @ _features(self.rows))
        else:
            self.tables.append(label @ (label @ self.gram).T)
        n = len(self.labels)
        self.mu = np.append(self.mu * (n - 1) / n, 1 / n)

    def learn(self) -> float:
        """Alternate between the SVM and mu_t = |w_t| / sum_s |w_s|; return the objective."""
        for _ in range(MAX_STEPS):
            self._fit()
            lengths = self.mu * np.sqrt(self.squares())
            mu = lengths / lengths.sum() if lengths.any() else self.mu
            if len(mu) == 1 or np.abs(mu - self.mu).max() <= self.tol:
                break
            self.mu = mu
        value = -(self.mu @ self.squares()) / 2
        if self.nu_form:
            return float(value - self.alpha @ (self.alpha / self.costs) / 2)
        return float(value + self.alpha.sum())

    def _fit(self) -> None:
        """Optimise a for fixed mu: LIBSVM, or coordinate descent as in LIBLINEAR (Hsieh 2008)."""
        n = len(self.costs)
        if self.nu_form:
            self.alpha = np.ones(n)
            if n > 1:  # nu = 1 / n of LIBSVM: 1'a = 1
                mixed = _weighted_sum(self.tables, self.mu) + np.diag(1 / self.costs)
                tol = max(self.tol / 10, LEAST_TOL)
                found = OneClassSVM(kernel="precomputed", nu=1 / n, tol=tol).fit(mixed)
                self.alpha *= 0
                self.alpha[found.support_] = found.dual_coef_[0] / found.dual_coef_.sum()
            return
        # scikit-learn's LIBLINEAR does not return a, and LIBSVM has an offset.
        if self.gram is not None:
            machine = loops.dual_descent.gram_rows(_weighted_sum(self.tables, self.mu))
        else:
            parts = [np.sqrt(m) * part for m, part in zip(self.mu, self.tables, strict=True)]
            wide = sparse.hstack(parts, "csr") if sparse.issparse(parts[0]) else np.hstack(parts)
            machine = loops.dual_descent.rows_of(wide)
        tol = max(self.tol / (10 * max(1.0, self.costs.sum())), LEAST_TOL)
        how: Any = {"order": self.order, "tol": tol, "max_passes": MAX_PASSES}
        rows, signs = np.arange(n), np.ones(n)
        loops.dual_descent.descend_alone(machine, rows, signs, self.costs, self.alpha, **how)

    def coefs(self) -> Floats:
        """Weight of each row in each v_t."""
        return np.array([label.T @ self.alpha for label in self.labels])

    def vectors(self) -> list[Floats]:
        """v_t of each label vector."""
        return [loops.dual_descent.combine(self.rows, coef) for coef in self.coefs()]

    def f(self) -> Floats:
        """The model sum_t w_t."""
        return loops.dual_descent.combine(self.rows, self.mu @ self.coefs())

    def squares(self) -> Floats:
        """|v_t|^2 of each label vector."""
        return np.array([self.square(label) for label in self.labels])

    def square(self, label: Any) -> float:
        """|v|^2 of a label vector."""
        coef = label.T @ self.alpha
        v = loops.dual_descent.combine(self.rows, coef)
        return loops.dual_descent.square(self.rows, coef, v)


def _features(rows: Any) -> Any:
    if rows.kind != loops.dual_descent.SPARSE:
        return rows.values
    return sparse.csr_array((rows.data, rows.indices, rows.indptr), (rows.n_rows, rows.n_features))


def _gram(rows: Any) -> Array:
    """Kernel values between all rows."""
    if rows.kind == loops.dual_descent.GRAM:
        return rows.values
    require_memory(
        3 * 8.0 * rows.n_rows**2,
        purpose=f"the kernel matrix of {rows.n_rows:,} rows and two of the same size",
        remedy="fit part of the rows, or use loss='hinge' with kernel='linear'",
    )
    X = _features(rows)
    K = X @ X.T
    return K.toarray() if sparse.issparse(K) else K


def _weighted_sum(tables: list[Array], weights: Floats) -> Array:
    total = weights[0] * tables[0]
    for weight, table in zip(weights[1:], tables[1:], strict=True):
        total += weight * table
    return total
