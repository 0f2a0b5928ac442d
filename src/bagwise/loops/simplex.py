"""Projection of multipliers onto non-negative values with a capped sum per group."""

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
    float
        t between 0 and 1; 1 if the function still decreases, or hardly increases, there.
    """
    slope_low = constant - (way * project(start, offsets, caps)[0]).sum()
    if slope_low > -noise:
        return 1.0
    enough = 0.1 * abs(slope_low)
    low, high, slope_high = 0.0, 1.0, np.inf
    length, halve = 1.0, False
    while high - low > 1e-12:
        moved = project(start - length * sigma * way, offsets, caps)[0]
        slope = constant + bend * length - (way * moved).sum()
        if abs(slope) <= enough or (length == 1.0 and slope < 0):
            break
        if slope > 0:
            high, slope_high = length, slope
        else:
            low, slope_low = length, slope
        length = low + (high - low) * (0.5 if halve else slope_low / (slope_low - slope_high))
        halve = not halve
    return length


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
