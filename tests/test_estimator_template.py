"""A new linear bag classifier, as docs/design.md shows it: parameters and `_solve`."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import Ridge

from bagwise.base import LinearBagClassifier
from bagwise.base._parameters import with_parameters
from bagwise.exceptions import InputError
from bagwise.solvers.result import SolverResult
from cases import each
from checks import example


def mean_ridge(means, targets, weight, C):
    """Minimise |W|^2 + C sum_i weight_i |targets_i - means_i W - b|^2: the solver."""
    centre = np.average(means, axis=0, weights=weight)
    level = np.average(targets, axis=0, weights=weight)
    X, scaled = means - centre, weight[:, None]
    A = X.T @ (scaled * X) + np.eye(X.shape[1]) / C
    coef = np.linalg.solve(A, X.T @ (scaled * (targets - level))).T
    return SolverResult((coef, level - coef @ centre), objective_curve=[0.0], converged=True)


@with_parameters
class MeanRidge(LinearBagClassifier):
    """Least squares on the means of the bags; an instance is scored as a bag of its own."""

    instance_pooling = "mean"

    C: float = 1.0
    class_weight: Any = None

    def _solve(self, bags, labels, weight, rng):
        means = np.array([bag.mean(axis=0) for bag in bags])
        targets = np.column_stack([labels.signs(k) for k in labels.positives])
        return mean_ridge(means, targets, weight, self.C)


@each("n_classes", [2, 3])
def test_the_template_does_the_rest(n_classes):
    bags, y = example(n_classes=n_classes)
    weight = np.arange(len(bags)) % 4  # 0 leaves a bag out
    model = MeanRidge(C=2.0).fit(bags, y, weight)
    means = np.array([np.asarray(bag).mean(axis=0) for bag in bags])
    signs = np.where(y[:, None] == model.classes_, 1.0, -1.0)[:, 1 if n_classes == 2 else 0 :]
    oracle = Ridge(alpha=0.5).fit(means, signs, weight)
    assert_allclose(model.coef_, np.atleast_2d(oracle.coef_), rtol=1e-8)
    assert_allclose(np.squeeze(model.decision_function(bags)), np.squeeze(oracle.predict(means)))
    assert model.n_iter_ == 1
    assert model.n_features_in_ == means.shape[1]
    assert model.score_instances(bags).shape[0] == bags.n_instances
    assert set(model.predict(bags)) <= set(y)


def test_weights_may_not_leave_out_a_class():
    bags, y = example()
    with pytest.raises(InputError, match="have weight 0"):
        MeanRidge().fit(bags, y, (y == y[0]).astype(float))


def test_a_fit_that_fails_leaves_the_earlier_model():
    bags, y = example()
    model = MeanRidge().fit(bags, y)
    earlier = dict(vars(model))
    with pytest.raises(InputError):
        model.fit(bags, y, np.full(len(bags), -1.0))
    assert vars(model) == earlier
