"""Reductions per bag: extremes, sum, moments, quantiles, softmax, log-sum-exp, noisy-or.

All functions take `values` of shape (n_instances,) or (n_instances, n_columns), aligned with the
instances, and `offsets`; they return one value per bag (and column). Empty bags give the neutral
value of the reduction (``-inf``, ``inf``, ``0``, index ``-1``). NaN is not handled: validation
rejects it. The loss of noisy-or follows.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bagwise._common.types import Array, Floats, Ints
from bagwise.loops.compilation import compiled
from bagwise.loops.threads import over_bags

_compiled = compiled()


def maximum(values: ArrayLike, offsets: ArrayLike) -> Array:
    """Largest value of each bag.

    Examples
    --------
    >>> from bagwise.loops import segments
    >>> segments.maximum([1.0, 5.0, 2.0], [0, 2, 3])
    array([5., 2.])
    """
    return _reduce(_maximum, values, offsets)


def minimum(values: ArrayLike, offsets: ArrayLike) -> Array:
    """Smallest value of each bag.

    Examples
    --------
    >>> from bagwise.loops import segments
    >>> segments.minimum([1.0, 5.0, 2.0], [0, 2, 3])
    array([1., 2.])
    """
    return -maximum(np.negative(values), offsets)


def argmax(values: ArrayLike, offsets: ArrayLike) -> Ints:
    """Row of the largest value inside each bag (0-based; the first in a tie; -1 if empty).

    Examples
    --------
    >>> from bagwise.loops import segments
    >>> segments.argmax([1.0, 5.0, 2.0], [0, 2, 3])
    array([1, 0])
    """
    return top2(values, offsets)[2]


def top2(values: ArrayLike, offsets: ArrayLike) -> tuple[Array, Array, Ints]:
    """The largest and second largest value of each bag, and the row of the largest.

    Returns
    -------
    first, second : ndarray of shape (n_bags,) or (n_bags, n_columns)
        `second` is ``-inf`` for a bag of one instance.
    row : ndarray of int, same shape
        Row of the largest inside its bag; -1 if the bag is empty.

    Examples
    --------
    >>> from bagwise.loops import segments
    >>> segments.top2([1.0, 5.0, 2.0], [0, 2, 3])
    (array([5., 2.]), array([  1., -inf]), array([1, 0]))
    """
    table, ends, shape = _prepare(values, offsets)
    first = np.empty((len(ends) - 1, table.shape[1]), table.dtype)
    second, row = np.empty_like(first), np.empty(first.shape, np.int64)
    over_bags(_top2, ends, table, first, second, row)
    return first.reshape(shape), second.reshape(shape), row.reshape(shape)


def sum(values: ArrayLike, offsets: ArrayLike) -> Array:
    """Sum of each bag, accumulated in double precision.

    Examples
    --------
    >>> from bagwise.loops import segments
    >>> segments.sum([1.0, 5.0, 2.0], [0, 2, 3])
    array([6., 2.])
    """
    return _reduce(_sum, values, offsets)


def mean(values: ArrayLike, offsets: ArrayLike) -> Array:
    """Mean of each bag (0 if empty).

    Examples
    --------
    >>> from bagwise.loops import segments
    >>> segments.mean([1.0, 5.0, 2.0], [0, 2, 3])
    array([3., 2.])
    """
    totals = sum(values, offsets)
    sizes = np.maximum(np.diff(offsets), 1).astype(totals.dtype)
    return totals / sizes.reshape(-1, *[1] * (totals.ndim - 1))


def mean_and_std(values: ArrayLike, offsets: ArrayLike) -> tuple[Floats, Floats]:
    """Mean and standard deviation of each bag, in double precision (0 if empty).

    The standard deviation divides by the size of the bag. It is computed from differences to the
    mean, so that values far from 0 do not lose precision.

    Returns
    -------
    mean, std : ndarray of shape (n_bags,) or (n_bags, n_columns)

    Examples
    --------
    >>> from bagwise.loops import segments
    >>> segments.mean_and_std([1.0, 5.0, 2.0], [0, 2, 3])
    (array([3., 2.]), array([2., 0.]))
    """
    table, ends, shape = _prepare(values, offsets)
    mean, std = (np.empty((len(ends) - 1, table.shape[1])) for _ in range(2))
    over_bags(_mean_and_std, ends, table, mean, std)
    return mean.reshape(shape), std.reshape(shape)


def quantiles(values: ArrayLike, offsets: ArrayLike, levels: ArrayLike) -> Floats:
    """Quantiles of each bag, interpolated linearly as `numpy.quantile` does (0 if empty).

    Parameters
    ----------
    values : array-like of shape (n_instances,) or (n_instances, n_columns)
        Values aligned with the instances.
    offsets : array-like of shape (n_bags + 1,)
        Where each bag begins.
    levels : array-like of shape (n_levels,)
        Levels between 0 and 1.

    Returns
    -------
    ndarray of shape (n_levels, n_bags) or (n_levels, n_bags, n_columns)

    Examples
    --------
    >>> from bagwise.loops import segments
    >>> segments.quantiles([1.0, 5.0, 2.0], [0, 2, 3], [0.25, 0.5])
    array([[2., 2.],
           [3., 2.]])
    """
    table, ends, shape = _prepare(values, offsets)
    at = np.ascontiguousarray(levels, np.float64)
    out = np.zeros((len(at), len(ends) - 1, table.shape[1]))
    over_bags(_quantiles, ends, table, at, out)
    return out.reshape(len(at), *shape)


def logsumexp(values: ArrayLike, offsets: ArrayLike) -> Array:
    """``log(sum(exp(values)))`` of each bag, without overflow (``-inf`` if empty).

    Examples
    --------
    >>> from bagwise.loops import segments
    >>> segments.logsumexp([1000.0, 1000.0, 0.0], [0, 2, 3]).round(3)
    array([1000.693,    0.   ])
    """
    array, largest = np.asarray(values), maximum(values, offsets)
    shift = np.where(np.isfinite(largest), largest, 0)
    with np.errstate(divide="ignore"):
        return shift + np.log(sum(np.exp(array - _spread(shift, offsets)), offsets))


def noisy_or(values: ArrayLike, offsets: ArrayLike) -> Array:
    """Log-odds that at least one instance of each bag is positive, from the instances' log-odds.

    With ``p = 1 / (1 + exp(-value))`` the bag is positive with probability ``1 - prod(1 - p)``.
    Nothing overflows, and very negative log-odds do not lose precision. (``-inf`` if empty.)

    Parameters
    ----------
    values : array-like of shape (n_instances,) or (n_instances, n_columns)
        Log-odds aligned with the instances.
    offsets : array-like of shape (n_bags + 1,)
        Where each bag begins.

    Returns
    -------
    ndarray of shape (n_bags,) or (n_bags, n_columns)

    Examples
    --------
    >>> from bagwise.loops import segments
    >>> segments.noisy_or([0.0, 0.0, -800.0], [0, 2, 3]).round(3)
    array([   1.099, -800.   ])
    """
    odds = np.asarray(values)
    # S = -log prod(1 - p) = sum of log(1 + exp(value)), in logarithms; log-odds = log(exp(S) - 1)
    with np.errstate(divide="ignore"):
        log_doubt = np.where(odds < -30, odds, np.log(np.logaddexp(0, odds)))
        total = logsumexp(log_doubt, offsets)
        doubt = np.exp(total)
        beyond = doubt + np.log(-np.expm1(-doubt))
    return np.where(total < -30, total, beyond)


def softmax(values: ArrayLike, offsets: ArrayLike) -> Array:
    """Softmax within each bag: the values sum to 1 over its instances.

    Returns
    -------
    ndarray of the shape of `values`

    Examples
    --------
    >>> from bagwise.loops import segments
    >>> segments.softmax([1.0, 1.0, 2.0], [0, 2, 3])
    array([0.5, 0.5, 1. ])
    """
    weights = np.exp(np.asarray(values) - _spread(maximum(values, offsets), offsets))
    return weights / _spread(sum(weights, offsets), offsets)


def _spread(per_bag: Array, offsets: ArrayLike) -> Array:
    """Repeat the value of each bag for its instances."""
    return np.repeat(per_bag, np.diff(offsets), axis=0)


def _reduce(reduction: Any, values: ArrayLike, offsets: ArrayLike) -> Array:
    """Apply a compiled reduction to each bag and column."""
    table, ends, shape = _prepare(values, offsets)
    out = np.empty((len(ends) - 1, table.shape[1]))
    over_bags(reduction, ends, table, out)
    return out.reshape(shape).astype(table.dtype, copy=False)


def _prepare(values: ArrayLike, offsets: ArrayLike) -> tuple[Array, Ints, tuple[int, ...]]:
    array = np.asarray(values)
    array = np.ascontiguousarray(array, array.dtype if array.dtype == np.float32 else np.float64)
    ends = np.ascontiguousarray(offsets, np.int64).view()
    table = array.reshape(len(array), math.prod(array.shape[1:]))  # -1 fails for no instances
    table.flags.writeable = ends.flags.writeable = False  # one compiled signature, see `read_only`
    return table, ends, (len(ends) - 1, *array.shape[1:])


@_compiled
def _maximum(start, stop, offsets, values, out):
    for bag in range(start, stop):
        for k in range(values.shape[1]):
            out[bag, k] = -np.inf
        for i in range(offsets[bag], offsets[bag + 1]):
            for k in range(values.shape[1]):
                out[bag, k] = max(out[bag, k], values[i, k])


@_compiled
def _top2(start, stop, offsets, values, first, second, row):
    for bag in range(start, stop):
        for k in range(values.shape[1]):
            first[bag, k] = second[bag, k] = -np.inf
            row[bag, k] = -1 if offsets[bag] == offsets[bag + 1] else 0
        for i in range(offsets[bag], offsets[bag + 1]):
            for k in range(values.shape[1]):
                value = values[i, k]
                if value > first[bag, k]:
                    second[bag, k] = first[bag, k]
                    first[bag, k] = value
                    row[bag, k] = i - offsets[bag]
                elif value > second[bag, k]:
                    second[bag, k] = value


@_compiled
def _sum(start, stop, offsets, values, out):
    for bag in range(start, stop):
        for k in range(values.shape[1]):
            out[bag, k] = 0.0
        for i in range(offsets[bag], offsets[bag + 1]):
            for k in range(values.shape[1]):
                out[bag, k] += values[i, k]


@_compiled
def _mean_and_std(start, stop, offsets, values, mean, std):
    n_columns = values.shape[1]
    origin, error = np.empty(n_columns), np.empty(n_columns)
    for bag in range(start, stop):
        first, last = offsets[bag], offsets[bag + 1]
        for k in range(n_columns):
            mean[bag, k] = std[bag, k] = error[k] = 0.0
        if first == last:
            continue
        n = last - first
        # Differences from the first instance: equal values then have a deviation of exactly 0.
        for k in range(n_columns):
            origin[k] = values[first, k]
        for i in range(first + 1, last):
            for k in range(n_columns):
                mean[bag, k] += values[i, k] - origin[k]
        for k in range(n_columns):
            mean[bag, k] /= n
        # Differences from the rounded mean do not sum to 0: their sum corrects both results.
        for i in range(first, last):
            for k in range(n_columns):
                difference = values[i, k] - origin[k] - mean[bag, k]
                error[k] += difference
                std[bag, k] += difference * difference
        for k in range(n_columns):
            shift = error[k] / n
            mean[bag, k] = origin[k] + (mean[bag, k] + shift)
            std[bag, k] = math.sqrt(max(0.0, std[bag, k] / n - shift * shift))


@_compiled
def _quantiles(start, stop, offsets, values, levels, out):
    for bag in range(start, stop):
        first, n = offsets[bag], offsets[bag + 1] - offsets[bag]
        if n == 0:
            continue
        for k in range(values.shape[1]):
            column = np.sort(values[first : first + n, k].astype(np.float64))
            for q in range(len(levels)):
                place = levels[q] * (n - 1)
                below = min(int(place), n - 1)
                step = column[min(below + 1, n - 1)] - column[below]
                out[q, bag, k] = column[below] + step * (place - below)


@_compiled
def noisy_or_loss(start, stop, offsets, positive, weights, scores, gradient):
    """Minus the log-likelihood of the labels of bags under noisy-or, of the bags ``start:stop``.

    Parameters
    ----------
    start, stop : int
        The first and the past-the-last bag.
    offsets : ndarray of shape (n_bags + 1,)
        Where each bag begins.
    positive : ndarray of int8 of shape (n_bags, n_labels)
        Which bags have which label; -1 if that is unknown.
    weights : ndarray of shape (n_bags,)
        Weights of the bags.
    scores : ndarray of shape (n_instances, n_labels)
        Log-odds of the instances.
    gradient : ndarray of shape (n_instances, n_labels)
        Receives the derivative in the scores: ``p (P - 1) / P`` in a positive bag, ``p`` in a
        negative one, with p the probability of the instance and P of the bag.

    Returns
    -------
    float
    """
    value = 0.0
    for bag in range(start, stop):
        first, last, weight = offsets[bag], offsets[bag + 1], weights[bag]
        for k in range(scores.shape[1]):
            doubt, largest = 0.0, -np.inf  # S = -log prod(1 - p) = sum of log(1 + exp(score))
            for j in range(first, last):
                score = scores[j, k]
                small = np.exp(-abs(score))
                doubt += max(score, 0.0) + np.log1p(small)
                gradient[j, k] = (1.0 if score > 0 else small) / (1.0 + small)  # p
                largest = max(largest, score)
            factor = weight
            if positive[bag, k] < 0:
                factor = 0.0
            elif not positive[bag, k]:
                value += weight * doubt
            elif largest < -30.0:  # log(exp(S) - 1) = log S and p = exp(score), which may underflow
                flat = 0.0
                for j in range(first, last):
                    gradient[j, k] = np.exp(scores[j, k] - largest)
                    flat += gradient[j, k]
                value += weight * (doubt - largest - np.log(flat))
                factor = -weight / flat
            else:
                flat = doubt + np.log(-np.expm1(-doubt))
                value += weight * (doubt - flat)  # -log(1 - exp(-S))
                factor = -weight * np.exp(-flat)
            for j in range(first, last):
                gradient[j, k] *= factor
    return value
