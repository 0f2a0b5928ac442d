"""scikit-learn's permutation importance, learning curves and data frames work with bags."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import r2_score

from bagwise import Bags
from bagwise.classification import SetKernelSVM
from bagwise.displays import InstanceScoreDisplay, KeyFeatureDisplay
from bagwise.exceptions import InputError, LabelError
from bagwise.predictions import permutation_importance
from bagwise.regression import SetKernelRegressor


@pytest.fixture
def data(rng):
    arrays = [rng.normal(size=(rng.integers(1, 5), 3)) + rng.normal(size=3) for _ in range(30)]
    bags = Bags.from_arrays(arrays, ids=[f"m{i}" for i in range(30)], feature_names=list("abc"))
    return bags, np.array([X[:, 1].mean() for X in arrays])


def test_importance_is_the_fall_of_the_score(data):
    bags, y = data
    model = SetKernelRegressor(C=100).fit(bags, y)
    found = permutation_importance(model, bags, y, n_repeats=3, random_state=0)
    seed = np.random.RandomState(0).randint(2**31)  # as scikit-learn: the same for each feature
    for j in range(3):
        rng, order = np.random.RandomState(seed), np.arange(bags.n_instances)
        table = bags.instances.copy()
        for k in range(3):
            rng.shuffle(order)
            table[:, j] = table[order, j]
            shuffled = bags.with_instances(table, feature_names=bags.feature_names)
            after = r2_score(y, model.predict(shuffled))
            assert found.importances[j, k] == pytest.approx(model.score(bags, y) - after)
    assert found.feature_names == ["a", "b", "c"]
    assert found.importances_mean.argmax() == 1
    np.testing.assert_allclose(found.importances_std, found.importances.std(axis=1))


def test_importance_of_a_constant_feature_is_zero_and_inputs_stay(data):
    bags, y = data
    table = np.column_stack([bags.instances, np.ones(bags.n_instances)])
    before = table.copy()
    labels = np.where(y > 0, "yes", "no")
    model = SetKernelSVM().fit(Bags(table, bags.offsets), labels)
    found = permutation_importance(
        model, Bags(table, bags.offsets), labels, scoring="roc_auc", random_state=0
    )
    assert not found.importances[3].any()
    np.testing.assert_array_equal(table, before)
    assert found.feature_names == ["x0", "x1", "x2", "x3"]


def test_wrong_input_of_importance_is_refused(data):
    bags, y = data
    model = SetKernelRegressor().fit(bags, y)
    with pytest.raises(ValueError, match="'n_repeats' parameter"):
        permutation_importance(model, bags, y, n_repeats=0)
    with pytest.raises(LabelError, match="2 labels for 30 bags"):
        permutation_importance(model, bags, y[:2])
    rows = Bags(sparse.csr_array(bags.instances), bags.offsets)
    with pytest.raises(InputError, match=r"[Ss]parse"):
        permutation_importance(model, rows, y)


def test_the_features_of_the_key_instance(data):
    figure = pytest.importorskip("matplotlib.figure")
    bags, y = data
    model = SetKernelRegressor().fit(bags, y)
    place = int(np.flatnonzero(bags.sizes > 2)[0])
    axes = figure.Figure().subplots()
    display = KeyFeatureDisplay.from_estimator(
        model, bags, bag=f"m{place}", max_features=2, ax=axes
    )
    key = int(model.key_instances(bags)[place])
    z = (bags[place] - bags.instances.mean(axis=0)) / bags.instances.std(axis=0)
    apart = np.abs(z[key] - np.delete(z, key, axis=0).mean(axis=0))
    chosen = np.argsort(-apart)[:2]
    assert display.names == [bags.feature_names[j] for j in chosen]
    keys = next(line for line in axes.lines if line.get_label() == "key instance")
    np.testing.assert_allclose(keys.get_xdata(), z[key][chosen])
    others = next(line for line in axes.lines if line.get_label() == "other")
    assert len(others.get_xdata()) == 2 * (bags.sizes[place] - 1)
    assert axes.get_title(loc="left").startswith(f"m{place}: ")
    lonely = int(np.flatnonzero(bags.sizes == 1)[0])
    KeyFeatureDisplay.from_predictions(bags, 0, bag=lonely, ax=figure.Figure().subplots())
    for wrong, message in (
        ({"bag": "x"}, "there is no bag 'x'"),
        ({"bag": 99}, "there is no bag 99"),
    ):
        with pytest.raises(InputError, match=message):
            KeyFeatureDisplay.from_estimator(model, bags, **wrong)
    with pytest.raises(InputError, match="key is 9"):
        KeyFeatureDisplay.from_predictions(bags, 9)


def test_scores_of_instances_by_a_regressor(data):
    figure = pytest.importorskip("matplotlib.figure")
    bags, y = data
    model = SetKernelRegressor().fit(bags, y)
    axes = figure.Figure().subplots()
    display = InstanceScoreDisplay.from_estimator(model, bags, max_bags=4, ax=axes)
    np.testing.assert_allclose(np.concatenate(display.scores), model.score_instances(bags[:4]))
    with pytest.raises(InputError, match="a regressor has no labels"):
        InstanceScoreDisplay.from_estimator(model, bags, label="a")
