"""Exact optimal labels of unlabelled rows: branch and bound (Chapelle 2007), brute force."""

from itertools import product

import numpy as np


def branch_and_bound(machine, signs, n_positive=None):
    """The least value of a machine over all labels of the rows with sign 0.

    ``machine(signs)`` is (value, scores) of the machine trained on the rows with a sign. A row more
    never lowers the value: that of the decided rows is a lower bound for all labels of the others.
    With `n_positive`, exactly so many of the unlabelled rows are positive.
    """
    free = np.flatnonzero(signs == 0)
    most = {1: len(free) if n_positive is None else n_positive}
    most[-1] = len(free) if n_positive is None else len(free) - n_positive
    best, labels, n_solved = np.inf, None, 1
    nodes = [(*machine(signs), signs)]
    while nodes:
        value, scores, node = nodes.pop()
        if value >= best:
            continue
        undecided = free[node[free] == 0]
        if len(undecided) == 0:
            best, labels = value, node
            continue
        row = undecided[np.argmax(np.abs(scores[undecided]))]  # the other sign costs most there
        sign = 1 if scores[row] >= 0 else -1
        for child in (-sign, sign):  # the likelier one is popped first
            if np.sum(node[free] == child) < most[child]:
                decided = node.copy()
                decided[row] = child
                nodes.append((*machine(decided), decided))
                n_solved += 1
    return best, labels, n_solved


def brute_force(machine, signs, n_positive=None):
    """The same, by trying all labels."""
    free = np.flatnonzero(signs == 0)
    found = []
    for labels in product([-1, 1], repeat=len(free)):
        if n_positive is None or labels.count(1) == n_positive:
            node = signs.copy()
            node[free] = labels
            found.append((machine(node)[0], node))
    return min(found, key=lambda pair: pair[0])


def squared_hinge_machine(Z, costs, level):
    """1/2 |w|^2 + 1/2 sum of cost (1 - y f)_+^2 with f = Z w + level, by Newton's method."""

    def machine(signs):
        used = np.flatnonzero(signs)
        X, y, c, w = Z[used], signs[used], costs[used], np.zeros(Z.shape[1])

        def value(w):
            return 0.5 * w @ w + 0.5 * c @ np.maximum(0, 1 - y * (X @ w + level)) ** 2

        for _ in range(100):
            inside = y * (X @ w + level) < 1
            A, target = X[inside], y[inside] - level
            gram = np.eye(len(w)) + (A.T * c[inside]) @ A
            step = np.linalg.solve(gram, A.T @ (c[inside] * target)) - w
            length, now = 1.0, value(w)
            while length > 1e-10 and value(w + length * step) > now:
                length /= 2
            w = w + length * step
            if np.linalg.norm(step) < 1e-10 * (1 + np.linalg.norm(w)):
                break
        return value(w), Z @ w + level

    return machine
