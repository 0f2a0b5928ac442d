"""Two small problems on the simplex that the level method solves in each step.

For a piecewise linear model max_k (A mu)_k of a convex function of mu: its minimum, and the nearest
point at which it is below a level.
"""

import numpy as np

from bagwise.loops.compilation import compiled

_compiled = compiled()


@_compiled
def least(A):
    """Minimum over the simplex of max_k (A mu)_k, and the mu that attains it.

    A matrix game, solved by the simplex method: with all entries shifted to positive values,
    x = mu / value maximises 1'x subject to A x <= 1, x >= 0.
    """
    n_planes, n = A.shape
    shift = A.min() - 1.0
    tableau = np.zeros((n_planes + 1, n + n_planes + 1))
    basis = np.empty(n_planes, np.int64)
    for k in range(n_planes):
        for t in range(n):
            tableau[k, t] = A[k, t] - shift
        tableau[k, n + k] = 1.0
        tableau[k, -1] = 1.0
        basis[k] = n + k
    tableau[-1, :n] = -1.0
    for _ in range(50 * (n + n_planes)):
        enter = -1
        for c in range(n + n_planes):  # first improving column (Bland's rule): no cycles
            if tableau[-1, c] < -1e-12:
                enter = c
                break
        if enter < 0:
            break
        leave, smallest = -1, np.inf
        for k in range(n_planes):
            if tableau[k, enter] > 1e-12:
                ratio = tableau[k, -1] / tableau[k, enter]
                if ratio < smallest or (ratio == smallest and basis[k] < basis[leave]):
                    leave, smallest = k, ratio
        if leave < 0:
            break
        tableau[leave] /= tableau[leave, enter]
        for k in range(n_planes + 1):
            if k != leave:
                tableau[k] -= tableau[k, enter] * tableau[leave]
        basis[leave] = enter
    mu = np.zeros(n)
    for k in range(n_planes):
        if basis[k] < n:
            mu[basis[k]] = max(tableau[k, -1], 0.0)
    total = mu.sum()
    mu /= total
    return 1.0 / total + shift, mu


@_compiled
def nearest_below(A, mu, level, n_sweeps):
    """The point of the simplex nearest to mu with A mu <= level, by Hildreth's projections.

    The normals are first projected onto the plane of sum 1, so that no projection leaves it.
    """
    n_planes, n = A.shape
    normals = np.empty((n_planes + n, n))
    bounds = np.empty(n_planes + n)
    for k in range(n_planes):
        mean = A[k].mean()
        normals[k] = A[k] - mean
        bounds[k] = level - mean
    for t in range(n):
        normals[n_planes + t] = 1.0 / n
        normals[n_planes + t, t] -= 1.0
        bounds[n_planes + t] = 1.0 / n
    multipliers = np.zeros(n_planes + n)
    x = mu.copy()
    for _ in range(n_sweeps):
        moved = 0.0
        for j in range(n_planes + n):
            square = (normals[j] * normals[j]).sum()
            if square <= 1e-30:
                continue
            step = max(((normals[j] * x).sum() - bounds[j]) / square, -multipliers[j])
            multipliers[j] += step
            x -= step * normals[j]
            moved = max(moved, abs(step) * np.sqrt(square))
        if moved < 1e-9:
            break
    x = np.maximum(x, 0.0)
    return x / x.sum()
