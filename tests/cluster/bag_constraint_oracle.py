"""The constraint matrices of Pei and Fern 2014, computed pair by pair."""

import itertools

import numpy as np


def profiles(label_sets):
    """y_i: the indicator of the label set divided by its size; 0 for an unlabelled bag."""
    rows = []
    for labels in label_sets:
        known = np.maximum(labels, 0).astype(float)
        rows.append(known / max(known.sum(), 1))
    return np.array(rows)


def quadruple_sum(bag_index, label_sets):
    """Eq. 9 without alpha, over labelled bags: the matrix in the trace of Eq. 10, over 2 M^2."""
    y = profiles(label_sets)
    labelled = [i for i, labels in enumerate(label_sets) if (np.asarray(labels) >= 0).all()]
    b = [(bag_index == i).astype(float) for i in range(len(label_sets))]
    Q = np.zeros((len(bag_index), len(bag_index)))
    for i, j in itertools.product(labelled, repeat=2):
        for r, s in itertools.product(labelled, repeat=2):
            Q += (y[i] @ y[j] - y[r] @ y[s]) * (np.outer(b[j], b[i]) - np.outer(b[s], b[r]))
    return Q / (2 * len(labelled) ** 2)


def as_printed(bag_index, label_sets):
    """Eq. 12."""
    y = profiles(label_sets)
    B = (bag_index[:, None] == np.arange(len(label_sets))).astype(float)
    mu = (y @ y.T).sum() / len(y) ** 2
    return B @ (y @ y.T - mu * np.eye(len(y))) @ B.T


def kind_of_pair(first, second):
    """Table 1, of two bags or of a bag and itself: must-link, cannot-link, or neither."""
    if (first < 0).any() or (second < 0).any():
        return None
    if first.sum() == 1 and (first == second).all():
        return "must"
    if not (first & second).any():
        return "cannot"
    return "ambiguous"


def only_ambiguous(bag_index, label_sets):
    """The corrected matrix without what must-links and cannot-links know."""
    Q = quadruple_sum(bag_index, label_sets)
    for p, q in np.ndindex(Q.shape):
        if kind_of_pair(label_sets[bag_index[p]], label_sets[bag_index[q]]) != "ambiguous":
            Q[p, q] = 0
    return Q


def spectral_learning(W, bag_index, label_sets, *, must_link=True):
    """1 for must-links, 0 for cannot-links."""
    W = W.copy()
    for p, q in np.ndindex(W.shape):
        kind = kind_of_pair(label_sets[bag_index[p]], label_sets[bag_index[q]])
        if kind == "cannot":
            W[p, q] = 0
        if kind == "must" and must_link and p != q:
            W[p, q] = 1
    return W


def must_link_penalty(bag_index, label_sets):
    """Mean over the instances linked with p of the squared difference to p, as a matrix."""
    n = len(bag_index)
    linked = np.array(
        [
            [kind_of_pair(label_sets[a], label_sets[b]) == "must" for a in bag_index]
            for b in bag_index
        ]
    )
    L = np.zeros((n, n))
    for p, q in itertools.combinations(range(n), 2):
        if linked[p, q]:
            u = np.zeros(n)
            u[p], u[q] = 1, -1
            L += np.outer(u, u) / linked[p].sum()
    return L


def local_scaling(X, t=7):
    """Similarity of each pair, by its definition; for instances without many duplicates."""
    n = len(X)
    D = np.array([[np.linalg.norm(a - b) for a in X] for b in X])
    s = np.array([np.sort(np.delete(D[p], p))[min(t, n - 1) - 1] for p in range(n)])
    W = np.array(
        [[np.exp(-(D[p, q] ** 2) / (2 * s[p] * s[q])) for q in range(n)] for p in range(n)]
    )
    np.fill_diagonal(W, 0)
    return W, s
