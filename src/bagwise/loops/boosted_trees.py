"""Small trees fitted to signed weights, and the gradient of a noisy-or likelihood.

A tree of depth D has arrays of ``2^D - 1`` features and thresholds, in heap order (the children of
node v are 2v + 1 and 2v + 2), and ``2^D`` leaf values. An instance goes left if its feature is not
above the threshold; a node that does not split has the threshold infinity.
"""

import numpy as np

from bagwise._common.types import Bools, Floats, Ints
from bagwise.exceptions import InputError
from bagwise.loops.arguments import read_only
from bagwise.loops.compilation import compiled
from bagwise.loops.threads import even_bounds, run_blocks

_compiled = compiled()


def grow_tree(
    columns: Floats, order: Ints, weights: Floats, depth: int
) -> tuple[Ints, Floats, Floats, Ints]:
    """Grow the tree h that fits the weights best, level by level.

    The value of a leaf is ``W / A``, where W is the sum of its weights and A the sum of their
    absolute values: between -1 and 1. The fit ``sum_i weights_i h_i`` is then the sum of
    ``W^2 / A`` over the leaves, and each split is the one that raises it most.

    Parameters
    ----------
    columns : ndarray of shape (n_features, n_instances)
        The features, each contiguous.
    order : ndarray of shape (n_features, n_instances)
        The instances sorted by each feature.
    weights : ndarray of shape (n_instances,)
        Target sign of each instance, times its importance.
    depth : int
        Number of splits above a leaf.

    Returns
    -------
    feature, threshold : ndarray of shape (2 ** depth - 1,)
    leaf : ndarray of shape (2 ** depth,)
    place : ndarray of shape (n_instances,)
        The leaf of each instance.
    """
    feature = np.zeros(2**depth - 1, np.int32)
    threshold = np.full(2**depth - 1, np.inf)
    place = np.zeros(columns.shape[1], np.int32)
    moduli = np.abs(weights)
    bounds = even_bounds(len(columns), columns.size)
    for level in range(depth):
        n_nodes = 2**level
        W = np.bincount(place, weights, n_nodes)
        A = np.bincount(place, moduli, n_nodes)
        found = run_blocks(_best_splits, bounds, columns, order, place, weights, moduli, W, A)
        gains = np.array([gain for gain, _, _ in found])  # (n_blocks, n_nodes)
        # The first among equals, up to rounding: the lowest feature.
        best = (gains >= gains.max(axis=0) - 1e-12 * A).argmax(axis=0)
        for v in range(n_nodes):
            if gains[best[v], v] > 0:
                feature[n_nodes - 1 + v] = found[best[v]][1][v]
                threshold[n_nodes - 1 + v] = found[best[v]][2][v]
        _descend(columns, feature, threshold, n_nodes - 1, place)
    W = np.bincount(place, weights, 2**depth)
    A = np.bincount(place, moduli, 2**depth)
    return feature, threshold, np.divide(W, A, out=np.zeros_like(W), where=A > 0), place


def predict_trees(X: Floats, features: Ints, thresholds: Floats, leaves: Floats) -> Floats:
    """Sum the values of all trees for each instance.

    Parameters
    ----------
    X : ndarray of shape (n_instances, n_features)
        The instances.
    features, thresholds : ndarray of shape (n_trees, 2 ** depth - 1)
        The trees.
    leaves : ndarray of shape (n_trees, 2 ** depth)
        The values of their leaves.

    Returns
    -------
    ndarray of shape (n_instances,)
    """
    n_inner = features.shape[1]
    if thresholds.shape != features.shape or leaves.shape != (len(features), n_inner + 1):
        raise InputError("the arrays of the trees have other shapes than expected.")
    if features.size and not 0 <= features.min() <= features.max() < X.shape[1]:
        raise InputError(f"a tree splits by a feature out of range: there are {X.shape[1]}.")
    out = np.zeros(len(X))
    bounds = even_bounds(len(X), len(X) * len(features))
    run_blocks(_predict, bounds, *read_only(X, features, thresholds, leaves), out)
    return out


def noisy_or_likelihood(scores: Floats, offsets: Ints, positive: Bools) -> tuple[float, Floats]:
    """Negative log-likelihood of bags under noisy-or, and its negative gradient in the scores.

    Parameters
    ----------
    scores : ndarray of shape (n_instances,)
        Log-odds of the instances.
    offsets : ndarray of shape (n_bags + 1,)
        Where each bag begins.
    positive : ndarray of bool of shape (n_bags,)
        Which bags are positive.

    Returns
    -------
    value : float
    weights : ndarray of shape (n_instances,)
        The negative gradient: ``p (1 - P) / P`` in a positive bag, ``-p`` in a negative one, with
        p the probability of the instance and P that of the bag.
    """
    weights = np.empty_like(scores)
    return _likelihood(scores, offsets, positive, weights), weights


