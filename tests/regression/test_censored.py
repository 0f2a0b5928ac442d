"""CensoredBagRegressor: what it reduces to, what it gains, what it refuses."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bagwise import Bags
from bagwise.auto import AutoBagRegressor
from bagwise.classification import SetKernelSVM
from bagwise.embedding import BagStatistics
from bagwise.exceptions import LabelError
from bagwise.labels import Intervals
from bagwise.predictions import instance_attributions
from bagwise.preprocessing import InstanceTransformer, make_bag_pipeline
from bagwise.regression import CensoredBagRegressor, SetKernelRegressor
from cases import each

INNER = [
    SetKernelRegressor(C=3.0),
    make_pipeline(BagStatistics(), Ridge()),
    make_bag_pipeline(InstanceTransformer(StandardScaler()), SetKernelRegressor()),
]


def example(n_bags=30, seed=0):
    """Bags whose number is the mean of the first feature plus the largest of the second."""
    rng = np.random.default_rng(seed)
    arrays = [rng.normal(size=(rng.integers(1, 6), 3)) + rng.normal(size=3) for _ in range(n_bags)]
    y = np.array([X[:, 0].mean() + X[:, 1].max() for X in arrays])
    return Bags.from_arrays(arrays), 5 + 2 * y + rng.normal(size=n_bags)


def censored_example(n_bags=120, seed=0, share=0.4):
    """Bags, their numbers, and what is known of them: `share` is below a limit."""
    bags, y = example(n_bags, seed)
    limit = np.quantile(y, share)
    return bags, y, Intervals(np.where(y < limit, -np.inf, y), np.maximum(y, limit))


@each("inner", INNER)
def test_without_censored_numbers_it_is_the_regressor(inner):
    bags, y = example()
    test, _ = example(seed=1)
    plain = clone(inner).fit(bags, y)
    for numbers in (y, Intervals(y, y), y.astype(str), list(map(str, y))):
        model = CensoredBagRegressor(inner).fit(bags, numbers)
        np.testing.assert_allclose(model.predict(test), plain.predict(test), rtol=1e-12)
    assert model.instance_pooling == getattr(plain, "instance_pooling", model.instance_pooling)


@each("inner", INNER)
def test_it_is_better_than_leaving_censored_bags_out(inner):
    errors = []
    for seed in range(3):
        bags, y, known = censored_example(seed=10 + seed)
        test, truth = example(200, seed=20 + seed)
        model = CensoredBagRegressor(inner).fit(bags, known)
        assert ((model.numbers_ >= known.lower) & (model.numbers_ <= known.upper)).all()
        assert model.score(test, truth) > 0.8
        exact = np.flatnonzero(known.exact)
        without = clone(inner).fit(bags[exact], y[exact])
        errors.append([np.abs(each.predict(test) - truth).mean() for each in (model, without)])
    ours, theirs = np.mean(errors, axis=0)
    assert ours < theirs - 0.1


def test_contributions_are_those_of_the_regressor():
    bags, _, known = censored_example(60)
    model = CensoredBagRegressor().fit(bags, known)
    inside = model.estimator_
    np.testing.assert_array_equal(model.score_instances(bags), inside.score_instances(bags))
    np.testing.assert_array_equal(model.key_instances(bags), inside.key_instances(bags))
    for method in ("score", "one_removed"):
        found, expected = (instance_attributions(m, bags, method=method) for m in (model, inside))
        np.testing.assert_allclose(found, expected)
    assert not hasattr(CensoredBagRegressor(INNER[1]).fit(bags, known), "score_instances")


def test_the_order_of_bags_is_irrelevant(rng):
    bags, _, known = censored_example(60)
    order = rng.permutation(60)
    first = CensoredBagRegressor().fit(bags, known)
    second = CensoredBagRegressor().fit(bags[order], known[order])
    np.testing.assert_allclose(first.predict(bags), second.predict(bags), rtol=1e-6)


def test_groups_stay_in_one_fold():
    bags, _, known = censored_example(20)
    seen = []

    class Spy(SetKernelRegressor):
        def fit(self, X, y):
            seen.append(set(X.ids.tolist()))
            return super().fit(X, y)

    groups = np.arange(20) // 2
    named = Bags(bags.instances, bags.offsets, ids=np.arange(20))
    CensoredBagRegressor(Spy(), max_iter=1, tol=100.0).fit(named, known, groups=groups)
    for bags_of_fold in seen:
        assert all((i ^ 1) in bags_of_fold for i in bags_of_fold)


def test_ensembles_and_scikit_learn_take_intervals():
    bags, _, known = censored_example(60)
    auto = AutoBagRegressor(candidates=["pooled-ridge", "nsk"], cv=3, random_state=0)
    model = CensoredBagRegressor(auto, cv=3, tol=0.2).fit(bags, known)
    assert model.score(bags, known) > 0.8
    scores = cross_val_score(CensoredBagRegressor(), bags, known, cv=3)
    assert min(scores) > 0.7
    column = pd.Series(["<3", *map(str, known.upper[1:])])
    assert cross_val_score(CensoredBagRegressor(), bags, column, cv=3).min() > 0.7


BAGS = Bags.from_arrays([[[0.0]], [[1.0]], [[2.0]], [[3.0]]], ids=list("abcd"))


@each(("y", "message"), [
    (Intervals([0, 3, 1, 2], [0, 2, 1, 2]), "bag 1 \\('b'\\).*lower end exceeds"),
    (["1", "3-2", "1", "2"], "bag 1 \\('b'\\).*lower end exceeds"),
    (Intervals([0, 1, np.nan, 2], [0, 2, 1, 2]), "bag 2 \\('c'\\) has NaN"),
    (["1", "", "2", "<3"], "bag 1 \\('b'\\) has no number"),
    ([1, 2, None, "<3"], "bag 2 \\('c'\\) has no number"),
    (["<1", "<2", "<1", "<3"], "all bags are censored on one side, such as bag 0 \\('a'\\)"),
    ([">=1"] * 4, "all bags are censored on one side"),
    (["1", "few", "2", "3"], "the number of bag 1 \\('b'\\) is 'few'"),
    (["1", "<2", "3"], "3 labels for 4 bags"),
    (Intervals([1.0, 2.0], [1.0, 2.0]), "2 labels for 4 bags"),
    ([1.0, 2.0, np.nan, 3.0], "bag 2 \\('c'\\)"),
    (Intervals([1e200, 0, 1, 2], [1e200, 0, 1, 2]), "bag 0 \\('a'\\).*overflows"),
])  # fmt: skip
def test_wrong_numbers_are_refused_by_the_name_of_the_bag(y, message):
    with pytest.raises(LabelError, match=message):
        CensoredBagRegressor(cv=2).fit(BAGS, y)


@each("model", [SetKernelRegressor(), AutoBagRegressor(cv=2), SetKernelSVM()])
def test_other_models_name_the_class_for_intervals(model):
    _, _, known = censored_example(4)
    with pytest.raises(LabelError, match="CensoredBagRegressor"):
        model.fit(BAGS, known)
    if not isinstance(model, SetKernelSVM):
        with pytest.raises(LabelError, match="CensoredBagRegressor"):
            model.fit(BAGS, ["1", "<2", "3", "4"])


def test_the_inner_estimator_must_be_a_regressor():
    with pytest.raises(ValueError, match="expected a regressor"):
        CensoredBagRegressor(SetKernelSVM()).fit(BAGS, [1, 2, 3, 4])
