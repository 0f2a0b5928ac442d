"""Dual coordinate descent for SVMs without offset, under one or several label vectors.

    max_a  1'a - 1/2 sum_t mu_t |v_t|^2,   v_t = sum_i a_i s_it x_(r_it),   0 <= a_i <= C_i

A *variable* i has, under the label vector t, the row r_it and the sign s_it; one label vector gives
the ordinary SVM. The state is the mean f = sum_t mu_t v_t and the deviations E_t = v_t - f, so that
a variable that is the same under all label vectors changes only f, at the cost of an ordinary SVM.

Variables whose signs agree up to a common one, s_it = s_i p_t, form a *group* (`sign_groups`). With
z = sum_t mu_t p_t v_t the gradient of such a variable is s_i x_i . z - 1, and its step d adds
d s_i x_i to z, because p_t^2 = 1 and the mu sum to 1: within a group the mixture is an ordinary SVM
on the one vector z. After a visit of the group, the change of z, times p_t, is added to each v_t.

Rows are dense, CSR, or a Gram matrix; then f and E contain scores of the rows instead of features.
Vectors have further entries for a constant feature that replaces the offset, and for centring
sparse rows without making them dense: with the mean m, v = u - t m where u = sum_i c_i x_i and
t = sum_i c_i, so (x_i - m) . v = x_i . u - t (x_i . m - |m|^2) - m . u. The score of
a row reads the entries t and m . u with the factors |m|^2 - x_i . m and -1 (`score_factors`); a row
in a sum adds 1 and x_i . m to them (`sum_factors`).
"""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils.extmath import row_norms

from bagwise._common.types import Array, Floats, Ints
from bagwise.loops.arguments import read_only
from bagwise.loops.compilation import compiled, prefetch
from bagwise.loops.threads import even_bounds, run_blocks

_compiled = compiled()
_summing = compiled(fastmath={"reassoc", "contract"})
_inlined = compiled(inline="always")  # a call that passes `Rows` costs as much as a short row

DENSE, SPARSE, GRAM = 0, 1, 2
WORK = 10**8  # approximate number of multiplications in one compiled call, unless a pass has more
SHRINK = 0.05  # a variable at its bound and this far beyond the margin is skipped for a while
AHEAD = 4  # visits between prefetching a row and reading it
LEAST_GROUP = 0.25  # non-zeros of a group, per entry of z, from which forming z pays off


class Rows(NamedTuple):
    """Rows in the form that compiled functions read, created by `rows_of` or `gram_rows`."""

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


class Problem(NamedTuple):
    """Variables: their rows and signs under the label vectors, mu, and C."""

    rows: Rows
    pick: Ints
    signs: Ints
    weights: Floats
    costs: Floats


class State(NamedTuple):
    """What a visit changes: a, f and E, and of each variable its gradient and slack."""

    alpha: Floats
    f: Floats
    E: Floats
    gradient: Floats
    slack: Floats


class Descent(NamedTuple):
    """Result of `descend`: number of passes over the variables, primal value, duality gap."""

    n_passes: int
    primal: float
    gap: float


class Groups(NamedTuple):
    """Variables grouped by the pattern of their signs, created by `sign_groups`.

    Attributes
    ----------
    order : ndarray of int64 of shape (n_variables,)
        The variables, group by group.
    bounds : ndarray of int64 of shape (n_groups + 1,)
        Where each group begins in `order`.
    patterns : ndarray of int8 of shape (n_groups, n_labels)
        p, with first entry 1; zeros for the variables whose row depends on the label vector.
    """

    order: Ints
    bounds: Ints
    patterns: Ints


def rows_of(X: Any, centre: Floats | None = None, *, overwrite: bool = False) -> Rows:
    """Create `Rows` from a table of features.

    Parameters
    ----------
    X : ndarray or CSR of shape (n_rows, n_features)
        The rows; not copied, unless dense and to be centred.
    centre : ndarray of shape (n_features,), default=None
        Subtracted from each row.
    overwrite : bool, default=False
        Whether a dense X may be centred in place.

    Returns
    -------
    Rows
    """
    if not sparse.issparse(X):
        if centre is not None:
            X = np.subtract(X, centre.astype(X.dtype), out=X if overwrite else None)
        return _dense_rows(DENSE, X, row_norms(X, squared=True).astype(np.float64))
    squares = row_norms(X, squared=True).astype(np.float64)
    for_score = for_sum = np.zeros((len(squares), 1))
    if centre is not None:
        along, length = X @ centre, float(centre @ centre)
        ones = np.ones(len(along))
        for_score = np.column_stack([for_score, length - along, -ones])
        for_sum = np.column_stack([for_sum, ones, along])
        squares = np.maximum(squares + length - 2 * along, 0.0)
    none = np.empty((0, 0), X.data.dtype)
    none, data, indices, indptr = read_only(none, X.data, X.indices, X.indptr)
    n, d = X.shape
    return Rows(SPARSE, none, data, indices, indptr, n, d, for_score, for_sum, squares)


