"""Projection onto sets of non-negative values with a capped sum, and problems on the simplex.

Multipliers have a capped sum per group. The level method solves two small problems on the simplex
in each step, for a piecewise linear model max_k (A mu)_k of a convex function of mu: its minimum,
and the nearest point at which it is below a level.
"""

from typing import Any

import numpy as np
from scipy.optimize import nnls

from bagwise._common.types import Bools, Floats
from bagwise.loops.compilation import compiled

Projection = tuple[Floats, Bools, Bools]


@compiled()
def project(values, offsets, caps):
    """Nearest point with entries >= 0 whose sum in each group is at most the group's cap.

    Parameters
    ----------
    values : ndarray of shape (n,)
        The point.
    offsets : ndarray of int64 of shape (n_groups + 1,)
        Where each group begins.
    caps : ndarray of shape (n_groups,)
        The largest sum of each group, positive.

    Returns
    -------
    nearest : ndarray of shape (n,)
        The projection. A group of one is clipped to [0, cap].
    free : ndarray of bool of shape (n,)
        Entries that move with `values`: positive, and not alone in a full group.
    full : ndarray of bool of shape (n_groups,)
        Groups whose sum is their cap; their free entries move about their common mean.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.loops import simplex
    >>> values, offsets = np.array([3.0, -1.0, 0.9, 0.7]), np.array([0, 1, 2, 4])
    >>> simplex.project(values, offsets, np.ones(3))[0]
    array([1. , 0. , 0.6, 0.4])
    """
    nearest, free = np.empty(len(values)), np.empty(len(values), np.bool_)
    full = np.empty(len(caps), np.bool_)
    for g in range(len(caps)):
        start, stop = offsets[g], offsets[g + 1]
        if stop - start == 1:  # most groups
            value = values[start]
            full[g] = value >= caps[g]
            nearest[start] = min(max(value, 0.0), caps[g])
            free[start] = 0.0 < value < caps[g]
            continue
        total = 0.0
        for i in range(start, stop):
            total += max(values[i], 0.0)
        full[g] = total >= caps[g]
        # The mean excess of the values above it; it rises until their number is constant.
        shift, count = -np.inf if full[g] else 0.0, stop - start + 1
        while full[g]:
            total, above = -caps[g], 0
            for i in range(start, stop):
                if values[i] > shift:
                    total += values[i]
                    above += 1
            if above == 0 or above >= count:
                break
            shift, count = total / above, above
        n_free = 0
        for i in range(start, stop):
            nearest[i] = max(values[i] - shift, 0.0)
            free[i] = nearest[i] > 0
            n_free += free[i]
        if full[g] and n_free == 1:
            for i in range(start, stop):
                nearest[i] = caps[g] if free[i] else 0.0  # exact: a shift rounds
                free[i] = False
    return nearest, free, full


def step_length(
    start: Floats, way: Floats, sigma: float, constant: float, bend: float, noise: float, *caps: Any
) -> tuple[float, Projection]:
    """Exact line search: where ``constant + bend t - way . project(start - t sigma way)`` is 0.

    By secants and bisection, to a tenth of the slope at 0.

    Parameters
    ----------
    start, way : ndarray of shape (n,)
        The projected points.
    sigma : float
        Length of the proximal step.
    constant, bend : float
        The linear part of the slope, which does not decrease in t.
    noise : float
        A slope at 0 above ``-noise`` may be due to rounding: the full step is then taken.
    *caps
        `offsets` and `caps` of `project`.

    Returns
    -------
    length : float
        t between 0 and 1; 1 if the function still decreases, or hardly increases, there.
    projection : tuple
        The result of `project` there.
    """
    slope_low = constant - float(way @ project(start, *caps)[0])
    if slope_low > -noise:
        return 1.0, project(start - sigma * way, *caps)
    enough = 0.1 * abs(slope_low)
    low, high, slope_high = 0.0, 1.0, np.inf
    length, halve = 1.0, False
    while high - low > 1e-12:
        found = project(start - length * sigma * way, *caps)
        slope = constant + bend * length - float(way @ found[0])
        if abs(slope) <= enough or (length == 1.0 and slope < 0):
            return length, found
        if slope > 0:
            high, slope_high = length, slope
        else:
            low, slope_low = length, slope
        length = low + (high - low) * (0.5 if halve else slope_low / (slope_low - slope_high))
        halve = not halve
    return length, project(start - length * sigma * way, *caps)


def least(A: Floats) -> tuple[float, Floats]:
    """Minimum over the simplex of max_k (A mu)_k, and the mu that attains it.

    A matrix game, solved by the simplex method: with all entries shifted to positive values,
    x = mu / value maximises 1'x subject to A x <= 1, x >= 0.
    """
    n_planes, n = A.shape
    shift = A.min() - 1.0
    tableau = np.zeros((n_planes + 1, n + n_planes + 1))
    tableau[:-1, :n], tableau[-1, :n], tableau[:-1, -1] = A - shift, -1.0, 1.0
    tableau[:-1, n:-1] = np.eye(n_planes)
    basis = np.arange(n, n + n_planes)
    for _ in range(50 * (n + n_planes)):
        improving = np.flatnonzero(tableau[-1, :-1] < -1e-12)
        if len(improving) == 0:
            break
        enter = improving[0]  # Bland's rule: no cycles
        rows = np.flatnonzero(tableau[:-1, enter] > 1e-12)
        if len(rows) == 0:
            break
        leave = rows[np.lexsort((basis[rows], tableau[rows, -1] / tableau[rows, enter]))[0]]
        pivot = tableau[leave] / tableau[leave, enter]
        tableau -= np.outer(tableau[:, enter], pivot)
        tableau[leave], basis[leave] = pivot, enter
    mu, own = np.zeros(n), basis < n
    mu[basis[own]] = np.maximum(tableau[:-1, -1][own], 0.0)
    total = mu.sum()
    return float(1 / total + shift), mu / total


def nearest_below(A: Floats, mu: Floats, level: float) -> Floats:
    """The point of the simplex nearest to mu with A mu <= level.

    A least distance problem: with x = mu + z and z'1 = 0, the shortest z with ``normals z <=
    slack``, from the residual of a non-negative least squares problem (Lawson and Hanson 1974,
    chapter 23). The normals are first projected onto the plane of sum 0.
    """
    n = len(mu)
    rows = np.vstack([A, -np.eye(n)])
    slack = np.append(level - A @ mu, mu)
    normals = rows - rows.mean(axis=1, keepdims=True)
    E = np.vstack([-normals.T, -slack])
    target = np.append(np.zeros(n), 1.0)
    residual = E @ nnls(E, target, maxiter=100 * len(rows))[0] - target
    x = np.maximum(mu - residual[:-1] / residual[-1], 0.0)
    return x / x.sum()
