"""Nearest neighbours from rows to bags: the inner loop of every Hausdorff-type distance."""

import numpy as np

from bagwise._common.types import Array, Floats, Ints
from bagwise.compiled import threads
from bagwise.compiled.arguments import read_only
from bagwise.compiled.compilation import compiled

_compiled = compiled()
# Sums in any order let the compiler use vector instructions.
_vectorised = compiled(fastmath={"reassoc", "contract"})


def nearest_in_bags(distances: Array, offsets: Ints) -> tuple[Array, Ints]:
    """For each row, the smallest entry among the columns of each bag, and its column.

    Parameters
    ----------
    distances : ndarray of shape (n_rows, n_instances)
        From row to instance; any monotone function of the distance.
    offsets : ndarray of shape (n_bags + 1,)
        Which columns belong to which bag.

    Returns
    -------
    smallest : ndarray of shape (n_rows, n_bags)
        ``inf`` for an empty bag.
    column : ndarray of int64 of shape (n_rows, n_bags)
        The first column that attains it.
    """
    shape = (len(distances), len(offsets) - 1)
    smallest, column = np.empty(shape, distances.dtype), np.empty(shape, np.int64)
    _nearest_in_bags(np.ascontiguousarray(distances), offsets, smallest, column)
    return smallest, column


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


def nearest_of_pairs(X: Floats, offsets: Ints, rows: Ints, bags: Ints) -> Ints:
    """For each pair of an instance and a bag, the instance of the bag that is nearest.

    Parameters
    ----------
    X : ndarray of shape (n_instances, n_features)
        The instances.
    offsets : ndarray of shape (n_bags + 1,)
        Which instances belong to which bag; no bag is empty.
    rows, bags : ndarray of shape (n_pairs,)
        The pairs.

    Returns
    -------
    ndarray of int64 of shape (n_pairs,)
        Rows of X; the first in a tie.
    """
    out = np.empty(len(rows), np.int64)
    _nearest_of_pairs(np.ascontiguousarray(X), offsets, rows, bags, out)
    return out


@_compiled
def _nearest_of_pairs(X, offsets, rows, bags, out):  # type: ignore[no-untyped-def]
    for pair in range(len(rows)):
        x, best = X[rows[pair]], np.inf
        out[pair] = offsets[bags[pair]]  # if all distances are NaN
        for j in range(offsets[bags[pair]], offsets[bags[pair] + 1]):
            total = 0.0
            for k in range(X.shape[1]):
                difference = x[k] - X[j, k]
                total += difference * difference
            if total < best:
                best, out[pair] = total, j


def closest_instances(
    points: Floats, offsets: Ints, first: Ints, second: Ints
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

    Returns
    -------
    rows of the first bag, rows of the second : ndarray of int64 of shape (n_pairs,)
    """
    left, right = np.empty(len(first), np.int64), np.empty(len(first), np.int64)
    bounds = threads.even_bounds(len(first), len(first) * points.shape[1])
    threads.run_blocks(_closest_instances, bounds, points, offsets, first, second, left, right)
    return left, right


@_vectorised
def _closest_instances(start, stop, points, offsets, first, second, left, right):  # type: ignore[no-untyped-def]
    for pair in range(start, stop):
        best = np.inf
        left[pair], right[pair] = offsets[first[pair]], offsets[second[pair]]  # if all are NaN
        for i in range(offsets[first[pair]], offsets[first[pair] + 1]):
            for j in range(offsets[second[pair]], offsets[second[pair] + 1]):
                total = 0.0
                for f in range(points.shape[1]):
                    difference = points[i, f] - points[j, f]
                    total += difference * difference
                if total < best:
                    best, left[pair], right[pair] = total, i, j


def mean_distances(X: Floats, Y: Floats) -> Floats:
    """The mean Euclidean distance of each row of Y from all rows of X.

    Parameters
    ----------
    X, Y : ndarray of shape (n, n_features), (n_rows, n_features)
        The rows; at least one in X.

    Returns
    -------
    ndarray of shape (n_rows,)
    """
    out = np.empty(len(Y))
    n_values = float(len(Y)) * X.size
    # Short blocks: on one core, Ctrl-C is handled between them.
    n_blocks = max(len(threads.even_bounds(len(Y), n_values)) - 1, int(n_values / 1e8))
    bounds = np.unique(np.linspace(0, len(Y), n_blocks + 1).astype(np.int64))
    threads.run_blocks(_mean_distances, bounds, np.ascontiguousarray(X), Y, out)
    return out


@_vectorised
def _mean_distances(start, stop, X, Y, out):  # type: ignore[no-untyped-def]
    for i in range(start, stop):
        total = 0.0
        for j in range(X.shape[0]):
            squared = 0.0
            for k in range(X.shape[1]):
                difference = Y[i, k] - X[j, k]
                squared += difference * difference
            total += np.sqrt(squared)
        out[i] = total / X.shape[0]


@_compiled
def _nearest_in_bags(distances, offsets, smallest, column):  # type: ignore[no-untyped-def]
    for i in range(distances.shape[0]):
        for bag in range(len(offsets) - 1):
            best, place = np.inf, offsets[bag]
            for j in range(offsets[bag], offsets[bag + 1]):
                if distances[i, j] < best:
                    best, place = distances[i, j], j
            smallest[i, bag], column[i, bag] = best, place


@_compiled
def _exact_nearest_in_bags(approximate, slack, offsets, X, Y, out):  # type: ignore[no-untyped-def]
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
