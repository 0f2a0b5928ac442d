"""Means over decision trees of any shape.

The nodes of all trees are in one list. A child comes after its parent; a node whose children do not
come after it is a leaf, so that every descent ends for any arrays.
"""

import numpy as np

from bagwise._common.types import Array, Floats, Ints
from bagwise.compiled.arguments import read_only
from bagwise.compiled.compilation import compiled
from bagwise.compiled.threads import even_bounds, run_blocks

_compiled = compiled()


def mean_values(
    X: Array,
    roots: Ints,
    left: Ints,
    right: Ints,
    features: Ints,
    thresholds: Floats,
    values: Floats,
) -> Floats:
    """Mean over the trees of the values of the leaf that each row reaches.

    Parameters
    ----------
    X : ndarray of float32 of shape (n_rows, n_features)
        The rows. A row goes left if its feature is not above the threshold.
    roots : ndarray of shape (n_trees,)
        The root of each tree.
    left, right, features, thresholds : ndarray of shape (n_nodes,)
        Children, feature and threshold of each node.
    values : ndarray of shape (n_nodes, n_outputs)
        The values of leaves; those of other nodes are not used.

    Returns
    -------
    ndarray of shape (n_rows, n_outputs)
    """
    out = np.zeros((len(X), values.shape[1]))
    bounds = even_bounds(len(X), 16 * len(X) * len(roots))
    arrays = read_only(X, roots, left, right, features, thresholds, values)
    run_blocks(_add_values, bounds, *arrays, out)
    return out / len(roots)


@_compiled
def _add_values(  # type: ignore[no-untyped-def]
    start, stop, X, roots, left, right, features, thresholds, values, out
):
    for i in range(start, stop):
        for node in roots:
            while left[node] > node and right[node] > node:
                below = X[i, features[node]] <= thresholds[node]
                node = left[node] if below else right[node]
            for k in range(values.shape[1]):
                out[i, k] += values[node, k]
