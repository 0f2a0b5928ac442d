"""The problems of the classic multi-instance SVMs, written out by loops for a general QP."""

import numpy as np
import pytest
from scipy import sparse


def solved(points, signs, margins, groups, costs):
    """min 1/2 |w|^2 + sum_g C_g xi_g with y (w.z + b) >= p - xi_g; gives w, b and the objective."""
    clarabel = pytest.importorskip("clarabel", reason="the oracle is a QP solved by clarabel")
    points, signs = np.asarray(points), np.asarray(signs, float)
    d, n_groups = points.shape[1], len(costs)
    P = sparse.csc_array(sparse.diags_array(np.r_[np.ones(d), np.zeros(1 + n_groups)]))
    meet = np.hstack([-signs[:, None] * points, -signs[:, None], -np.eye(n_groups)[groups]])
    positive = np.hstack([np.zeros((n_groups, d + 1)), -np.eye(n_groups)])
    rows = sparse.csc_array(np.vstack([meet, positive]))
    right = np.r_[-np.asarray(margins, float), np.zeros(n_groups)]
    options = clarabel.DefaultSettings()
    options.verbose = False
    options.tol_gap_abs = options.tol_gap_rel = options.tol_feas = 1e-10
    q = np.r_[np.zeros(d + 1), costs]
    cones = [clarabel.NonnegativeConeT(len(right))]
    found = clarabel.DefaultSolver(P, q, rows, right, cones, options).solve()
    x = np.array(found.x)
    return x[:d], x[d], found.obj_val


def of_labels(bags, labels, costs):
    """The ordinary SVM on instances with given labels; costs are per bag."""
    n = bags.n_instances
    return solved(bags.instances, labels, np.ones(n), np.arange(n), np.repeat(costs, bags.sizes))


def of_witnesses(bags, positive, witnesses, costs, *, slack_per_bag=True):
    """MI-SVM with the witness of each positive bag given."""
    points, signs, groups, group_costs = [], [], [], []
    for bag, is_positive, witness, cost in zip(bags, positive, witnesses, costs, strict=True):
        rows = [bag[witness]] if is_positive else list(bag)
        for j, row in enumerate(rows):
            if j == 0 or not slack_per_bag:
                group_costs.append(cost)
            points.append(row)
            signs.append(1 if is_positive else -1)
            groups.append(len(group_costs) - 1)
    return solved(points, signs, np.ones(len(points)), groups, np.array(group_costs))


def of_means(bags, positive, costs):
    """sMIL."""
    points, signs, margins, group_costs = [], [], [], []
    for bag, is_positive, cost in zip(bags, positive, costs, strict=True):
        points += [bag.mean(axis=0)] if is_positive else list(bag)
        signs += [1] if is_positive else [-1] * len(bag)
        margins += [2 / len(bag) - 1] if is_positive else [1] * len(bag)
        group_costs += [cost] if is_positive else [cost] * len(bag)
    return solved(points, signs, margins, np.arange(len(points)), np.array(group_costs))


def rbf_coordinates(bags, gamma):
    """The bags in coordinates whose products are RBF kernel values."""
    from sklearn.metrics.pairwise import rbf_kernel

    values, vectors = np.linalg.eigh(rbf_kernel(bags.instances, gamma=gamma))
    return bags.with_instances(vectors * np.sqrt(np.maximum(values, 0)))