def gram_rows(K: Array) -> Rows:
    """Create `Rows` from a kernel matrix.

    Parameters
    ----------
    K : ndarray of shape (n_rows, n_rows)
        Kernel values between the rows, symmetric; not copied.

    Returns
    -------
    Rows
    """
    return _dense_rows(GRAM, K, np.diagonal(K).astype(np.float64))


def _dense_rows(kind: int, table: Array, squares: Floats) -> Rows:
    none, extra = np.empty(0, np.int32), np.zeros((len(table), 1))
    values, data, none = read_only(np.ascontiguousarray(table), np.empty(0, table.dtype), none)
    n, d = table.shape
    return Rows(kind, values, data, none, none, n, d, extra, extra, squares)


def with_constant(rows: Rows, constant: float) -> Rows:
    """Add a feature that is the same for all rows: its weight is the offset.

    Parameters
    ----------
    rows : Rows
        The rows; changed in place.
    constant : float
        Value of the feature.

    Returns
    -------
    Rows
    """
    rows.score_factors[:, 0] = rows.sum_factors[:, 0] = constant
    return rows._replace(squares=rows.squares + constant**2)


def score(rows: Rows, vector: Floats) -> Floats:
    """Dot products of all rows with a vector.

    Parameters
    ----------
    rows : Rows
        The rows.
    vector : ndarray of shape (width,)
        A vector such as f.

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
    """|v|^2 of the vector v = sum_i coef_i x_i.

    Parameters
    ----------
    rows : Rows
        The rows.
    coef : ndarray of shape (n_rows,)
        The weights of the rows.
    vector : ndarray of shape (width,)
        v, the result of `combine`.

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
    groups: Groups | None = None,
) -> Descent:
    """Maximise over a, starting from `alpha`, `f` and `E`, which are changed in place.

    Parameters
    ----------
    rows : Rows
        The rows.
    pick : ndarray of int64 of shape (n_variables, 1) or (n_variables, n_labels)
        The row of each variable; one column if it is the same under all label vectors.
    signs : ndarray of int8 of shape (n_variables, n_labels)
        Its sign under each label vector.
    weights : ndarray of shape (n_labels,)
        mu, with sum 1.
    costs : ndarray of shape (n_variables,)
        C of each variable.
    alpha : ndarray of shape (n_variables,)
        The dual variables.
    f : ndarray of shape (width,)
        sum_t mu_t v_t for these `alpha`.
    E : ndarray of shape (width, n_labels)
        v_t - f; may be empty for one label vector.
    order : ndarray of int64 of shape (n_variables,)
        The variables in the order before shuffling. If it does not depend on the order of the rows,
        neither does the result.
    tol : float
        Duality gap at which to stop, relative to the primal value.
    max_passes : int
        Maximum number of passes over the variables.
    seed : int, default=0
        Seed of the shuffling.
    groups : Groups, default=None
        ``sign_groups(pick, signs, order)``, if it is already known.

    Returns
    -------
    Descent

    Examples
    --------
    An ordinary SVM without offset:

    >>> import numpy as np
    >>> from bagwise.loops import dual_descent
    >>> X, y = np.array([[1.0], [3.0], [-2.0]]), np.array([1, 1, -1], dtype=np.int8)
    >>> alpha, f = np.zeros(3), np.zeros(2)
    >>> found = dual_descent.descend(
    ...     dual_descent.rows_of(X), np.arange(3)[:, None], y[:, None], np.ones(1), np.ones(3),
    ...     alpha, f, np.empty((2, 0)), order=np.arange(3), tol=1e-6, max_passes=100,
    ... )
    >>> f[0].round(3), bool(found.gap < 1e-6)
    (np.float64(1.0), True)
    """
    groups = sign_groups(pick, signs, order) if groups is None else groups
    n, n_labels = signs.shape
    active, n_active = groups.order.copy(), np.diff(groups.bounds)
    problem = Problem(rows, pick, signs, weights, costs)
    state = State(alpha, f, E, *np.empty((2, n)))
    z, before = np.empty((2, len(f)))
    random = np.array([2 * seed + 1], np.uint64)
    mixed = groups.patterns * weights  # (n_groups, n_labels)
    means, least = mixed.sum(axis=1), _least_group(rows, groups.patterns)
    known = problem, state, groups, mixed, means, least
    # Between two calls of a few tenths of a second, Python handles signals such as Ctrl-C.
    at_once = max(1, WORK // (1 + n * (10 + 2 * _length(rows) * n_labels)))
    found = Descent(0, np.inf, np.inf)
    done = False
    while not done and found.n_passes < max_passes:
        n_most = min(at_once, max_passes - found.n_passes)
        made, done, primal, gap = _descend(*known, tol, n_most, active, n_active, z, before, random)
        found = Descent(found.n_passes + made, primal, gap)
    return found


def descend_alone(
    rows: Rows, pick: Ints, signs: Array, costs: Floats, alpha: Floats, **options: Any
) -> Floats:
    """Solve an SVM under one label vector, from `alpha`, which is changed in place.

    Parameters
    ----------
    rows : Rows
        The rows.
    pick, signs : ndarray of shape (n_variables,)
        The row and the sign of each variable.
    costs, alpha : ndarray of shape (n_variables,)
        C, and the dual variables.
    **options
        ``order``, ``tol``, ``max_passes`` and ``seed`` of `descend`.

    Returns
    -------
    ndarray of shape (width,)
        The model.
    """
    coef: Any = np.bincount(pick, alpha * signs, rows.n_rows)
    f = combine(rows, coef)
    columns, nothing = (pick[:, None], signs.astype(np.int8)[:, None]), np.empty((len(f), 0))
    descend(rows, *columns, np.ones(1), costs, alpha, f, nothing, **options)
    return f


def sign_groups(pick: Ints, signs: Ints, order: Ints) -> Groups:
    """Group the variables whose signs under all label vectors agree up to a common sign.

    Parameters
    ----------
    pick : ndarray of int64 of shape (n_variables, 1) or (n_variables, n_labels)
        The row of each variable.
    signs : ndarray of int8 of shape (n_variables, n_labels)
        Its sign under each label vector.
    order : ndarray of int64 of shape (n_variables,)
        The order of the variables within a group.

    Returns
    -------
    Groups
        The variables that are the same under all label vectors come first.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.loops import dual_descent
    >>> signs = np.array([[1, 1], [1, -1], [-1, -1], [-1, 1]], dtype=np.int8)
    >>> found = dual_descent.sign_groups(np.arange(4)[:, None], signs, np.arange(4))
    >>> found.order, found.patterns
    (array([0, 2, 1, 3]), array([[ 1,  1],
           [ 1, -1]], dtype=int8))
    """
    patterns = signs[order] * signs[order, :1]
    if pick.shape[1] > 1:
        patterns[(pick[order] != pick[order, :1]).any(axis=1)] = 0
    codes = np.zeros(len(order), np.int64)
    for column in patterns.T:
        codes = 3 * codes + 1 - column
        if len(codes) and codes.max() > 2**60:
            codes = np.unique(codes, return_inverse=True)[1]
    ranks = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[ranks], prepend=-1))
    return Groups(order[ranks], np.append(starts, len(order)), patterns[ranks[starts]])


