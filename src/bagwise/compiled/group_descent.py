"""Dual coordinate descent for a multi-class SVM that scores a class by its best instance.

The dual has a group of variables per (bag, wrong class): one per instance that may be the best,
and one for none of them. They share a fixed mass. A step moves mass from the member of lowest to
the member of highest gradient, with an exact line search.
"""

import numpy as np

from bagwise.compiled.compilation import compiled

_compiled = compiled()


@_compiled
def descend(order, X, W, b, scale, codes, witness, members, mass, squares):  # type: ignore[no-untyped-def]
    """Run one pass over the groups in the given order; changes `mass`, `W` and `b` in place.

    ``members[i, m]`` are the instances of group (i, m), padded with -1; ``mass[i, m]`` are their
    dual variables, the last one for no instance. `scale` is the square of the constant feature
    whose weight is b. Returns the largest violation found.
    """
    n_features, capacity = X.shape[1], members.shape[2]
    gradient = np.empty(capacity + 1)
    worst = 0.0
    for i in order:
        y, own = codes[i], witness[i]
        for m in range(W.shape[0]):
            if m == y:
                continue
            own_score = b[y]
            for k in range(n_features):
                own_score += W[y, k] * X[own, k]
            gradient[capacity] = 0.0
            high, low = capacity, -1
            for e in range(capacity):
                j = members[i, m, e]
                if j < 0:
                    continue
                score = b[m]
                for k in range(n_features):
                    score += W[m, k] * X[j, k]
                gradient[e] = 1.0 + score - own_score
                if gradient[e] > gradient[high]:
                    high = e
            for e in range(capacity + 1):
                if mass[i, m, e] > 0.0 and (low < 0 or gradient[e] < gradient[low]):
                    low = e
            violation = gradient[high] - gradient[low]
            if high == low or violation <= 1e-12:
                continue
            worst = max(worst, violation)
            up = members[i, m, high] if high < capacity else -1
            down = members[i, m, low] if low < capacity else -1
            curvature = _curvature(X, squares, scale, own, up, down)
            step = mass[i, m, low]
            if curvature > 0.0:
                step = min(step, violation / curvature)
            mass[i, m, high] += step
            mass[i, m, low] -= step
            _add(X, W, b, scale, y, m, own, up, step)
            _add(X, W, b, scale, y, m, own, down, -step)
    return worst


@_compiled
def _curvature(X, squares, scale, own, up, down):  # type: ignore[no-untyped-def]
    """Squared distance of two members as directions of W; -1 stands for no instance."""
    if up < 0 or down < 0:
        j = up if down < 0 else down
        return squares[own] + squares[j] + 2.0 * scale
    total = 0.0
    for k in range(X.shape[1]):
        total += (X[up, k] - X[down, k]) ** 2
    return total


@_compiled
def _add(X, W, b, scale, y, m, own, j, step):  # type: ignore[no-untyped-def]
    """Add `step` times the direction that raises y at its witness `own` relative to m at j."""
    if j < 0:
        return
    for k in range(X.shape[1]):
        W[y, k] += step * X[own, k]
        W[m, k] -= step * X[j, k]
    b[y] += step * scale
    b[m] -= step * scale
