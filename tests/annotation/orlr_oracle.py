"""Posterior labels, the slow and obvious ways."""

import itertools

import numba
import numpy as np
from scipy.special import log_softmax


def by_enumeration(scores, labels, background=False, known=None):
    """Sum over all labelings: the posterior (n x C) and log P(Y).

    `known` holds the label of each instance, -1 where any is possible: log P(Y, known labels).
    """
    log_p = log_softmax(scores, axis=1)
    n, n_classes = scores.shape
    allowed = [*labels, n_classes - 1] if background else list(labels)
    joint, total = np.zeros(scores.shape), 0.0
    for labeling in itertools.product(allowed, repeat=n):
        agrees = known is None or all(k in (-1, y) for k, y in zip(known, labeling, strict=True))
        if agrees and set(labels) <= set(labeling):
            chance = np.exp(log_p[np.arange(n), labeling].sum())
            joint[np.arange(n), labeling] += chance
            total += chance
    return joint / total, np.log(total)


@numba.njit(cache=True)
def paper_dp(p):
    """P(y_i = c, Y) by the forward algorithm of the paper (Eq. 12), once for each instance.

    `p` holds the probabilities of the labels of Y (n x k); quadratic in n.
    """
    n, k = p.shape
    size = 1 << k
    joint = np.zeros((n, k))
    for i in range(n):
        table = np.zeros(size)
        table[0] = 1.0
        for j in range(n):
            if j == i:  # swapped to the end
                continue
            new = np.zeros(size)
            for state in range(size):
                for c in range(k):
                    if state >> c & 1:
                        new[state] += p[j, c] * (table[state] + table[state ^ (1 << c)])
            table = new
        for c in range(k):  # Eq. 11
            joint[i, c] = p[i, c] * (table[size - 1] + table[(size - 1) ^ (1 << c)])
    return joint