def _least_group(rows: Rows, patterns: Ints) -> Ints:
    """Number of active variables from which a group is visited by z; 0 if z is f."""
    least = np.ceil(LEAST_GROUP * rows.width / max(1, _length(rows)))
    found = np.where((patterns == 1).all(axis=1), 0, max(1, int(least)))
    return np.where(patterns[:, 0] == 0, np.iinfo(np.int64).max, found)


def _length(rows: Rows) -> int:
    """Mean number of non-zeros of a row."""
    return len(rows.data) // max(rows.n_rows, 1) if rows.kind == SPARSE else rows.n_features


@_compiled
def _descend(
    problem, state, groups, mixed, means, least, tol, n_most, active, n_active, z, before, random
):
    """Make up to `n_most` passes over the active variables, group by group.

    The slack of a variable is its contribution to the duality gap. Returns the number of passes,
    whether the gap is small enough, the primal value and the gap.
    """
    n_passes, done = 0, False
    while not done and n_passes < n_most:
        n_passes += 1
        n_before = n_after = 0
        for g in range(len(n_active)):
            group = active[groups.bounds[g] : groups.bounds[g + 1]]
            n_before += n_active[g]
            _shuffle(group, n_active[g], random)
            if n_active[g] < least[g]:
                n_active[g] = _visit_singly(problem, state, group, n_active[g])
            elif least[g] == 0:
                n_active[g] = _visit_group(problem, state, state.f, group, n_active[g])
            else:
                _mix(mixed[g], means[g], state.f, state.E, z, before)
                n_active[g] = _visit_group(problem, state, z, group, n_active[g])
                _unmix(groups.patterns[g], means[g], state.f, state.E, z, before)
            n_after += n_active[g]
        primal, gap = _values(state.alpha, problem.costs, state.gradient, state.slack)
        small = gap <= tol * primal
        done = small and n_before == len(state.alpha)
        if small or n_after == 0:  # skipped variables are visited once more
            for k in range(len(active)):
                active[k] = groups.order[k]
            for g in range(len(n_active)):
                n_active[g] = groups.bounds[g + 1] - groups.bounds[g]
    return n_passes, done, primal, gap


