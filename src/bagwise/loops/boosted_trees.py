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
    n_leaves = 2**depth
    feature, threshold = np.zeros(n_leaves - 1, np.int32), np.full(n_leaves - 1, np.inf)
    place, starts = np.zeros(len(weights), np.int64), np.zeros(n_leaves + 1, np.int64)
    starts[1] = len(weights)
    W, A = np.zeros((2, n_leaves))  # of each node of the level
    W[0], A[0] = weights.sum(), np.abs(weights).sum()
    gains, thresholds = np.empty((2, len(columns), n_leaves))
    state = place, starts, W, A, gains, thresholds
    for level in range(depth):
        run_blocks(_best_splits, bounds, level, columns, order, weights, *state)
        _split(level, columns, weights, *state, feature, threshold)
    return feature, threshold, W / np.maximum(A, 1e-300), place


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
def best_step(start, stop, offsets, positive, weights, scores, outputs, longest, trial, gradient):
    """The first step along `outputs` at which the noisy-or likelihood stops increasing.

    By bisection; at most `longest`.

    Parameters
    ----------
    start, stop, offsets, positive, weights
        The bags and their labels, as for `noisy_or_loss`.
    scores, outputs : ndarray of shape (n_instances, 1)
        Log-odds of the instances, and the change.
    longest : float
        The largest step.
    trial, gradient : ndarray of shape (n_instances, 1)
        Overwritten.

    Returns
    -------
    float
    """
    low, high, doubling = 0.0, 0.25, True
    while doubling or high - low > 1e-4 * high:
        step = high if doubling else 0.5 * (low + high)
        for i in range(len(scores)):
            trial[i, 0] = scores[i, 0] + step * outputs[i, 0]
        noisy_or_loss(start, stop, offsets, positive, weights, trial, gradient)
        slope = 0.0
        for i in range(len(scores)):
            slope += gradient[i, 0] * outputs[i, 0]
        if slope >= 0:
            high, doubling = step, False
        elif step >= longest:
            return longest
        else:
            low, high = step, min(2 * step, longest) if doubling else high
    return low


@_compiled
def _split(level, columns, weights, place, starts, W, A, gains, thresholds, feature, threshold):
    """Split each node of a level by the best feature; W, A and places are then of the next one."""
    n_nodes, first = 1 << level, (1 << level) - 1
    for v in range(n_nodes):
        highest, f = 0.0, 0
        for other in range(len(columns)):
            highest = max(highest, gains[other, v])
        while gains[f, v] < highest - 1e-12 * A[v]:  # the first among equals, up to rounding
            f += 1
        feature[first + v], threshold[first + v] = f, thresholds[f, v]
    for v in range(2 * n_nodes):
        W[v] = A[v] = 0.0
        starts[v + 1] = 0
    for i in range(len(place)):
        node = first + place[i]
        v = 2 * place[i] + (1 if columns[feature[node], i] > threshold[node] else 0)
        place[i] = v
        W[v] += weights[i]
        A[v] += abs(weights[i])
        starts[v + 1] += 1
    for v in range(2 * n_nodes):
        starts[v + 1] += starts[v]


@compiled(error_model="numpy")  # divisions without a test for zero, several at once
def _best_splits(
    first, last, level, columns, order, weights, place, starts, W, A, gains, thresholds
):
    """Gain and threshold of the best split of each node by each feature; 0 and inf if none is best.

    The rows of node v are ``starts[v]:starts[v + 1]``, if rows are sorted by nodes.
    """
    n, n_nodes = len(place), 1 << level
    left, moduli, fit = np.empty(n), np.empty(n), np.empty(n)
    by_node, free = np.empty(n, np.int32), np.empty(n_nodes, np.int64)
    best = np.zeros(n_nodes)  # gain of the features so far: a split with less is of no use
    for f in range(first, last):
        if n_nodes > 1:
            for v in range(n_nodes):
                free[v] = starts[v]
            for i in order[f]:
                by_node[free[place[i]]] = i
                free[place[i]] += 1
        for v in range(n_nodes):
            rows = (order[f] if n_nodes == 1 else by_node)[starts[v] : starts[v + 1]]
            size = len(rows)
            all_W, all_A, W_left, A_left = W[v], A[v], 0.0, 0.0
            whole = all_W**2 / max(all_A, 1e-300)
            for k in range(size):
                left[k], moduli[k] = W_left, A_left
                W_left += weights[rows[k]]
                A_left += abs(weights[rows[k]])
            for k in range(size):
                right, right_moduli = all_W - left[k], max(all_A - moduli[k], 1e-300)
                fit[k] = left[k] ** 2 / max(moduli[k], 1e-300) + right**2 / right_moduli
            gains[f, v], thresholds[f, v] = 0.0, np.inf
            least = whole + best[v] + 1e-12 * all_A
            for k in range(1, size):
                if fit[k] > least:
                    before, value = columns[f, rows[k - 1]], columns[f, rows[k]]
                    # Rounding may leave a tiny sum of moduli on an empty side: no split there.
                    if value > before and moduli[k] > 0 and all_A - moduli[k] > 1e-12 * all_A:
                        gains[f, v] = best[v] = fit[k] - whole
                        least = fit[k] + 1e-12 * all_A
                        middle = 0.5 * (before + value)
                        thresholds[f, v] = middle if middle < value else before


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
