"""Nearest neighbours from rows to bags: the inner loop of every Hausdorff-type distance."""

import numpy as np

from bagwise._common.types import Array, Floats, Ints
from bagwise.loops import threads
from bagwise.loops.arguments import read_only
from bagwise.loops.compilation import compiled

_compiled = compiled()
# Sums in any order let the compiler use vector instructions.
_vectorised = compiled(fastmath={"reassoc", "contract"})


def exact_nearest_in_bags(
    approximate: Array, slack: Floats, offsets: Ints, X: Array, Y: Array
) -> Floats:
    """Squared Euclidean distance of each row to each bag, to full precision.

    A matrix product gives all distances fast, but close pairs suffer cancellation. Distances within
    `slack` of the smallest approximate value are computed again from direct differences.

    Parameters
    ----------
    approximate : ndarray of shape (n_rows, n_instances)
        ``|y|^2 - 2 x.y``, the squared distance less ``|x|^2``.
    slack : ndarray of shape (n_rows,)
        Twice the maximum error of a value in the row.
    offsets : ndarray of shape (n_bags + 1,)
        Which columns belong to which bag; no bag is empty.
    X, Y : ndarray of shape (n_rows, n_features), (n_instances, n_features)
        The rows and the instances themselves.

    Returns
    -------
    ndarray of shape (n_rows, n_bags)
    """
    out = np.empty((len(approximate), len(offsets) - 1))
    _exact_nearest_in_bags(*read_only(np.ascontiguousarray(approximate), slack, offsets, X, Y), out)
    return out


def closest_instances(
    points: Floats, offsets: Ints, first: Ints, second: Ints, first_offsets: Ints | None = None
) -> tuple[Ints, Ints]:
    """The closest pair of instances of each pair of bags.

    Parameters
    ----------
    points : ndarray of shape (n_instances, n_features)
        The instances.
    offsets : ndarray of shape (n_bags + 1,)
        Where each bag begins; no bag is empty.
    first, second : ndarray of int64 of shape (n_pairs,)
        The bags of each pair.
    first_offsets : ndarray of shape (n + 1,), default=None
        Where the bags of `first` begin, if they are other ones, such as single instances.

    Returns
    -------
    rows of the first bag, rows of the second : ndarray of int64 of shape (n_pairs,)
    """
    left, right = np.empty(len(first), np.int64), np.empty(len(first), np.int64)
    bounds = threads.even_bounds(len(first), len(first) * points.shape[1])
    own = offsets if first_offsets is None else first_offsets
    threads.run_blocks(_closest_instances, bounds, points, own, offsets, first, second, left, right)
    return left, right


@_vectorised
def _closest_instances(start, stop, points, own, offsets, first, second, left, right):
    for pair in range(start, stop):
        best = np.inf
        left[pair], right[pair] = own[first[pair]], offsets[second[pair]]  # if all are NaN
        for i in range(own[first[pair]], own[first[pair] + 1]):
            for j in range(offsets[second[pair]], offsets[second[pair] + 1]):
                total = 0.0
                for f in range(points.shape[1]):
                    difference = points[i, f] - points[j, f]
                    total += difference * difference
                if total < best:
                    best, left[pair], right[pair] = total, i, j


@_compiled
def _exact_nearest_in_bags(approximate, slack, offsets, X, Y, out):
    for i in range(approximate.shape[0]):
        for bag in range(len(offsets) - 1):
            near = np.inf
            for j in range(offsets[bag], offsets[bag + 1]):
                near = min(near, approximate[i, j])
            near += slack[i]
            best = np.inf
            for j in range(offsets[bag], offsets[bag + 1]):
                if approximate[i, j] <= near:
                    total = 0.0
                    for k in range(X.shape[1]):
                        difference = np.float64(X[i, k]) - np.float64(Y[j, k])
                        total += difference * difference
                    best = min(best, total)
            out[i, bag] = best
