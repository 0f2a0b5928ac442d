"""sMIL and sbMIL: each optimisation problem against a general QP solver."""

from functools import partial

import numpy as np
import pytest
from sklearn.svm import SVC

from bagwise import Bags
from bagwise.classification import BalancedSparseMIL, SparseMIL
from cases import covering, each
from checks import example
from margin_oracle import assert_same_up_to_a_shift, of_labels, of_means, rbf_coordinates

# The problems as stated.
smil = partial(SparseMIL, kernel="linear", threshold="zero", negative_weight=1.0)
sbmil = partial(BalancedSparseMIL, kernel="linear", threshold="zero", negative_weight=1.0)


@covering(C=[0.05, 1.0, 20.0], kernel=["linear", "rbf"], seed=range(3))
def test_smil_solves_the_stated_problem(seed, kernel, C):
    bags, y = example(12, seed=seed)
    model = smil(C, kernel=kernel, gamma=0.2).fit(bags, y)
    space = bags if kernel == "linear" else rbf_coordinates(bags, 0.2)
    w, _, value = of_means(space, y == "q", np.full(len(bags), C))
    assert model.objective_curve_[-1] == pytest.approx(value, rel=1e-6)
    assert_same_up_to_a_shift(model.score_instances(bags), space.instances @ w)


def test_separable_bags_meet_their_margins(rng):
    positive = np.arange(12) % 2 == 1
    bags = Bags.from_arrays(
        [rng.normal(size=(2 + i % 3, 3)) + 4 * p for i, p in enumerate(positive)]
    )
    model = smil(C=1e4).fit(bags, positive)
    assert model.objective_curve_[-1] == pytest.approx(0.5 * np.sum(model.coef_**2), rel=1e-3)
    for scores, is_positive in zip(bags.split(model.score_instances(bags)), positive, strict=True):
        if is_positive:
            assert scores.mean() >= 2 / len(scores) - 1 - 1e-6
        else:
            assert scores.max() <= -1 + 1e-6


@each("eta", [0.0, 0.3, 0.7, 1.0])
@each("kernel", ["linear", "rbf"])
def test_sbmil_is_an_svm_on_the_top_share_of_smil(eta, kernel):
    bags, y = example(16, seed=2)
    options = {"C": 0.5, "kernel": kernel, "gamma": 0.2}
    scores = smil(**options).fit(bags, y).score_instances(bags)
    candidates = np.flatnonzero((y == "q")[bags.bag_index])
    n_top = max(round(eta * len(candidates)), np.count_nonzero(y == "q"))
    labels = -np.ones(bags.n_instances)
    labels[candidates[np.argsort(-scores[candidates])[:n_top]]] = 1
    space = bags if kernel == "linear" else rbf_coordinates(bags, 0.2)
    w, _, value = of_labels(space, labels, np.full(len(bags), 0.5))
    model = sbmil(eta=eta, **options).fit(bags, y)
    assert model.objective_curve_[-1] == pytest.approx(value, rel=1e-6)
    assert_same_up_to_a_shift(model.score_instances(bags), space.instances @ w)


def test_instances_as_good_as_the_last_one_chosen_are_chosen_too():
    # Two positive bags, two instances to choose, three of the best kind.
    bags = [[[3.0], [0.0]], [[3.0], [3.0]], [[0.0]], [[0.1]]]
    y = [1, 1, 0, 0]
    for order in ([0, 1, 2, 3], [1, 3, 0, 2]):
        model = sbmil(eta=0.1).fit([bags[i] for i in order], [y[i] for i in order])
        assert model.predict_instances([[[3.0], [0.0]]]).tolist() == [1, 0]
        w = model.coef_[0, 0]
        scores = np.array([3.0, 0.0, 3.0, 3.0, 0.0, 0.1]) * w + model.intercept_
        losses = np.maximum(0, 1 - np.array([1, -1, 1, 1, -1, -1]) * scores)
        assert model.objective_curve_[-1] == pytest.approx(0.5 * w**2 + losses.sum())


@each("kernel", ["linear", "rbf"])
def test_a_weight_of_negative_instances_is_their_share_of_the_cost(kernel):
    bags, y = example(16, seed=3)
    negative = y == "p"
    weight = 8 / bags.sizes[negative].sum()
    by_class = {"p": weight, "q": 1.0}
    for model, options in ((smil, {}), (sbmil, {"eta": 1.0})):
        # With eta = 1 all instances of positive bags are positive, whatever their rank.
        options = {"C": 0.5, "kernel": kernel, "gamma": 0.2, **options}
        found = model(negative_weight="auto", **options).fit(bags, y)
        named = model(negative_weight=weight, **options).fit(bags, y)
        np.testing.assert_array_equal(found.intercept_, named.intercept_)
        if model is smil:
            named = model(class_weight=by_class, **options).fit(bags, y)
        else:
            named = model(**options).fit(bags, y)
        np.testing.assert_allclose(
            found.decision_function(bags), named.decision_function(bags), atol=1e-6
        )


def test_sbmil_ranks_by_the_weighted_smil():
    bags, y = example(16, seed=2)
    options = {"C": 0.5, "kernel": "rbf", "gamma": 0.2, "negative_weight": "auto"}
    scores = smil(**options).fit(bags, y).score_instances(bags)
    inside = (y == "q")[bags.bag_index]
    top = inside & (scores >= np.sort(scores[inside])[-round(0.5 * inside.sum())] - 1e-9)
    found = sbmil(eta=0.5, **options).fit(bags, y)
    cousin = SVC(C=0.5, gamma=0.2, tol=1e-8).fit(bags.instances, top)
    assert_same_up_to_a_shift(found.score_instances(bags), cousin.decision_function(bags.instances))
