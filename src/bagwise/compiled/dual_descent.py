"""Dual coordinate descent for SVMs without offset, under one or several label vectors.

    max_a  1'a - 1/2 sum_t mu_t |v_t|^2,   v_t = sum_i a_i s_it x_(r_it),   0 <= a_i <= C_i

A *variable* i has, under the label vector t, the row r_it and the sign s_it; one label vector makes
the ordinary SVM. The state is the mean f = sum_t mu_t v_t and the deviations E_t = v_t - f, so that
a variable that is the same under all label vectors touches f only, at the price of an ordinary SVM.

Rows are dense, CSR, or a Gram matrix; then f and E hold scores of the rows instead of features.
Vectors have further entries for a constant feature that stands in for the offset, and for centring
sparse rows without writing them out: with the mean m, v = u - t m where u = sum_i c_i x_i and
t = sum_i c_i, so (x_i - m) . v = x_i . u - t (x_i . m - |m|^2) - m . u. The score of
a row reads the entries t and m . u with the factors |m|^2 - x_i . m and -1 (`score_factors`); a row
in a sum adds 1 and x_i . m to them (`sum_factors`).
"""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils.extmath import row_norms

from bagwise._types import Array, Bools, Floats, Ints
from bagwise.compiled.compilation import compiled, read_only
from bagwise.compiled.threads import even_bounds, run_blocks

_compiled = compiled()
_summing = compiled(fastmath={"reassoc", "contract"})

DENSE, SPARSE, GRAM = 0, 1, 2
WORK = 10**8  # multiplications of one compiled call, about
SHRINK = 0.05  # a variable at its bound and this far beyond the margin is left alone for a while


class Rows(NamedTuple):
    """Rows as the compiled code reads them: made by `rows_of` or `gram_rows`."""

    kind: int
    values: Array
    data: Array
    indices: Array
    indptr: Array
    n_rows: int
    n_features: int
    score_factors: Floats
    sum_factors: Floats
    squares: Floats

    @property
    def width(self) -> int:
        """Length of a vector such as f."""
        return self.n_features + self.score_factors.shape[1]


class Descent(NamedTuple):
    """What `descend` found out: passes over the variables, primal value, duality gap."""

    n_passes: int
    primal: float
    gap: float


def rows_of(X: Any, constant: float = 0.0, centre: Floats | None = None) -> Rows:
    """Present a table of features.

    Parameters
    ----------
    X : ndarray or CSR of shape (n_rows, n_features)
        The rows; not copied, unless dense and to be centred.
    constant : float, default=0.0
        Value of a further feature, the same for all rows: its weight is the offset.
    centre : ndarray of shape (n_features,), default=None
        What to subtract from each row.

    Returns
    -------
    Rows
    """
    n_rows, n_features = X.shape
    if not sparse.issparse(X) and centre is not None:
        X = X - centre.astype(X.dtype)
    squares = row_norms(X, squared=True).astype(np.float64) + constant**2
    for_score = for_sum = np.full((n_rows, 1), float(constant))
    if not sparse.issparse(X):
        return Rows(DENSE, *_dense(X), n_rows, n_features, for_score, for_sum, squares)
    if centre is not None:
        along, length = X @ centre, float(centre @ centre)
        ones = np.ones(len(along))
        for_score = np.column_stack([for_score, length - along, -ones])
        for_sum = np.column_stack([for_sum, ones, along])
        squares += length - 2 * along
    squares = np.maximum(squares, 0.0)
    table = _presented(np.empty((0, 0), X.data.dtype), X.data, X.indices, X.indptr)
    return Rows(SPARSE, *table, n_rows, n_features, for_score, for_sum, squares)


def gram_rows(K: Array, constant: float = 0.0) -> Rows:
    """Present a kernel matrix.

    Parameters
    ----------
    K : ndarray of shape (n_rows, n_rows)
        Kernel values between the rows, symmetric; not copied.
    constant : float, default=0.0
        Value of a further feature, the same for all rows: its weight is the offset.

    Returns
    -------
    Rows
    """
    extra = np.full((len(K), 1), float(constant))
    squares = np.diagonal(K).astype(np.float64) + constant**2
    return Rows(GRAM, *_dense(K), len(K), len(K), extra, extra, squares)


