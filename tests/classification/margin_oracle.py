"""The problems of the classic multi-instance SVMs, written out by loops for a general QP."""

import numpy as np
import pytest

from bagwise.classification import BagMarginSVM
from bagwise.solvers.margin.misvm import bag_margin


def solved(*problem):
    """w, b and the objective, by an interior point method."""
    pytest.importorskip("clarabel", reason="the oracle is a QP solved by clarabel")
    from qp_oracle import solve_margins

    return solve_margins(*problem)


def of_labels(bags, labels, costs):
    """The ordinary SVM on instances with given labels; costs are per bag."""
    n = bags.n_instances
    return solved(bags.instances, labels, np.ones(n), np.arange(n), np.repeat(costs, bags.sizes))


class PerInstance(BagMarginSVM):
    """MI-SVM with a margin error per instance of a negative bag, as printed."""

    def _separate(self, bags):
        return bag_margin(bags, slack_per_bag=False, max_iter=self.max_iter, tol=self.tol)


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


def assert_same_up_to_a_shift(found, expected):
    """Scores equal but for a constant: where all slacks are in use, the intercept is not unique."""
    shift = np.asarray(found) - np.asarray(expected)
    np.testing.assert_allclose(shift, shift.mean(), atol=1e-4 * max(1.0, np.abs(expected).max()))
