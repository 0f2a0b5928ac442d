"""Every fitted attribute is declared, and its value matches the declaration."""

import numpy as np
import pytest
from fitted_models import KINDS, fitted, named, precomputed, problem, unfitted
from scipy import sparse

from bagwise import Bags
from bagwise.annotation import M3MIML, ORedLogisticRegression
from bagwise.base._fitted_state import (
    BagsOf,
    Classes,
    Floats,
    Integers,
    ListOf,
    MismatchError,
    Number,
    Sizes,
    Table,
    Whole,
    compare_state,
    fitted_state_problem,
)
from bagwise.classification import CitationKNN, ClassToBag
from bagwise.metric_learning import MIMLCA

MODELS = list(enumerate(map(named, unfitted())))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("index", "name"), MODELS, ids=[name for _, name in MODELS])
def test_every_fitted_attribute_is_declared_and_passes(index, name, kind):
    found = fitted(index, kind)
    if found is None:
        return  # the model learns from another kind of labels or instances
    assert_declared(found[0])


def test_models_of_precomputed_values():
    for model, _ in precomputed():
        assert_declared(model)


def assert_declared(model):
    held = {name for name in vars(model) if name not in model.get_params(deep=False)}
    assert held <= model._fitted_state().keys()
    required = {name for name, kind in model._fitted_state().items() if not kind.optional}
    assert required <= held
    assert fitted_state_problem(model) is None


def test_infinite_values_are_declared_once():
    for index, _ in MODELS:
        model, _ = fitted(index, "two")
        for name, kind in model._fitted_state().items():
            kind = kind.kind if isinstance(kind, ListOf) else kind
            bounds = (kind.low, kind.high) if isinstance(kind, Floats) else ()
            if name[0] != "_" and np.isinf(bounds).any():
                assert model._may_be_infinite(name), (type(model), name)


def test_classes_that_no_bag_carries():
    bags, _ = problem("two")
    y = np.tile([[1, 0, 0], [0, 1, 0]], (9, 1))
    for model in (M3MIML(), ORedLogisticRegression(), ClassToBag(), CitationKNN(), MIMLCA()):
        assert_declared(model.fit(bags, y))


def test_a_model_that_is_not_fitted_has_no_problem():
    for model in unfitted():
        assert fitted_state_problem(model) is None


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (Floats(2), np.zeros(2), np.zeros(3)),
        (Floats(2), np.zeros(2, np.float32), np.zeros(2, int)),
        (Floats(2), np.zeros(2), np.zeros((2, 1))),
        (Floats(2), np.zeros(2), np.array([0, np.nan])),
        (Floats(2), np.full(2, 1e100), np.full(2, 1e200)),
        (Floats(2), np.zeros(2), np.zeros(2, ">f8")),
        (Floats(2), np.zeros(2), [0.0, 0.0]),
        (Floats(2), np.zeros(2), np.ma.zeros(2)),
        (Floats(2, high=np.inf), np.array([0, np.inf]), np.array([0, -np.inf])),
        (Floats(2, low=0), np.zeros(2), np.array([0.0, -1.0])),
        (Floats("n_features_in_"), np.zeros(3), np.zeros(2)),
        (Integers(None, low=0, below="n_features_in_"), np.array([0, 2]), np.array([0, 3])),
        (Integers(None, low=0), np.array([0, 2]), np.array([-1])),
        (Integers(None), np.array([0, 2]), np.array(["a"])),
        (Classes(), np.array(["a", "b"]), np.array(["a", "a"])),
        (Classes(), np.array(["a", 1], object), np.array([{}, []], object)),
        (Classes(), np.array([0.5, 1]), np.array([0.5, np.nan])),
        (Classes(at_least=2), np.array([0, 1]), np.array([0])),
        (ListOf(Floats("n"), 2), [np.zeros(1), np.zeros(2)], [np.zeros(1)]),
        (ListOf(Floats(1)), [np.zeros(1)], (np.zeros(1),)),
        (Table(None, "n_features_in_"), sparse.eye_array(3).tocsr(), sparse.eye_array(3)),
        (Table(None, "n_features_in_"), np.zeros((1, 3)), np.full((1, 3), np.inf)),
        (BagsOf(2), Bags(np.zeros((2, 3)), [0, 1, 2]), Bags(np.zeros((2, 3)), [0, 0, 2])),
        (BagsOf(2), Bags(np.zeros((2, 3)), [0, 1, 2]), Bags(np.zeros((2, 4)), [0, 1, 2])),
        (Number(low=0), 1, -1.0),
        (Number(), 1.0, float("nan")),
        (Number(), 1.0, True),
        (Whole(low=1, below=4), 3, 4),
        (Whole(), 3, 2**70),
    ],
    ids=lambda value: type(value).__name__,  # a repr has addresses, which differ by process
)
def test_kinds(kind, good, bad):
    kind.check(good, Sizes({"n_features_in_": 3}), "x")
    with pytest.raises(MismatchError, match="x"):
        kind.check(bad, Sizes({"n_features_in_": 3}), "x")


def test_indices_that_lead_outside_a_sparse_table():
    table = sparse.eye_array(3).tocsr()
    table.indices[1] = 10**6
    with pytest.raises(MismatchError, match="indices of x"):
        Table(3, 3).check(table, Sizes(), "x")


def test_axes_of_one_name_agree():
    declared = {"a_": Floats("n"), "b_": Floats("n", "m"), "c_": Floats("m + 1")}
    arrays = {"a_": np.zeros(2), "b_": np.zeros((2, 3)), "c_": np.zeros(4)}
    assert compare_state(arrays, declared) is None
    problem = compare_state(arrays | {"b_": np.zeros((1, 3))}, declared)
    assert problem == "b_ has an axis of 1 entries: expected 2 (n)"
    assert compare_state({"a_": np.zeros(2)}, declared) == "b_ is missing"


def test_unknown_axes_of_lists_agree_place_by_place():
    declared = {"a_": ListOf(Floats("n")), "b_": ListOf(Floats("n"))}
    a = [np.zeros(1), np.zeros(2)]
    assert compare_state({"a_": a, "b_": a}, declared) is None
    assert "b_[0]" in compare_state({"a_": a, "b_": a[::-1]}, declared)