def score(rows: Rows, vector: Floats) -> Floats:
    """Products of all rows with a vector.

    Parameters
    ----------
    rows : Rows
        The rows.
    vector : ndarray of shape (width,)
        Such as f.

    Returns
    -------
    ndarray of shape (n_rows,)
    """
    if rows.kind == SPARSE:
        out = np.empty(rows.n_rows)
        bounds = even_bounds(rows.n_rows, len(rows.data))
        run_blocks(_score, bounds, rows, vector, out)
        return out
    head = vector[: rows.n_features]
    if rows.kind == DENSE:
        head = rows.values @ head.astype(rows.values.dtype, copy=False)
    return head + rows.score_factors @ vector[rows.n_features :]


def combine(rows: Rows, coef: Floats) -> Floats:
    """The vector v = sum_i coef_i x_i, whose `score` is K coef.

    Parameters
    ----------
    rows : Rows
        The rows.
    coef : ndarray of shape (n_rows,)
        Their weights.

    Returns
    -------
    ndarray of shape (width,)
    """
    out = np.zeros(rows.width)
    if rows.kind == SPARSE:
        _combine(rows, coef, out)
    else:
        out[: rows.n_features] = coef.astype(rows.values.dtype, copy=False) @ rows.values
        out[rows.n_features :] = coef @ rows.sum_factors
    return out


def square(rows: Rows, coef: Floats, vector: Floats) -> float:
    """|v|^2 of the vector that `coef` combines to.

    Parameters
    ----------
    rows : Rows
        The rows.
    coef : ndarray of shape (n_rows,)
        The weights of the rows.
    vector : ndarray of shape (width,)
        Their `combine`.

    Returns
    -------
    float
    """
    if rows.kind == GRAM:
        return float(coef @ score(rows, vector))
    plain = vector[: rows.n_features + 1]
    total = float(plain @ plain)
    if rows.score_factors.shape[1] == 3:  # |u - t m|^2
        t, along = vector[rows.n_features + 1 :]
        total += float(t * t * (rows.score_factors[0, 1] + rows.sum_factors[0, 2]) - 2 * t * along)
    return total


