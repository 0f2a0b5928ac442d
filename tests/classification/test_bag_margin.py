"""MI-SVM: brute force over witnesses, invariants of the alternation."""

from itertools import product

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from bagwise import Bags
from bagwise.classification import BagMarginSVM
from bagwise.datasets import load_musk1
from bagwise.preprocessing import InstanceTransformer
from cases import covering, each
from checks import example
from margin_oracle import PerInstance, assert_same_up_to_a_shift, of_witnesses, rbf_coordinates


def stated(C=1.0, negatives="bag", kernel="linear", **options):
    """The problem as stated."""
    cls = BagMarginSVM if negatives == "bag" else PerInstance
    return cls(C, kernel=kernel, threshold="zero", **options)


@covering(
    C=[0.05, 1.0, 20.0], kernel=["linear", "rbf"], negatives=["bag", "instance"], seed=range(3)
)
def test_it_ends_at_the_svm_of_its_own_witnesses(seed, negatives, kernel, C):
    bags, y = example(12, seed=seed)
    model = stated(C, negatives=negatives, kernel=kernel, gamma=0.2).fit(bags, y)
    space = bags if kernel == "linear" else rbf_coordinates(bags, 0.2)
    w, _, value = of_witnesses(
        space,
        y == "q",
        model.key_instances(bags),
        np.full(len(bags), C),
        slack_per_bag=negatives == "bag",
    )
    assert model.objective_curve_[-1] == pytest.approx(value, rel=1e-6)
    assert_same_up_to_a_shift(model.score_instances(bags), space.instances @ w)


@each("negatives", ["bag", "instance"])
@each("seed", range(3))
def test_no_witnesses_are_better_where_the_classes_are_apart(seed, negatives):
    rng = np.random.default_rng(seed)
    arrays = [rng.normal(size=(3, 2)) for _ in range(8)]
    positive = np.arange(8) % 2 == 1
    for array in arrays[1::2]:
        array[0] += 6
    bags = Bags.from_arrays(arrays)
    choices = [range(3) if is_positive else [0] for is_positive in positive]
    per_bag = negatives == "bag"
    best = min(
        of_witnesses(bags, positive, chosen, np.ones(8), slack_per_bag=per_bag)[2]
        for chosen in product(*choices)
    )
    found = stated(negatives=negatives).fit(bags, positive)
    assert found.objective_curve_[-1] == pytest.approx(best, rel=1e-6)


@each("C", [0.01, 1.0, 100.0])
def test_the_objective_is_the_documented_one_and_never_rises(C):
    bags, y = example(40, seed=3)
    model = stated(C).fit(bags, y)
    assert len(model.objective_curve_) == model.n_iter_
    assert (np.diff(model.objective_curve_) <= 1e-6 * model.objective_curve_[:-1]).all()
    signs = np.where(y == "q", 1, -1)
    losses = np.maximum(0, 1 - signs * model.decision_function(bags))
    expected = 0.5 * np.sum(model.coef_**2) + C * losses.sum()
    assert model.objective_curve_[-1] == pytest.approx(expected, rel=1e-7)


def test_the_first_witness_is_the_mean_of_the_bag():
    bags, y = example(20)
    with pytest.warns(ConvergenceWarning, match="max_iter=1"):
        model = stated(max_iter=1, negatives="instance").fit(bags, y)
    rows = np.concatenate(
        [[bag.mean(axis=0)] if label == "q" else bag for bag, label in zip(bags, y, strict=True)]
    )
    labels = np.concatenate(
        [[1] if label == "q" else [-1] * len(bag) for bag, label in zip(bags, y, strict=True)]
    )
    cousin = SVC(kernel="linear", tol=1e-8).fit(rows, labels)
    np.testing.assert_allclose(model.coef_, cousin.coef_, atol=1e-4)


def test_one_slack_per_negative_bag_is_not_one_per_instance():
    # The negative bag reaches into the positive class twice: it pays once or twice.
    bags, y = [[[0.0], [1.0], [1.0]], [[1.0]], [[-3.0]]], [0, 1, 0]
    per_bag, per_instance = (
        stated(0.1, negatives=negatives).fit(bags, y) for negatives in ("bag", "instance")
    )
    assert per_bag.decision_function([[[1.0]]]) > per_instance.decision_function([[[1.0]]])
    for model, times in ((per_bag, 1), (per_instance, 2)):
        f = lambda x, m=model: m.decision_function([[[x]]])[0]  # noqa: E731
        losses = [1 - f(1.0), times * (1 + f(1.0)), 1 + f(-3.0), (times - 1) * (1 + f(0.0))]
        expected = 0.5 * model.coef_[0, 0] ** 2 + 0.1 * np.maximum(0, losses).sum()
        assert model.objective_curve_[-1] == pytest.approx(expected)


def test_where_the_means_tell_nothing_the_order_still_does_not_matter():
    # One against the rest: the means of class p lie among the other instances, so w = 0 at first.
    bags, y = example(24, n_classes=3, seed=1)
    order = np.random.default_rng(0).permutation(24)
    model = stated(negatives="instance").fit(bags, y == "p")
    assert model.objective_curve_[0] == pytest.approx(16)  # eight bags, each 1 - (-1)
    mixed = stated(negatives="instance").fit(bags[order], y[order] == "p")
    np.testing.assert_allclose(
        mixed.decision_function(bags), model.decision_function(bags), atol=1e-6
    )


def test_musk1_reaches_the_known_figure():
    # misvm: .803 in six folds. Here .81 at C = 0.1, a mean of five draws of the folds.
    data = load_musk1()
    model = make_pipeline(InstanceTransformer(StandardScaler()), stated(0.1))
    folds = StratifiedKFold(6, shuffle=True, random_state=0)
    assert cross_val_score(model, data.bags, data.y, cv=folds).mean() >= 0.77