@_compiled
def best_step(scores, outputs, offsets, positive, longest):  # type: ignore[no-untyped-def]
    """The first step along `outputs` at which the noisy-or likelihood stops increasing.

    By bisection; at most `longest`. The arguments are those of `noisy_or_likelihood`.
    """
    weights = np.empty_like(scores)
    low, high, doubling = 0.0, 0.25, True
    while doubling or high - low > 1e-4 * high:
        step = high if doubling else 0.5 * (low + high)
        _likelihood(scores + step * outputs, offsets, positive, weights)
        if (weights * outputs).sum() <= 0:
            high, doubling = step, False
        elif step >= longest:
            return longest
        else:
            low, high = step, min(2 * step, longest) if doubling else high
    return low


@_compiled
def _best_splits(  # type: ignore[no-untyped-def]
    first, last, columns, order, place, weights, moduli, W, A
):
    n_nodes = len(W)
    gain, feature = np.zeros(n_nodes), np.zeros(n_nodes, np.int64)
    threshold, root = np.full(n_nodes, np.inf), np.zeros(n_nodes)
    for v in range(n_nodes):
        if A[v] > 0:
            root[v] = W[v] * W[v] / A[v]
    left, left_moduli, before = np.empty(n_nodes), np.empty(n_nodes), np.empty(n_nodes)
    for f in range(first, last):
        left[:] = 0.0
        left_moduli[:] = 0.0
        before[:] = -np.inf
        for i in order[f]:
            v, value = place[i], columns[f, i]
            right, right_moduli = W[v] - left[v], A[v] - left_moduli[v]
            # Rounding may leave a tiny sum of moduli on an empty side: no split there.
            if value > before[v] and left_moduli[v] > 0 and right_moduli > 1e-12 * A[v]:
                gained = left[v] * left[v] / left_moduli[v] + right * right / right_moduli - root[v]
                if gained > gain[v] + 1e-12 * A[v]:
                    gain[v], feature[v] = gained, f
                    middle = 0.5 * (before[v] + value)
                    threshold[v] = middle if middle < value else before[v]
            before[v] = value
            left[v] += weights[i]
            left_moduli[v] += moduli[i]
    return gain, feature, threshold


@_compiled
def _descend(columns, feature, threshold, offset, place):  # type: ignore[no-untyped-def]
    for i in range(len(place)):
        node = offset + place[i]
        right = columns[feature[node], i] > threshold[node]
        place[i] = 2 * place[i] + (1 if right else 0)


@_compiled
def _predict(start, stop, X, features, thresholds, leaves, out):  # type: ignore[no-untyped-def]
    n_inner = features.shape[1]
    for i in range(start, stop):
        for tree in range(len(features)):
            node = 0
            while node < n_inner:
                right = X[i, features[tree, node]] > thresholds[tree, node]
                node = 2 * node + (2 if right else 1)
            out[i] += leaves[tree, node - n_inner]


@_compiled
def _likelihood(scores, offsets, positive, weights):  # type: ignore[no-untyped-def]
    value = 0.0
    for bag in range(len(offsets) - 1):
        doubt, largest = 0.0, -np.inf  # S = -log prod(1 - p) = sum of log(1 + exp(score))
        for j in range(offsets[bag], offsets[bag + 1]):
            doubt += _log1pexp(scores[j])
            largest = max(largest, scores[j])
        if not positive[bag]:
            value += doubt
            for j in range(offsets[bag], offsets[bag + 1]):
                weights[j] = -np.exp(-_log1pexp(-scores[j]))
            continue
        if largest < -30.0:  # log(exp(S) - 1) = log S, where S may underflow
            flat = 0.0
            for j in range(offsets[bag], offsets[bag + 1]):
                flat += np.exp(scores[j] - largest)
            flat = largest + np.log(flat)
        else:
            flat = doubt + np.log(-np.expm1(-doubt))
        value += doubt - flat  # -log(1 - exp(-S))
        for j in range(offsets[bag], offsets[bag + 1]):
            weights[j] = np.exp(-_log1pexp(-scores[j]) - flat)
    return value


@_compiled
def _log1pexp(value):  # type: ignore[no-untyped-def]
    return value + np.log1p(np.exp(-value)) if value > 0 else np.log1p(np.exp(value))