@_compiled
def _shuffle(variables, n, random):
    """Shuffle the first n variables, by xorshift."""
    state = random[0]
    for last in range(n - 1, 0, -1):
        state ^= state << np.uint64(13)
        state ^= state >> np.uint64(7)
        state ^= state << np.uint64(17)
        other = np.int64(state % np.uint64(last + 1))
        variables[last], variables[other] = variables[other], variables[last]
    random[0] = state


@_compiled
def _mix(mixed, mean, f, E, z, before):
    """Form z = sum_t mu_t p_t v_t, where mixed_t = mu_t p_t and v_t = f + E_t."""
    for k in range(len(f)):
        z[k] = before[k] = _entry(k, mean, f, mixed, E)


@_compiled
def _unmix(pattern, mean, f, E, z, before):
    """Add p_t times the change of z to each v_t."""
    for k in range(len(f)):
        change = z[k] - before[k]
        if change != 0.0:
            f[k] += mean * change
            for t in range(len(pattern)):
                E[k, t] += (pattern[t] - mean) * change


@_compiled
def _visit_group(problem, state, z, active, n_active):
    """Visit the active variables of a group as an SVM on the vector z."""
    rows, pick, signs, _, costs = problem
    alpha, _, _, gradient, slack = state
    at = 0
    while at < n_active:
        if at + AHEAD < n_active:
            _ask_for(rows, pick[active[at + AHEAD], 0])
        i = active[at]
        row, sign = pick[i, 0], signs[i, 0]
        old = alpha[i]
        G = sign * _dot(rows, row, z) - 1.0
        n_active, new = _moved(
            i, G, rows.squares[row], costs[i], old, at, active, n_active, gradient, slack
        )
        if new < 0.0:
            continue
        at += 1
        if new != old:
            alpha[i] = new
            _add(rows, row, (new - old) * sign, z)
    return n_active


@_compiled
def _visit_singly(problem, state, active, n_active):
    """Visit any variables: all label vectors are read and written for each of them."""
    rows, pick, signs, weights, costs = problem
    alpha, f, E, gradient, slack = state
    n_picks, n_labels = pick.shape[1], signs.shape[1]
    own = np.zeros((n_picks, n_labels))  # its signs under the label vectors that pick each row
    mixed = np.empty(n_labels)
    at = 0
    while at < n_active:
        if at + AHEAD < n_active:
            _ask_for(rows, pick[active[at + AHEAD], 0])
        i = active[at]
        old = alpha[i]
        G, curvature = -1.0, 0.0
        for t in range(n_labels):
            own[t % n_picks, t] = signs[i, t]
            curvature += weights[t] * rows.squares[pick[i, t % n_picks]]
        for c in range(n_picks):
            mean = _product(weights, own[c], mixed)
            G += _dot_all(rows, pick[i, c], mean, f, mixed, E)
        n_active, new = _moved(
            i, G, curvature, costs[i], old, at, active, n_active, gradient, slack
        )
        if new < 0.0:
            continue
        at += 1
        if new != old:
            alpha[i] = new
            for c in range(n_picks):
                mean = (new - old) * _product(weights, own[c], mixed)
                for t in range(n_labels):
                    mixed[t] = (new - old) * own[c, t] - mean
                _add_all(rows, pick[i, c], mean, f, mixed, E)
    return n_active


@_inlined
def _product(weights, signs, mixed):
    """Multiply entry by entry; return the sum."""
    mean = 0.0
    for t in range(len(weights)):
        mixed[t] = weights[t] * signs[t]
        mean += mixed[t]
    return mean


