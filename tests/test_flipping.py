"""The flipping curve against a loop and against all orders; average precision of instances."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

from bagwise import Bags
from bagwise.exceptions import InputError, LabelError
from bagwise.metrics import flipping_curve, instance_average_precision
from cases import each


class Pooled:
    """A model that pools the first features of the instances; each column is a class."""

    def __init__(self, pool=np.sum, classes=("no", "yes")):
        self.pool, self.classes_, self.n_scored = pool, np.array(classes), 0

    def decision_function(self, bags):
        self.n_scored += len(bags)
        n_columns = len(self.classes_)
        values = bags.instances[:, 0 if n_columns == 2 else slice(n_columns)]
        return np.array([self.pool(part, axis=0) for part in bags.split(values)])


def drawn(rng, sizes=(2, 3, 7)):
    return Bags.from_arrays([rng.uniform(0.5, 2, size=(n, 3)) for n in sizes])


def falls_by_loop(model, bag, order):
    """The decrease of the score after each removal, one bag and one instance at a time."""
    scores = [model.decision_function(Bags.from_arrays([bag[order]]))[0]]
    for k in range(1, len(bag)):
        scores.append(model.decision_function(Bags.from_arrays([bag[order[k:]]]))[0])
    return scores[0] - np.array(scores)


@each("pool", [np.max, np.mean, np.sum])
def test_the_curve_against_a_loop(rng, pool):
    bags, model = drawn(rng), Pooled(pool)
    values = rng.normal(size=bags.n_instances)
    curve = flipping_curve(model, bags, values, n_steps=6, random_state=0)
    expected = []
    for bag, part in zip(bags, bags.split(values), strict=True):
        falls = falls_by_loop(model, bag, np.argsort(-part))
        counts = np.unique(np.rint(np.linspace(0, len(bag) - 1, 7)).astype(int))
        expected.append(np.interp(curve.shares, counts / (len(bag) - 1), falls[counts]))
    np.testing.assert_allclose(curve.falls, np.mean(expected, axis=0), rtol=1e-9, atol=1e-12)
    assert curve.area == pytest.approx(np.trapezoid(curve.falls, curve.shares))
    assert curve.random_area == pytest.approx(np.trapezoid(curve.random_falls, curve.shares))
    assert curve.gain == pytest.approx(curve.area - curve.random_area)


@pytest.mark.parametrize("pool", [np.max, np.sum])
def test_no_order_beats_that_of_the_scores(rng, pool):
    """The score rises with the scores of the instances: the highest have to go first."""
    bags, model = drawn(rng, sizes=(4,)), Pooled(pool)
    areas = [
        flipping_curve(model, bags, order, n_orders=1, random_state=0).area
        for order in permutations(range(4))
    ]
    own = flipping_curve(model, bags, bags.instances[:, 0], n_orders=1, random_state=0)
    assert own.area == pytest.approx(max(areas))
    assert own.gain > 0


def test_equal_attributions_are_a_random_order(rng):
    bags, model = drawn(rng, sizes=(5,) * 150), Pooled(np.max)
    curve = flipping_curve(model, bags, np.zeros(bags.n_instances), random_state=0)
    own = flipping_curve(model, bags, bags.instances[:, 0], random_state=0)
    assert abs(curve.gain) < 0.15 * own.gain


def test_the_first_class_has_the_opposite_sign(rng):
    bags, model = drawn(rng), Pooled()
    values = rng.normal(size=bags.n_instances)
    second = flipping_curve(model, bags, values, label="yes", random_state=0)
    predicted = flipping_curve(model, bags, values, random_state=0)  # all scores are positive
    np.testing.assert_array_equal(second.falls, predicted.falls)
    first = flipping_curve(model, bags, values, label="no", random_state=0)
    backwards = flipping_curve(model, bags, -values, label="yes", random_state=0)
    np.testing.assert_allclose(first.falls, -backwards.falls)


def test_several_classes_are_watched_one_per_bag(rng):
    bags, model = drawn(rng), Pooled(classes=("a", "b", "c"))
    both = flipping_curve(model, bags, bags.instances, random_state=0)
    predicted = model.decision_function(bags).argmax(axis=1)
    own = bags.instances[np.arange(bags.n_instances), predicted[bags.bag_index]]
    one = flipping_curve(model, bags, own, random_state=0)
    np.testing.assert_array_equal(both.falls, one.falls)
    third = flipping_curve(model, bags, bags.instances, label="c", random_state=0)
    column = flipping_curve(model, bags, bags.instances[:, 2], label="c", random_state=0)
    np.testing.assert_array_equal(third.falls, column.falls)


def test_bags_of_one_instance_are_left_out(rng):
    bags = drawn(rng, sizes=(1, 4, 1, 6))
    values = rng.normal(size=bags.n_instances)
    several = bags[[1, 3]]
    kept = np.concatenate([bags.split(values)[i] for i in (1, 3)])
    found = flipping_curve(Pooled(), bags, values, random_state=0)
    expected = flipping_curve(Pooled(), several, kept, random_state=0)
    np.testing.assert_array_equal(found.falls, expected.falls)
    np.testing.assert_array_equal(found.random_falls, expected.random_falls)


def test_the_cost_is_what_the_documentation_says(rng):
    bags, model = drawn(rng, sizes=(30, 40)), Pooled()
    flipping_curve(model, bags, np.zeros(70), n_steps=4, n_orders=3, random_state=0)
    assert model.n_scored == 2 * (1 + (1 + 3) * (4 + 1))


@settings(max_examples=25)
@given(
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    n_steps=st.integers(1, 9),
    seed=st.integers(0, 5),
)
def test_curves_begin_at_the_whole_bag_and_end_with_one_instance(sizes, n_steps, seed):
    rng = np.random.default_rng(seed)
    bags = drawn(rng, sizes=[*sizes, 2])
    values = rng.integers(-1, 2, size=bags.n_instances)
    curve = flipping_curve(Pooled(), bags, values, n_steps=n_steps, n_orders=1, random_state=0)
    assert curve.shares[0] == 0
    assert curve.shares[-1] == 1
    assert curve.falls[0] == curve.random_falls[0] == 0
    assert np.diff(curve.falls).min() >= -1e-12  # positive scores are summed


def test_what_is_refused(rng):
    bags, model = drawn(rng), Pooled()
    values = np.zeros(bags.n_instances)
    for wrong, match in [
        (values[1:], r"shape \(11,\): expected a row for each of the 12 instances"),
        (values + np.nan, "without NaN"),
        (np.zeros((12, 3)), "attributions have 3 columns: the model has 2 classes"),
    ]:
        with pytest.raises(InputError, match=match):
            flipping_curve(model, bags, wrong)
    with pytest.raises(InputError, match="every bag has one instance"):
        flipping_curve(model, bags.instances, values)
    with pytest.raises(ValueError, match="n_steps == 0"):
        flipping_curve(model, bags, values, n_steps=0)
    with pytest.raises(LabelError, match="maybe"):
        flipping_curve(model, bags, values, label="maybe")
    del model.classes_
    model.decision_function = lambda some: np.zeros(len(some))
    with pytest.raises(InputError, match="Pooled has no classes_: leave label out"):
        flipping_curve(model, bags, values, label="yes")


class TestInstanceAveragePrecision:
    def test_it_is_that_of_scikit_learn(self, rng):
        truth, scores = rng.integers(0, 3, size=50), rng.normal(size=50)
        expected = average_precision_score(truth == 2, scores)
        assert instance_average_precision(truth, scores, label=2) == pytest.approx(expected)
        names = np.array(["a", "b", "c"])[truth]
        assert instance_average_precision(names, scores, label="c") == pytest.approx(expected)

    def test_unknown_labels_are_left_out(self, rng):
        truth, scores = rng.integers(-1, 2, size=50), rng.normal(size=50)
        known = truth >= 0
        expected = instance_average_precision(truth[known], scores[known])
        assert instance_average_precision(truth, scores) == pytest.approx(expected)

    def test_with_bags_it_is_the_mean_over_bags_with_the_label(self, rng):
        bags = drawn(rng, sizes=(4, 3, 5))
        truth = np.array([0, 1, 0, 1, 0, 0, 0, 1, 0, -1, 0, 0])
        scores = rng.normal(size=12)
        first = average_precision_score(truth[:4], scores[:4])
        last = average_precision_score(truth[[7, 8, 10, 11]], scores[[7, 8, 10, 11]])
        found = instance_average_precision(truth, scores, bags=bags)
        assert found == pytest.approx((first + last) / 2)
        shifted = scores + 100 * bags.bag_index  # only the order inside a bag counts
        assert instance_average_precision(truth, shifted, bags=bags) == pytest.approx(found)

    def test_what_is_refused(self, rng):
        with pytest.raises(LabelError, match="no instance has the label 7"):
            instance_average_precision([0, 1], [0.5, 0.2], label=7)
        with pytest.raises(InputError, match=r"scores have shape \(3,\) for 2 instance labels"):
            instance_average_precision([0, 1], [0.5, 0.2, 0.1])
        with pytest.raises(InputError, match="2 labels for the 12 instances"):
            instance_average_precision([0, 1], [0.5, 0.2], bags=drawn(rng))


def test_the_prediction_of_a_regressor_falls(rng):
    from bagwise.regression import SetKernelRegressor

    arrays = [rng.normal(size=(6, 2)) for _ in range(30)]
    y = np.array([X[:, 0].mean() for X in arrays]) - 10  # negative predictions, too
    bags = Bags.from_arrays(arrays)
    model = SetKernelRegressor(C=100).fit(bags, y)
    curve = flipping_curve(model, bags, model.score_instances(bags), random_state=0)
    assert curve.area > curve.random_area + 0.1
    against = flipping_curve(model, bags, -model.score_instances(bags), random_state=0)
    assert against.area < curve.random_area
