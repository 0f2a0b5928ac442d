"""Changed model files: loading raises an error, or the model predicts."""

import copy
import warnings
from itertools import islice

import numpy as np
import pytest
from fitted_models import KINDS, fitted, named, precomputed, problem, unfitted
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC, LinearSVC

from bagwise import Bags
from bagwise.classification import SingleInstanceClassifier
from bagwise.exceptions import BagwiseError
from bagwise.persistence._contents import model_problem

MODELS = list(enumerate(map(named, unfitted())))
# Parameters that estimators of version 0.1 did not have.
ADDED = {
    "ORedLogisticRegression": "kernel n_components gamma select missing spurious random_state",
    "BagMarginSVM": "start pos_label threshold n_landmarks random_state",
    "BalancedSparseMIL": "negative_weight pos_label threshold n_landmarks random_state",
    "InstanceMarginSVM": "pos_label threshold n_landmarks random_state",
    "SparseMIL": "negative_weight pos_label threshold n_landmarks random_state",
    "PrimalDualMISVM": "assumption pos_label",
    "SetKernelSVM": "n_landmarks random_state",
    "WellSVMClassifier": "refine",
    "InstanceTransformer": "clip",
    **dict.fromkeys(
        ("EMDD", "DiverseDensity", "MILBoost", "SingleInstanceClassifier", "WellMISVM"), "pos_label"
    ),
}
METHODS = (
    "predict",
    "decision_function",
    "predict_proba",
    "transform",
    "score_instances",
    "predict_instances",
    "predict_proba_instances",
)


def changed_arrays(array):
    """Copies of the array, each damaged in one way."""
    yield "short", array[:-1]
    yield "empty", array[:0]
    yield "longer", np.concatenate([array, array])
    yield "text", array.astype(str)
    yield "another axis", array[None]
    yield "flat", array.reshape(-1)
    yield "columns first", np.asfortranarray(array)
    yield "scalar", np.array(1.0)
    yield "objects", array.astype(object)
    yield "none", None
    yield "list", array.tolist()
    if array.dtype.kind not in "iuf":
        return
    yield "float16", array.astype(np.float16)
    yield "complex", array.astype(complex)
    yield "byte order", array.astype(array.dtype.newbyteorder())
    yield "bool", array.astype(bool)
    large = 2**30 if array.dtype.kind in "iu" and array.itemsize > 2 else 100
    for what, value in {"huge": large, "negative": -large, "minus one": -1}.items():
        yield what, np.full_like(array, value, subok=False)
    if array.dtype.kind == "f":
        for value in (np.nan, np.inf, 1e300 if array.itemsize == 8 else 1e38):
            yield str(value), np.full_like(array, value)
        yield "whole", np.nan_to_num(array).astype(np.int64)


def changed(value):
    """Copies of a value of a model, each damaged in one way."""
    if isinstance(value, np.ndarray):
        yield from changed_arrays(value)
    elif isinstance(value, Bags):
        state = value.__getstate__()
        for part in ("_instances", "_offsets"):
            for what, other in changed(state[part]):
                bags = object.__new__(Bags)
                try:
                    bags.__setstate__(state | {part: other})
                except Exception:  # rejected while loading
                    continue
                yield f"{part} {what}", bags
    elif sparse.issparse(value):
        for part in ("data", "indices", "indptr"):
            for what, other in changed_arrays(getattr(value, part)):
                table = value.copy()
                setattr(table, part, other)
                yield f"{part} {what}", table
        yield "narrow", value[:, :-1]
        yield "coo", value.tocoo()
    elif isinstance(value, list | tuple):
        kind = type(value)
        yield "short", value[:-1]
        yield "longer", kind([*value, *value])
        for i, item in enumerate(value[:2]):
            for what, other in changed(item):
                yield f"{i} {what}", kind([*value[:i], other, *value[i + 1 :]])
    elif isinstance(value, BaseEstimator):
        yield from changed_models(value)
        yield "no estimator", 3
    elif isinstance(value, bool | int | float | str | None):
        for other in (None, "text", -1, 2**40, 1e300, float("nan"), True, [1], {}):
            yield repr(other), other


def changed_models(model):
    """Copies of the model with one fitted attribute damaged or removed."""
    names = [name for name in vars(model) if name not in model.get_params(deep=False)]
    for name in names:
        without = copy.copy(model)
        delattr(without, name)
        yield f"{name} gone", without
        for what, other in changed(vars(model)[name]):
            damaged = copy.copy(model)
            setattr(damaged, name, other)
            yield f"{name} {what}", damaged


def check_refused_or_right(model, X):
    if model_problem(model) is not None:
        return
    for method in METHODS:
        if hasattr(model, method):
            try:
                answer = getattr(model, method)(X)
            except (BagwiseError, NotFittedError):  # a model may have one fitted attribute
                continue
            values = getattr(answer, "instances", answer)
            if not sparse.issparse(values) and values.dtype.kind == "f":
                assert not np.isnan(values).any(), method


@pytest.mark.parametrize(("index", "name"), MODELS, ids=[name for _, name in MODELS])
def test_changed_models_are_refused_or_predict(index, name):
    """Every third change; all of them below."""
    kinds = [kind for kind in KINDS if fitted(index, kind) is not None]
    check_changes(*fitted(index, kinds[index % len(kinds)]), first=index % 3, step=3)


@pytest.mark.slow
@pytest.mark.parametrize(("index", "name"), MODELS, ids=[name for _, name in MODELS])
def test_changed_models_of_all_problems(index, name):
    for kind in KINDS:
        if fitted(index, kind) is not None:
            check_changes(*fitted(index, kind))


def test_changed_models_of_precomputed_values():
    for model, K in precomputed():
        check_changes(model, K)


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("inner", [SVC(), LinearSVC(), LogisticRegression()], ids=repr)
def test_changed_models_of_scikit_learn_inside(inner, storage):
    bags, y = problem("three")
    bags = bags.with_instances(storage(bags.instances), feature_names=None)
    check_changes(SingleInstanceClassifier(inner).fit(bags, y), bags)


def check_changes(model, X, *, first=0, step=1):
    bad = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert model_problem(model) is None
        for what, damaged in islice(changed_models(model), first, None, step):
            try:
                check_refused_or_right(damaged, X)
            except Exception as error:
                bad.append(f"{what}: {type(error).__name__}: {str(error)[:80]}")
    assert not bad, "\n".join([str(len(bad)), *bad[:20]])


@pytest.mark.parametrize("name", ADDED)
def test_models_saved_by_version_01_load(name):
    """Their files lack the parameters that are new since; see also docs/upgrade.md."""
    index = [type(model).__name__ for model in unfitted()].index(name)
    model, X = fitted(index, "two")
    new = ADDED[name].split()
    assert set(new) <= set(model.get_params(deep=False))
    old = object.__new__(type(model))
    old.__setstate__({k: v for k, v in model.__getstate__().items() if k not in new})
    assert model_problem(old) is None
    assert old.get_params(deep=False).keys() == model.get_params(deep=False).keys()
    method = "transform" if hasattr(model, "transform") else "decision_function"
    if hasattr(model, method):
        found, expected = (getattr(m, method)(X) for m in (old, model))
        found, expected = (getattr(values, "instances", values) for values in (found, expected))
        np.testing.assert_array_equal(found, expected)
