"""Small trees fitted to signed weights, and their best steps for a noisy-or likelihood.

A tree of depth D has arrays of ``2^D - 1`` features and thresholds, in heap order (the children of
node v are 2v + 1 and 2v + 2), and ``2^D`` leaf values. An instance goes left if its feature is not
above the threshold; a node that does not split has the threshold infinity.
"""

import numpy as np

from bagwise._common.types import Floats, Ints
from bagwise.exceptions import InputError
from bagwise.loops.arguments import read_only
from bagwise.loops.compilation import compiled
from bagwise.loops.segments import noisy_or_loss
from bagwise.loops.threads import even_bounds, run_blocks

_compiled = compiled()


def grow_tree(
    columns: Floats, order: Ints, weights: Floats, depth: int, bounds: Ints
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
    bounds : ndarray
        Blocks of features, one per thread.

    Returns
    -------
    feature, threshold : ndarray of shape (2 ** depth - 1,)
    leaf : ndarray of shape (2 ** depth,)
    place : ndarray of shape (n_instances,)
        The leaf of each instance.
    """
    feature, threshold = np.zeros(2**depth - 1, np.int32), np.full(2**depth - 1, np.inf)
    instances, place = np.arange(columns.shape[1]), np.zeros(columns.shape[1], np.int32)
    moduli = np.abs(weights)
    sums = np.array([[weights.sum()], [moduli.sum()]])  # W and A of each node
    for level in range(depth):
        data = columns, order, place, weights, sums
        one = len(bounds) == 2  # called thousands of times for small bags
        found = [_best_splits(*bounds, *data)] if one else run_blocks(_best_splits, bounds, *data)
        gains, features, thresholds = map(np.array, zip(*found, strict=True))  # (n_blocks, n_nodes)
        # The first among equals, up to rounding: the lowest feature.
        best = (gains >= gains.max(axis=0) - 1e-12 * sums[1]).argmax(axis=0), np.arange(2**level)
        first = 2**level - 1
        feature[first : 2 * first + 1] = features[best]
        threshold[first : 2 * first + 1] = thresholds[best]
        node = first + place
        place = 2 * place + (columns[feature[node], instances] > threshold[node])
        n_nodes = 2 ** (level + 1)
        sums = np.array([np.bincount(place, weights, n_nodes), np.bincount(place, moduli, n_nodes)])
    W, A = sums
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


@_compiled
def advance(scores, outputs, offsets, positive, learning_rate, longest):
    """Add `outputs` to the scores in place, times the best step and the learning rate.

    The best step is the first at which the noisy-or likelihood stops increasing, by bisection; at
    most `longest`.

    Parameters
    ----------
    scores, outputs : ndarray of shape (n_instances, 1)
        Log-odds of the instances, and the change.
    offsets : ndarray of shape (n_bags + 1,)
        Where each bag begins.
    positive : ndarray of bool of shape (n_bags, 1)
        Which bags are positive.

    Returns
    -------
    step : float
    loss : float
        Minus the log-likelihood afterwards.
    gradient : ndarray of shape (n_instances, 1)
        Its derivative in the scores.
    """
    n_bags = len(positive)
    weights, gradient = np.ones(n_bags), np.empty_like(scores)
    low, high, doubling = 0.0, 0.25, True
    while doubling or high - low > 1e-4 * high:
        step = high if doubling else 0.5 * (low + high)
        noisy_or_loss(0, n_bags, offsets, scores + step * outputs, positive, weights, gradient)
        if (gradient * outputs).sum() >= 0:
            high, doubling = step, False
        elif step >= longest:
            low = longest
            break
        else:
            low, high = step, min(2 * step, longest) if doubling else high
    low *= learning_rate
    scores += low * outputs
    return low, noisy_or_loss(0, n_bags, offsets, scores, positive, weights, gradient), gradient


@_compiled
def _best_splits(first, last, columns, order, place, weights, sums):
    """Gain, feature and threshold of the best split of each node; without gain, 0, 0 and inf."""
    W, A = sums
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
            left_moduli[v] += abs(weights[i])
    return gain, feature, threshold


@_compiled
def _predict(start, stop, X, features, thresholds, leaves, out):
    n_inner = features.shape[1]
    for i in range(start, stop):
        for tree in range(len(features)):
            node = 0
            while node < n_inner:
                right = X[i, features[tree, node]] > thresholds[tree, node]
                node = 2 * node + (2 if right else 1)
            out[i] += leaves[tree, node - n_inner]
