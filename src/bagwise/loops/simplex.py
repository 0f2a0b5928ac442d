"""Projection onto sets of non-negative values with a capped sum, and problems on the simplex.

Multipliers have a capped sum per group. The level method solves two small problems on the simplex
in each step, for a piecewise linear model max_k (A mu)_k of a convex function of mu: its minimum,
and the nearest point at which it is below a level.
"""

import numpy as np

from bagwise.loops.compilation import compiled

_compiled = compiled()


@_compiled
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
        shift = _shift(values[start:stop], caps[g]) if full[g] else 0.0
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


@_compiled
def step_length(start, way, sigma, constant, bend, noise, offsets, caps):
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
    offsets, caps
        As for `project`.

    Returns
    -------
    length : float
        t between 0 and 1; 1 if the function still decreases, or hardly increases, there.
    projection : tuple
        The result of `project` there.
    """
    slope_low = constant - (way * project(start, offsets, caps)[0]).sum()
    if slope_low > -noise:
        return 1.0, project(start - sigma * way, offsets, caps)
    enough = 0.1 * abs(slope_low)
    low, high, slope_high = 0.0, 1.0, np.inf
    length, halve = 1.0, False
    while high - low > 1e-12:
        found = project(start - length * sigma * way, offsets, caps)
        slope = constant + bend * length - (way * found[0]).sum()
        if abs(slope) <= enough or (length == 1.0 and slope < 0):
            break
        if slope > 0:
            high, slope_high = length, slope
        else:
            low, slope_low = length, slope
        length = low + (high - low) * (0.5 if halve else slope_low / (slope_low - slope_high))
        halve = not halve
    return length, project(start - length * sigma * way, offsets, caps)


@_compiled
def _shift(values, cap):
    """The shift for which the positive parts of ``values - shift`` sum to the cap."""
    # The mean excess of the k largest values, for the first k whose next value is not above it.
    ranked = np.sort(values)[::-1]
    above = 0.0
    for k in range(len(values)):
        above += ranked[k]
        shift = (above - cap) / (k + 1)
        if k + 1 == len(values) or ranked[k + 1] <= shift:
            break
    return shift


@_compiled
def least(A):
    """Minimum over the simplex of max_k (A mu)_k, and the mu that attains it.

    A matrix game, solved by the simplex method: with all entries shifted to positive values,
    x = mu / value maximises 1'x subject to A x <= 1, x >= 0.
    """
    n_planes, n = A.shape
    shift = A.min() - 1.0
    tableau = np.zeros((n_planes + 1, n + n_planes + 1))
    basis = np.empty(n_planes, np.int64)
    for k in range(n_planes):
        for t in range(n):
            tableau[k, t] = A[k, t] - shift
        tableau[k, n + k] = 1.0
        tableau[k, -1] = 1.0
        basis[k] = n + k
    tableau[-1, :n] = -1.0
    for _ in range(50 * (n + n_planes)):
        enter = -1
        for c in range(n + n_planes):  # first improving column (Bland's rule): no cycles
            if tableau[-1, c] < -1e-12:
                enter = c
                break
        if enter < 0:
            break
        leave, smallest = -1, np.inf
        for k in range(n_planes):
            if tableau[k, enter] > 1e-12:
                ratio = tableau[k, -1] / tableau[k, enter]
                if ratio < smallest or (ratio == smallest and basis[k] < basis[leave]):
                    leave, smallest = k, ratio
        if leave < 0:
            break
        tableau[leave] /= tableau[leave, enter]
        for k in range(n_planes + 1):
            if k != leave:
                tableau[k] -= tableau[k, enter] * tableau[leave]
        basis[leave] = enter
    mu = np.zeros(n)
    for k in range(n_planes):
        if basis[k] < n:
            mu[basis[k]] = max(tableau[k, -1], 0.0)
    total = mu.sum()
    mu /= total
    return 1.0 / total + shift, mu


@_compiled
def nearest_below(A, mu, level, n_sweeps):
    """The point of the simplex nearest to mu with A mu <= level, by Hildreth's projections.

    The normals are first projected onto the plane of sum 1, so that no projection leaves it.
    """
    n_planes, n = A.shape
    normals = np.empty((n_planes + n, n))
    bounds = np.empty(n_planes + n)
    for k in range(n_planes):
        mean = A[k].mean()
        normals[k] = A[k] - mean
        bounds[k] = level - mean
    for t in range(n):
        normals[n_planes + t] = 1.0 / n
        normals[n_planes + t, t] -= 1.0
        bounds[n_planes + t] = 1.0 / n
    multipliers = np.zeros(n_planes + n)
    x = mu.copy()
    for _ in range(n_sweeps):
        moved = 0.0
        for j in range(n_planes + n):
            square = (normals[j] * normals[j]).sum()
            if square <= 1e-30:
                continue
            step = max(((normals[j] * x).sum() - bounds[j]) / square, -multipliers[j])
            multipliers[j] += step
            x -= step * normals[j]
            moved = max(moved, abs(step) * np.sqrt(square))
        if moved < 1e-9:
            break
    x = np.maximum(x, 0.0)
    return x / x.sum()
