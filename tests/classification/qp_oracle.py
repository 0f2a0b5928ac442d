"""Multi-instance SVMs by a general QP solver: a slow reference, also for the benchmarks."""

import clarabel
import numpy as np
from scipy import sparse


def solve_margins(points, signs, margins, groups, costs):
    """min 1/2 |w|^2 + sum_g C_g xi_g with y (w.z + b) >= p - xi_g; returns w, b, objective."""
    points, signs = np.asarray(points), np.asarray(signs, float)
    d, n_groups = points.shape[1], len(costs)
    P = sparse.csc_array(sparse.diags_array(np.r_[np.ones(d), np.zeros(1 + n_groups)]))
    q = np.r_[np.zeros(d + 1), costs]
    meet = np.hstack([-signs[:, None] * points, -signs[:, None], -np.eye(n_groups)[groups]])
    positive = np.hstack([np.zeros((n_groups, d + 1)), -np.eye(n_groups)])
    right = np.r_[-np.asarray(margins, float), np.zeros(n_groups)]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    rows = sparse.csc_array(np.vstack([meet, positive]))
    cones = [clarabel.NonnegativeConeT(len(right))]
    found = clarabel.DefaultSolver(P, q, rows, right, cones, settings).solve()
    x = np.array(found.x)
    return x[:d], x[d], found.obj_val


def bag_margin_problem(bags, positive, witnesses, C):
    """MI-SVM with a witness (a row) per positive bag; a negative bag shares one slack."""
    points, signs, groups = [], [], []
    for i, bag in enumerate(bags):
        rows = [witnesses[i]] if positive[i] else list(bag)
        points += rows
        signs += [1 if positive[i] else -1] * len(rows)
        groups += [i] * len(rows)
    return points, signs, np.ones(len(points)), groups, np.full(len(bags), C)


def bag_margin_by_qp(bags, positive, C, max_rounds=50):
    """MI-SVM as published: solve the QP, take the best instance for the witness, repeat."""
    witnesses = [bag.mean(axis=0) for bag in bags]
    places = None
    for _ in range(max_rounds):
        w, b, objective = solve_margins(*bag_margin_problem(bags, positive, witnesses, C))
        new = [int((bag @ w).argmax()) for bag in bags]
        if new == places:
            break
        places = new
        witnesses = [bag[j] for bag, j in zip(bags, places, strict=True)]
    return w, b, objective
