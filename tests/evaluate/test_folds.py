"""Input of the cross-validation: numbers of folds, groups, label sets."""

import numpy as np
import pytest

from bagwise.auto import AutoBagClassifier, AutoBagRegressor
from bagwise.classification import AttentionMIL, CitationKNN, SetKernelSVM
from bagwise.datasets import make_bags
from bagwise.evaluate import evaluate, held_out_predictions
from bagwise.evaluate._evaluation import make_folds, prepare
from bagwise.exceptions import InputError, LabelError


@pytest.fixture(scope="module")
def data():
    return make_bags(n_bags=30, n_features=3, random_state=0)


@pytest.mark.parametrize("cv", [np.int64(5), np.uint8(5), None])
def test_groups_stay_together_for_every_kind_of_whole_number(data, cv):
    groups = np.arange(30) // 3
    _, _, folds, _, _ = prepare(data.bags, data.y, cv, groups)
    expected = make_folds(data.y, n_folds=5, groups=groups)
    for found, own in zip(folds, expected, strict=True):
        np.testing.assert_array_equal(found[1], own[1])
        assert not set(groups[found[0]]) & set(groups[found[1]])


@pytest.mark.parametrize(
    "given",
    [
        lambda bags, y, groups: evaluate(SetKernelSVM(), bags, y, groups=groups),
        lambda bags, y, groups: held_out_predictions(SetKernelSVM(), bags, y, groups=groups),
        lambda bags, y, groups: AutoBagClassifier().fit(bags, y, groups=groups),
        lambda bags, y, groups: AutoBagRegressor().fit(bags, y, groups=groups),
        lambda bags, y, groups: AttentionMIL().fit(bags, y, groups=groups),
    ],
    ids=["evaluate", "held out", "auto", "auto regressor", "torch"],
)
def test_a_bag_without_a_group_is_refused(data, given):
    with pytest.raises(InputError, match=r"bag 29 has no group \(None\)"):
        given(data.bags, data.y, [*np.arange(29) // 3, None])


@pytest.mark.parametrize(
    ("odd", "message"),
    [
        (lambda names: [float("nan"), *names[1:]], r"bag 0 has no group \(nan\)"),
        (lambda names: np.zeros((30, 2)), r"shape \(30, 2\) for 30 bags"),
    ],
    ids=["NaN", "two columns"],
)
def test_odd_groups_are_refused(data, odd, message):
    with pytest.raises(InputError, match=message):
        evaluate(SetKernelSVM(), data.bags, data.y, groups=odd([f"p{i // 3}" for i in range(30)]))


@pytest.mark.parametrize(
    ("y", "options", "error", "message"),
    [
        ([0, 0, 0, 0], {"n_folds": 2}, LabelError, "nothing to learn"),
        ([0, 0, 0, 1], {"n_folds": 2}, LabelError, "label 1 has 1 bag.* for 2 folds"),
        ([0, 1, 0, 1], {"n_folds": 1}, InputError, "1 folds of 4 bags: expected at least 2,"),
        ([0, 1, 0, 1], {"n_folds": 2, "groups": np.zeros(4)}, InputError, "2 folds of 1 group"),
        ([[0, 1]] * 3, {"n_folds": 4}, InputError, "4 folds of 3 bag.*set cv="),
    ],
)
def test_folds_that_cannot_be_drawn(y, options, error, message):
    with pytest.raises(error, match=message):
        make_folds(np.array(y), **options)


def test_a_list_of_sets_is_evaluated_as_its_table(data):
    table = np.column_stack([np.arange(30) % 2, np.arange(30) % 3 > 0, data.y]).astype(int)
    sets = [{label for label, has in zip("abc", row, strict=True) if has} for row in table]
    model = CitationKNN()
    assert evaluate(model, data.bags, sets).scores == evaluate(model, data.bags, table).scores
    found = held_out_predictions(model, data.bags, sets)
    expected = held_out_predictions(model, data.bags, table)
    np.testing.assert_array_equal(found.predicted, expected.predicted)
    assert found.classes.tolist() == ["a", "b", "c"]
    fitted = model.fit(data.bags, sets)
    exact = (fitted.predict(data.bags) == table).all(axis=1)
    assert fitted.score(data.bags, sets) == pytest.approx(exact.mean())
    assert fitted.score(data.bags, [None, *sets[1:]]) == pytest.approx(exact[1:].mean())