@_inlined
def _moved(i, G, curvature, cost, old, at, active, n_active, gradient, slack):
    """The best value of variable i, or -1 if it is skipped and moved behind the active ones."""
    gradient[i] = G
    slack[i] = cost * max(0.0, -G) + old * G
    if (old == 0.0 and G > SHRINK) or (old == cost and G < -SHRINK):
        n_active -= 1
        active[at], active[n_active] = active[n_active], i
        new = -1.0
    elif curvature > 0.0:
        new = min(max(old - G / curvature, 0.0), cost)
    else:
        new = cost if G < 0.0 else 0.0
    return n_active, new


@_summing
def _values(alpha, costs, gradient, slack):
    """Primal value and duality gap, from the most recent gradients."""
    primal = gap = 0.0
    for i in range(len(alpha)):
        primal += 0.5 * alpha[i] * (gradient[i] + 1.0) + costs[i] * max(0.0, -gradient[i])
        gap += slack[i]
    return primal, gap


@_inlined
def _ask_for(rows, i):
    """Prefetch a sparse row, in lines of 64 bytes: visits in random order wait for memory."""
    if rows.kind == SPARSE:
        start, stop = rows.indptr[i], rows.indptr[i + 1]
        for at in range(start, stop, 8):
            prefetch(rows.data, at)
        for at in range(start, stop, 16):
            prefetch(rows.indices, at)


# Sums over a sparse row are sequential: vector instructions would have to gather the entries of f,
# which is slower. Unsigned indices need no test for negative ones.


@_inlined
def _dot(rows, i, f):
    total = 0.0
    if rows.kind == SPARSE:
        for at in range(rows.indptr[i], rows.indptr[i + 1]):
            total += rows.data[at] * f[np.uint64(rows.indices[at])]
    elif rows.kind == DENSE:
        total += _dense_dot(rows.values, i, f)
    else:
        total += f[i]
    for k in range(rows.score_factors.shape[1]):
        total += rows.score_factors[i, k] * f[rows.n_features + k]
    return total


@_summing
def _dot_all(rows, i, mean, f, mixed, E):
    """x_i . (mean f + E mixed)."""
    total = 0.0
    if rows.kind == SPARSE:
        for at in range(rows.indptr[i], rows.indptr[i + 1]):
            total += rows.data[at] * _entry(np.uint64(rows.indices[at]), mean, f, mixed, E)
    elif rows.kind == DENSE:
        for k in range(rows.n_features):
            total += rows.values[i, k] * _entry(k, mean, f, mixed, E)
    else:
        total += _entry(i, mean, f, mixed, E)
    for k in range(rows.score_factors.shape[1]):
        total += rows.score_factors[i, k] * _entry(rows.n_features + k, mean, f, mixed, E)
    return total


@_inlined
def _entry(k, mean, f, mixed, E):
    value = mean * f[k]
    for t in range(len(mixed)):
        value += mixed[t] * E[k, t]
    return value


@_summing
def _dense_dot(values, i, f):
    total = 0.0
    for k in range(values.shape[1]):
        total += values[i, k] * f[k]
    return total


@_inlined
def _add(rows, i, step, f):
    if rows.kind == SPARSE:
        for at in range(rows.indptr[i], rows.indptr[i + 1]):
            f[np.uint64(rows.indices[at])] += step * rows.data[at]
    else:
        for k in range(rows.n_features):
            f[k] += step * rows.values[i, k]
    for k in range(rows.sum_factors.shape[1]):
        f[rows.n_features + k] += step * rows.sum_factors[i, k]


@_compiled
def _add_all(rows, i, mean, f, mixed, E):
    """Add mean x_i to f and mixed_t x_i to each E_t."""
    _add(rows, i, mean, f)
    if rows.kind == SPARSE:
        for at in range(rows.indptr[i], rows.indptr[i + 1]):
            _add_entry(np.uint64(rows.indices[at]), rows.data[at], mixed, E)
    else:
        for k in range(rows.n_features):
            _add_entry(k, rows.values[i, k], mixed, E)
    for k in range(rows.sum_factors.shape[1]):
        _add_entry(rows.n_features + k, rows.sum_factors[i, k], mixed, E)


@_inlined
def _add_entry(k, value, mixed, E):
    for t in range(len(mixed)):
        E[k, t] += mixed[t] * value


@_compiled
def _score(start, stop, rows, vector, out):
    for i in range(start, stop):
        out[i] = _dot(rows, i, vector)


@_compiled
def _combine(rows, coef, out):
    for i in range(len(coef)):
        if coef[i] != 0.0:
            _add(rows, i, coef[i], out)
