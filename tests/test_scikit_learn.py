"""Bags in scikit-learn's tools, with array API dispatch off and on."""

import numpy as np
import pytest
import sklearn
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import StackingClassifier, VotingClassifier
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    StratifiedGroupKFold,
    cross_val_predict,
    cross_val_score,
    cross_validate,
    train_test_split,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from bagwise import Bags
from bagwise.classification import CitationKNN, SetKernelSVM, SingleInstanceClassifier
from bagwise.embedding import BagDissimilarity
from bagwise.preprocessing import InstanceTransformer
from cases import each


@pytest.fixture(params=[False, True], ids=["dispatch off", "dispatch on"], autouse=True)
def dispatch(request):
    with sklearn.config_context(array_api_dispatch=request.param):
        yield


@pytest.fixture
def data(rng):
    """Thirty bags whose class depends on their first feature."""
    y = np.array(["no", "yes"])[np.arange(30) % 2]
    arrays = [rng.normal(size=(rng.integers(2, 6), 4)) for _ in y]
    for array, label in zip(arrays, y, strict=True):
        array[:, 0] += 4 * (label == "yes")
    return Bags.from_arrays(arrays, ids=[f"s{i}" for i in range(30)]), y


def pipeline(model):
    return make_pipeline(InstanceTransformer(StandardScaler()), model)


def test_train_test_split_keeps_bags_and_ids(data):
    bags, y = data
    train, test, y_train, y_test = train_test_split(bags, y, random_state=0, stratify=y)
    assert isinstance(train, Bags)
    assert sorted([*train.ids, *test.ids]) == sorted(bags.ids)
    order = {name: i for i, name in enumerate(bags.ids)}
    assert [y[order[name]] for name in test.ids] == y_test.tolist()
    assert pipeline(SetKernelSVM()).fit(train, y_train).score(test, y_test) > 0.5


@each("n_jobs", [1, 2])
def test_cross_val_score(data, n_jobs):
    assert cross_val_score(pipeline(SetKernelSVM()), *data, cv=3, n_jobs=n_jobs).mean() > 0.8


@each("search", [GridSearchCV, HalvingGridSearchCV])
def test_searches(data, search):
    grid = {"setkernelsvm__C": [1e-3, 1.0], "setkernelsvm__bag_kernel": ["nsk", "minimax"]}
    found = search(pipeline(SetKernelSVM()), grid, cv=3).fit(*data)
    assert found.predict(data[0]).shape == (30,)


def test_pipeline_with_memory(data, tmp_path):
    steps = InstanceTransformer(StandardScaler()), BagDissimilarity(), StandardScaler(), SVC()
    cached = make_pipeline(*steps, memory=str(tmp_path))
    plain = make_pipeline(*steps).fit(*data).predict(data[0])
    for _ in range(2):  # the second fit reads the cache
        np.testing.assert_array_equal(cached.fit(*data).predict(data[0]), plain)


def test_calibrated_probabilities(data):
    model = CalibratedClassifierCV(SetKernelSVM(), cv=3, ensemble=False).fit(*data)
    np.testing.assert_allclose(model.predict_proba(data[0]).sum(axis=1), 1)


def test_one_vs_rest_and_multi_output(data):
    bags, y = data
    kinds = np.array(["a", "b", "c"])[np.arange(30) % 3]
    assert OneVsRestClassifier(SetKernelSVM()).fit(bags, kinds).predict(bags).shape == (30,)
    sets = np.column_stack([y == "yes", kinds == "a"]).astype(int)
    for wrapper in (OneVsRestClassifier, MultiOutputClassifier):
        assert wrapper(SetKernelSVM()).fit(bags, sets).predict(bags).shape == (30, 2)


def test_voting_and_stacking(data):
    models = [("nsk", SetKernelSVM()), ("knn", CitationKNN())]
    assert VotingClassifier(models).fit(*data).score(*data) > 0.7
    stack = StackingClassifier(models, LogisticRegression(), cv=3).fit(*data)
    assert stack.score(*data) > 0.7


def test_groups_stay_together_through_metadata_routing(data):
    bags, y = data
    patients = np.arange(30) // 3
    with sklearn.config_context(enable_metadata_routing=True):
        found = cross_validate(
            pipeline(SetKernelSVM()),
            bags,
            y,
            cv=StratifiedGroupKFold(3),
            params={"groups": patients},
            return_indices=True,
        )
    for train, test in zip(found["indices"]["train"], found["indices"]["test"], strict=True):
        assert not set(patients[train]) & set(patients[test])


def test_a_sparse_bag_set_is_searched_too(data):
    from scipy import sparse

    bags, y = data
    rows = bags.with_instances(sparse.csr_array(bags.instances))
    for model in (SetKernelSVM(), CitationKNN(), SingleInstanceClassifier()):
        dense = cross_val_predict(model, bags, y, cv=3)
        assert (cross_val_predict(model, rows, y, cv=3) == dense).mean() > 0.9