def descend(
    rows: Rows,
    pick: Ints,
    signs: Ints,
    weights: Floats,
    costs: Floats,
    alpha: Floats,
    f: Floats,
    E: Floats,
    *,
    order: Ints,
    tol: float,
    max_passes: int,
    seed: int = 0,
) -> Descent:
    """Maximise over a, from where `alpha`, `f` and `E` are; changes the three in place.

    Parameters
    ----------
    rows : Rows
        The rows.
    pick : ndarray of int64 of shape (n_variables, 1) or (n_variables, n_labels)
        The row of each variable; one column where it is the same under all label vectors.
    signs : ndarray of int8 of shape (n_variables, n_labels)
        Its sign under each label vector.
    weights : ndarray of shape (n_labels,)
        mu, of sum 1.
    costs : ndarray of shape (n_variables,)
        C of each variable.
    alpha : ndarray of shape (n_variables,)
        The dual variables.
    f : ndarray of shape (width,)
        sum_t mu_t v_t of these `alpha`.
    E : ndarray of shape (width, n_labels)
        v_t - f; may be empty for one label vector.
    order : ndarray of int64 of shape (n_variables,)
        The variables, in the order that is then shuffled; one that does not depend on the order of
        the rows makes a result that does not.
    tol : float
        Duality gap to stop at, relative to the primal value.
    max_passes : int
        Most passes over variables.
    seed : int, default=0
        Of the shuffling.

    Returns
    -------
    Descent

    Examples
    --------
    An ordinary SVM without offset:

    >>> import numpy as np
    >>> from bagwise.compiled import dual_descent
    >>> X, y = np.array([[1.0], [3.0], [-2.0]]), np.array([1, 1, -1], dtype=np.int8)
    >>> alpha, f = np.zeros(3), np.zeros(2)
    >>> found = dual_descent.descend(
    ...     dual_descent.rows_of(X), np.arange(3)[:, None], y[:, None], np.ones(1), np.ones(3),
    ...     alpha, f, np.empty((2, 0)), order=np.arange(3), tol=1e-6, max_passes=100,
    ... )
    >>> f[0].round(3), bool(found.gap < 1e-6)
    (np.float64(1.0), True)
    """
    same = (signs == signs[:, :1]).all(axis=1) & (pick == pick[:, :1]).all(axis=1)
    n = len(alpha)
    active, gradient, slack = order.copy(), np.empty(n), np.empty(n)
    at = np.array([0, n, n, -1])  # passes, active variables, those at the pass's start, the next
    random = np.array([2 * seed + 1], np.uint64)
    # Between two calls, each some tenths of a second, Python handles signals such as Ctrl-C.
    visits = max(1, WORK // _cost_of_visit(rows, pick, signs, same))
    primal = gap = np.inf
    done = max_passes < 1
    while not done:
        done, primal, gap = _descend(
            rows, pick, signs, same, weights, costs, alpha, f, E, order, tol, max_passes,
            active, gradient, slack, at, random, visits,
        )  # fmt: skip
    return Descent(int(at[0]), primal, gap)


def _cost_of_visit(rows: Rows, pick: Ints, signs: Ints, same: Bools) -> int:
    """About how many multiplications one variable costs."""
    length = len(rows.data) // max(rows.n_rows, 1) if rows.kind == SPARSE else rows.n_features
    n_labels = 1 if same.all() else signs.shape[1]
    return 10 + 2 * length * n_labels * (n_labels if pick.shape[1] > 1 else 1)


def _dense(table: Array) -> tuple[Array, Array, Array, Array]:
    """A dense table as the four arrays of `Rows`; those of CSR are empty."""
    none = np.empty(0, np.int32)
    return _presented(np.ascontiguousarray(table), np.empty(0, table.dtype), none, none)


def _presented(
    values: Array, data: Array, indices: Array, indptr: Array
) -> tuple[Array, Array, Array, Array]:
    values, data, indices, indptr = read_only(values, data, indices, indptr)
    return values, data, indices, indptr


@_compiled
def _descend(  # type: ignore[no-untyped-def]
    rows, pick, signs, same, weights, costs, alpha, f, E, order, tol, max_passes,
    active, gradient, slack, at, random, visits,
):  # fmt: skip
    """Go on from where `at` is, for so many visits of variables; whether it came to the end.

    The slack of a variable is what it adds to the duality gap.
    """
    n = len(alpha)
    n_passes, n_active, n_begun, begin = at[0], at[1], at[2], at[3]
    state = random[0]
    primal = gap = np.inf
    done = False
    while visits > 0 and not done:
        if begin < 0:
            n_passes += 1
            n_begun = n_active
            for last in range(n_active - 1, 0, -1):
                state ^= state << np.uint64(13)
                state ^= state >> np.uint64(7)
                state ^= state << np.uint64(17)
                other = np.int64(state % np.uint64(last + 1))
                active[last], active[other] = active[other], active[last]
            begin = 0
        begin, n_active, visits = _visit(
            rows, pick, signs, same, weights, costs, alpha, f, E, active, begin, n_active,
            gradient, slack, visits,
        )  # fmt: skip
        if begin < n_active:
            break
        begin = -1
        primal, gap = _values(alpha, costs, gradient, slack)
        small = gap <= tol * primal
        done = (small and n_begun == n) or n_passes >= max_passes
        if small or n_active == 0:
            active[:] = order  # those that were left alone are visited once more
            n_active = n
    at[0], at[1], at[2], at[3] = n_passes, n_active, n_begun, begin
    random[0] = state
    return done, primal, gap


@_compiled
def _visit(  # type: ignore[no-untyped-def]
    rows, pick, signs, same, weights, costs, alpha, f, E, active, at, n_active, gradient, slack,
    visits,
):  # fmt: skip
    """A pass over the active variables, or a part of it; those left alone go behind the others."""
    n_labels = signs.shape[1]
    mixed = np.empty(n_labels)
    while at < n_active and visits > 0:
        visits -= 1
        i = active[at]
        cost, old = costs[i], alpha[i]
        if same[i]:
            G = signs[i, 0] * _dot(rows, pick[i, 0], f) - 1.0
            curvature = rows.squares[pick[i, 0]]
        elif pick.shape[1] == 1:
            mean = 0.0
            for t in range(n_labels):
                mixed[t] = weights[t] * signs[i, t]
                mean += mixed[t]
            G = _dot_all(rows, pick[i, 0], mean, f, mixed, E) - 1.0
            curvature = rows.squares[pick[i, 0]]
        else:
            G, curvature = -1.0, 0.0
            for t in range(n_labels):
                mixed[:] = 0.0
                mixed[t] = weights[t] * signs[i, t]
                G += _dot_all(rows, pick[i, t], mixed[t], f, mixed, E)
                curvature += weights[t] * rows.squares[pick[i, t]]
        gradient[i] = G
        slack[i] = cost * max(0.0, -G) + old * G
        if (old == 0.0 and G > SHRINK) or (old == cost and G < -SHRINK):
            n_active -= 1
            active[at], active[n_active] = active[n_active], i
            continue
        at += 1
        if curvature > 0.0:
            new = min(max(old - G / curvature, 0.0), cost)
        else:
            new = cost if G < 0.0 else 0.0
        step = new - old
        if step == 0.0:
            continue
        alpha[i] = new
        if same[i]:
            _add(rows, pick[i, 0], step * signs[i, 0], f)
        elif pick.shape[1] == 1:
            for t in range(n_labels):
                mixed[t] = step * (signs[i, t] - mean)
            _add_all(rows, pick[i, 0], step * mean, f, mixed, E)
        else:
            for t in range(n_labels):
                for s in range(n_labels):
                    share = (1.0 if s == t else 0.0) - weights[t]
                    mixed[s] = step * signs[i, t] * share
                _add_all(rows, pick[i, t], step * signs[i, t] * weights[t], f, mixed, E)
    return at, n_active, visits


@_summing
def _values(alpha, costs, gradient, slack):  # type: ignore[no-untyped-def]
    """Primal value and duality gap, from the gradients met last."""
    primal = gap = 0.0
    for i in range(len(alpha)):
        primal += 0.5 * alpha[i] * (gradient[i] + 1.0) + costs[i] * max(0.0, -gradient[i])
        gap += slack[i]
    return primal, gap


@_summing
def _dot(rows, i, f):  # type: ignore[no-untyped-def]
    total = 0.0
    if rows.kind == SPARSE:
        for at in range(rows.indptr[i], rows.indptr[i + 1]):
            total += rows.data[at] * f[rows.indices[at]]
    elif rows.kind == DENSE:
        for k in range(rows.n_features):
            total += rows.values[i, k] * f[k]
    else:
        total += f[i]
    for k in range(rows.score_factors.shape[1]):
        total += rows.score_factors[i, k] * f[rows.n_features + k]
    return total


@_summing
def _dot_all(rows, i, mean, f, mixed, E):  # type: ignore[no-untyped-def]
    """x_i . (mean f + E mixed)."""
    total = 0.0
    if rows.kind == SPARSE:
        for at in range(rows.indptr[i], rows.indptr[i + 1]):
            total += rows.data[at] * _entry(rows.indices[at], mean, f, mixed, E)
    elif rows.kind == DENSE:
        for k in range(rows.n_features):
            total += rows.values[i, k] * _entry(k, mean, f, mixed, E)
    else:
        total += _entry(i, mean, f, mixed, E)
    for k in range(rows.score_factors.shape[1]):
        total += rows.score_factors[i, k] * _entry(rows.n_features + k, mean, f, mixed, E)
    return total


@_summing
def _entry(k, mean, f, mixed, E):  # type: ignore[no-untyped-def]
    total = mean * f[k]
    for t in range(len(mixed)):
        total += mixed[t] * E[k, t]
    return total


@_compiled
def _add(rows, i, step, f):  # type: ignore[no-untyped-def]
    if rows.kind == SPARSE:
        for at in range(rows.indptr[i], rows.indptr[i + 1]):
            f[rows.indices[at]] += step * rows.data[at]
    else:
        for k in range(rows.n_features):
            f[k] += step * rows.values[i, k]
    for k in range(rows.sum_factors.shape[1]):
        f[rows.n_features + k] += step * rows.sum_factors[i, k]


@_compiled
def _add_all(rows, i, mean, f, mixed, E):  # type: ignore[no-untyped-def]
    """Add mean x_i to f and mixed_t x_i to each E_t."""
    _add(rows, i, mean, f)
    if rows.kind == SPARSE:
        for at in range(rows.indptr[i], rows.indptr[i + 1]):
            for t in range(len(mixed)):
                E[rows.indices[at], t] += mixed[t] * rows.data[at]
    else:
        for k in range(rows.n_features):
            for t in range(len(mixed)):
                E[k, t] += mixed[t] * rows.values[i, k]
    for k in range(rows.sum_factors.shape[1]):
        for t in range(len(mixed)):
            E[rows.n_features + k, t] += mixed[t] * rows.sum_factors[i, k]


@_compiled
def _score(start, stop, rows, vector, out):  # type: ignore[no-untyped-def]
    for i in range(start, stop):
        out[i] = _dot(rows, i, vector)


@_compiled
def _combine(rows, coef, out):  # type: ignore[no-untyped-def]
    for i in range(len(coef)):
        if coef[i] != 0.0:
            _add(rows, i, coef[i], out)
