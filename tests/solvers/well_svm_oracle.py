"""The WellSVM relaxation by brute force: all label vectors and a general conic solver."""

from itertools import combinations, product

import clarabel
import numpy as np
from scipy import sparse


def all_labels(n, least):
    """All sign vectors with at least `least` of each sign."""
    every = np.array(list(product([-1, 1], repeat=n)))
    negative = (every < 0).sum(axis=1)
    return every[(negative >= least) & (n - negative >= least)]


def svm_value(K, y, costs):
    """max_a 1'a - 1/2 a'(K o yy')a in the box."""
    return relaxation(K, y[None], costs)


def relaxation(K, labels, costs):
    """max_a min_y 1'a - 1/2 a'(K o yy')a over the given label vectors, as a cone programme."""
    n = len(K)
    values, vectors = np.linalg.eigh(K)
    root = (np.sqrt(np.maximum(values, 0)) * vectors).T[values > 1e-12]  # K = root'root
    rank = len(root)
    theta = np.eye(n + 1)[n]
    rows, right = [-np.eye(n + 1)[:n], np.eye(n + 1)[:n]], [np.zeros(n), costs]
    cones = [clarabel.NonnegativeConeT(2 * n)]
    for y in labels:  # 2 |root (a o y)|^2 <= (theta + 1)^2 - (theta - 1)^2
        square = np.column_stack([np.sqrt(2) * root * y, np.zeros(rank)])
        rows.append(-np.vstack([theta, theta, square]))
        right.append(np.r_[1.0, -1.0, np.zeros(rank)])
        cones.append(clarabel.SecondOrderConeT(rank + 2))
    return -_solve(np.r_[-np.ones(n), 1.0], rows, right, cones)


def sdp_relaxation(K, cost, beta):
    """The relaxation of Xu et al. (2005): min over M of the SVM dual max_a 1'a - a'(K o M)a / 2.

    In its own dual, with multipliers nu, delta >= 0 of the box, the inner problem is the least v
    with 2 (v - C 1'delta) >= (1 + nu - delta)'(K o M)^-1 (1 + nu - delta), a Schur complement.
    """
    n = len(K)
    pairs = list(combinations(range(n), 2))
    place = {pair: k for k, pair in enumerate(pairs)}
    n_pairs = len(pairs)
    size = n_pairs + 2 * n + 1  # M above its diagonal of ones, nu, delta, v

    def unit(k, value=1.0):
        row = np.zeros(size)
        row[k] = value
        return row

    def entry(i, j):  # M_ij as (row of coefficients, constant)
        return (np.zeros(size), 1.0) if i == j else (unit(place[min(i, j), max(i, j)]), 0.0)

    at_least = [(unit(n_pairs + k), 0.0) for k in range(2 * n)]
    for k in range(n_pairs):
        at_least += [(unit(k), 1.0), (unit(k, -1.0), 1.0)]
    for i in range(n):
        total = sum(entry(i, j)[0] for j in range(n))
        at_least += [(total, beta + 1.0), (-total, beta - 1.0)]
    for i, j, k in combinations(range(n), 3):
        a, b, c = (unit(place[pair]) for pair in ((i, j), (j, k), (i, k)))
        at_least += [(c - a - b, 1.0), (a - b - c, 1.0), (b - a - c, 1.0), (a + b + c, 1.0)]

    def schur(i, j):
        if j < n:
            row, constant = entry(i, j)
            return K[i, j] * row, K[i, j] * constant
        if i < n:
            return unit(n_pairs + i) - unit(n_pairs + n + i), 1.0
        row = unit(size - 1, 2.0)
        row[n_pairs + n : n_pairs + 2 * n] = -2 * cost
        return row, 0.0

    rows = [-np.array([row for row, _ in at_least])]
    right = [np.array([constant for _, constant in at_least])]
    cones = [clarabel.NonnegativeConeT(len(at_least))]
    for part, order in ((entry, n), (schur, n + 1)):
        triangle = [(i, j) for j in range(order) for i in range(j + 1)]
        scale = np.array([1.0 if i == j else np.sqrt(2) for i, j in triangle])
        found = [part(i, j) for i, j in triangle]
        rows.append(-scale[:, None] * np.array([row for row, _ in found]))
        right.append(scale * np.array([constant for _, constant in found]))
        cones.append(clarabel.PSDTriangleConeT(order))
    return _solve(unit(size - 1), rows, right, cones)


def _solve(q, rows, right, cones):
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    P = sparse.csc_array((len(q), len(q)))
    A = sparse.csc_array(np.vstack(rows))
    found = clarabel.DefaultSolver(P, q, A, np.concatenate(right), cones, settings).solve()
    assert "Solved" in str(found.status)
    return found.obj_val
