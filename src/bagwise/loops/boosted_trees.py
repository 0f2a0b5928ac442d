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
    feature, threshold, place, sums = _root(weights, depth)
    for level in range(depth):
        found = run_blocks(_best_splits, bounds, columns, order, place, weights, sums)
        blocks = map(np.concatenate, zip(*found, strict=True))  # each of shape (n_blocks, n_nodes)
        sums = _split(level, columns, weights, place, sums, feature, threshold, *blocks)
    return feature, threshold, sums[0] / np.maximum(sums[1], 1e-300), place


@_compiled
def grow_alone(columns, order, weights, depth):
    """Grow the same tree as `grow_tree` on one core, in one call: many trees of small bags."""
    feature, threshold, place, sums = _root(weights, depth)
    for level in range(depth):
        found = _best_splits(0, len(columns), columns, order, place, weights, sums)
        sums = _split(level, columns, weights, place, sums, feature, threshold, *found)
    return feature, threshold, sums[0] / np.maximum(sums[1], 1e-300), place


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
def _root(weights, depth):
    """A tree without splits: its features and thresholds, places, and W and A of each node."""
    sums, n_inner = np.empty((2, 1)), 2**depth - 1
    sums[0, 0], sums[1, 0] = weights.sum(), np.abs(weights).sum()
    feature, threshold = np.zeros(n_inner, np.int32), np.full(n_inner, np.inf)
    return feature, threshold, np.zeros(len(weights), np.int32), sums


@_compiled
def _split(level, columns, weights, place, sums, feature, threshold, gains, features, thresholds):
    """Split each node of a level by the best of all blocks; return W and A of the new nodes."""
    first, below = 2**level - 1, np.zeros((2, 2 ** (level + 1)))
    for v in range(2**level):
        # The first among equals, up to rounding: the lowest feature.
        best = np.argmax(gains[:, v] >= gains[:, v].max() - 1e-12 * sums[1, v])
        feature[first + v], threshold[first + v] = features[best, v], thresholds[best, v]
    for i in range(len(place)):
        node = first + place[i]
        place[i] = 2 * place[i] + (columns[feature[node], i] > threshold[node])
        below[0, place[i]] += weights[i]
        below[1, place[i]] += abs(weights[i])
    return below


@compiled(error_model="numpy")  # divisions without a test for zero, several at once
def _best_splits(first, last, columns, order, place, weights, sums):
    """Gain, feature and threshold of the best split of each node; without gain, 0, 0 and inf.

    Each of shape (1, n_nodes).
    """
    W, A = sums
    n_nodes = len(W)
    gain, feature = np.zeros((1, n_nodes)), np.zeros((1, n_nodes), np.int64)
    threshold = np.full((1, n_nodes), np.inf)
    starts = np.zeros(n_nodes + 1, np.int64)  # of the rows of each node
    for v in place:
        starts[v + 1] += 1
    for v in range(n_nodes):
        starts[v + 1] += starts[v]
    left, moduli, fit = np.empty(len(place)), np.empty(len(place)), np.empty(len(place))
    for f in range(first, last):
        sorted_rows = order[f] if n_nodes == 1 else _by_node(order[f], place, starts)
        for v in range(n_nodes):
            rows = sorted_rows[starts[v] : starts[v + 1]]
            all_W, all_A, W_left, A_left = W[v], A[v], 0.0, 0.0
            whole = all_W**2 / max(all_A, 1e-300)
            for k in range(len(rows)):
                left[k], moduli[k] = W_left, A_left
                W_left += weights[rows[k]]
                A_left += abs(weights[rows[k]])
            for k in range(len(rows)):
                right, right_moduli = all_W - left[k], max(all_A - moduli[k], 1e-300)
                fit[k] = left[k] ** 2 / max(moduli[k], 1e-300) + right**2 / right_moduli
            least = whole + gain[0, v] + 1e-12 * all_A
            for k in range(1, len(rows)):
                if fit[k] > least:
                    before, value = columns[f, rows[k - 1]], columns[f, rows[k]]
                    # Rounding may leave a tiny sum of moduli on an empty side: no split there.
                    if value > before and moduli[k] > 0 and all_A - moduli[k] > 1e-12 * all_A:
                        gain[0, v], feature[0, v] = fit[k] - whole, f
                        least = fit[k] + 1e-12 * all_A
                        middle = 0.5 * (before + value)
                        threshold[0, v] = middle if middle < value else before
    return gain, feature, threshold


@_compiled
def _by_node(rows, place, starts):
    """The rows of each node, in their order, one node after the other."""
    found, free = np.empty_like(rows), starts.copy()
    for i in rows:
        found[free[place[i]]] = i
        free[place[i]] += 1
    return found


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
