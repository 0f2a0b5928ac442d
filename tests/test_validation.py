import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator

from bagwise import Bags
from bagwise.annotation import ORedLogisticRegression
from bagwise.base import BagEstimator
from bagwise.classification import BagMarginSVM, CitationKNN, SetKernelSVM
from bagwise.evaluate import find_leaks
from bagwise.exceptions import BagwiseError, DataWarning, InputError, LabelError, SparseInputError
from bagwise.io._contents import check_contents
from bagwise.labels import Labels
from bagwise.regression import SetKernelRegressor
from bagwise.validation import (
    check_bag_labels,
    check_bags,
    check_groups,
    check_label_sets,
    check_partial_labels,
    check_rows,
    check_sample_weight,
    check_targets,
    check_times,
    is_table,
)
from cases import each


@pytest.fixture
def bags(rng):
    return Bags(rng.normal(size=(6, 3)), [0, 2, 3, 6], ids=["a", "b", "c"])


def door(X, **options):
    return check_bags(BagEstimator(), X, reset=True, **options)


def test_every_kind_of_input_gives_the_same_bags(rng):
    cube = rng.normal(size=(4, 2, 3))
    flat = cube.reshape(8, 3)
    offsets = [0, 2, 4, 6, 8]
    for X in (cube, list(cube), tuple(cube), cube.tolist(), Bags(flat, offsets)):
        found = door(X)
        np.testing.assert_array_equal(found.instances, flat)
        np.testing.assert_array_equal(found.offsets, offsets)
        assert not is_table(X)
    for X in (flat, flat.tolist(), sparse.csr_array(flat)):
        found = door(X)
        assert len(found) == 8
        assert (found.sizes == 1).all()
        assert is_table(X)


def test_frames_and_series_are_tables_and_labels(rng, bags):
    pd = pytest.importorskip("pandas")
    X = rng.normal(size=(8, 3))
    frame = pd.DataFrame(X, columns=list("abc"))
    found = door(frame)
    np.testing.assert_array_equal(found.instances, X)
    assert (found.sizes == 1).all()
    assert is_table(frame)
    np.testing.assert_array_equal(check_rows(BagEstimator(), frame, reset=True), X)
    labels = check_bag_labels(pd.Series(["b", "a", "b"], dtype="category"), bags)
    assert (labels.classes.tolist(), labels.codes.tolist()) == (["a", "b"], [1, 0, 1])
    labels = check_partial_labels(pd.Series([3, -1, 5, -1]), 4)
    assert (labels.classes.tolist(), labels.codes.tolist()) == ([3, 5], [0, -1, 1, -1])


def test_floats_pass_without_a_copy(rng):
    for dtype in (np.float32, np.float64):
        X = rng.normal(size=(6, 3)).astype(dtype)
        found = door(Bags(X, [0, 6]))
        assert found.dtype == dtype
        assert np.shares_memory(found.instances, X)
    assert door(Bags(np.ones((2, 2), dtype=np.int16), [0, 2])).dtype == np.float64


@each("kind", [np.asarray, sparse.csr_array])
@each(("value", "word"), [(np.nan, "NaN"), (np.inf, "infinity")])
def test_bad_values_are_named_by_bag_instance_and_feature(bags, kind, value, word):
    table = bags.instances.copy()
    table[4, 1] = value
    bad = bags.with_instances(kind(table))
    place = r"bag 2 \('c'\), instance 1, feature 1"
    with pytest.raises(InputError, match=rf"{word}: {place}.* InstanceTransformer\(Simple"):
        door(bad)
    assert len(door(bad, allow_nan=True)) == 3


def test_empty_bags_are_named(bags):
    hole = Bags(bags.instances, [0, 2, 2, 2, 6], ids=["a", "b", "c", "d"])
    with pytest.raises(InputError, match=r"bag 1 \('b'\) is empty \(2 bags are empty in all\)"):
        door(hole)
    with pytest.raises(InputError, match="no bags"):
        door(bags[:0])


def test_arrays_of_arrays_are_bags():
    ragged = np.empty(2, dtype=object)
    ragged[:] = [np.zeros((1, 2)), np.zeros((3, 2))]
    assert door(ragged).sizes.tolist() == [1, 3]


def test_text_columns_point_to_from_frame():
    pd = pytest.importorskip("pandas")
    with pytest.raises(InputError, match=r"Bags\.from_frame"):
        door(pd.DataFrame({"x": [1.0, 2.0], "slide": ["a", "b"]}))


def test_sparse_where_not_supported(bags):
    with pytest.raises(SparseInputError, match=r"needs dense.*toarray"):
        door(bags.with_instances(sparse.csr_array(bags.instances)), accept_sparse=False)


def test_features_are_remembered_and_compared(rng):
    model = BaseEstimator()
    check_bags(model, Bags(np.zeros((2, 2)), [0, 2], feature_names=["u", "v"]), reset=True)
    assert model.n_features_in_ == 2
    assert model.feature_names_in_.tolist() == ["u", "v"]
    with pytest.raises(InputError, match="has 3 features, but BaseEstimator is expecting 2"):
        check_bags(model, Bags(np.zeros((2, 3)), [0, 2]), reset=False)
    with pytest.raises(InputError, match=r"feature 0 is 'v'.* fitted with 'u'"):
        check_bags(model, Bags(np.zeros((2, 2)), [0, 2], feature_names=["v", "u"]), reset=False)
    with pytest.warns(UserWarning, match="X does not have valid feature names, but BaseEstimator"):
        found = check_bags(model, Bags(np.zeros((2, 2)), [0, 2]), reset=False)
    assert found.feature_names == ["u", "v"]  # later steps do not warn again


def test_a_dict_and_groups_of_a_frame_are_refused_with_the_fix(rng):
    with pytest.raises(InputError, match=r"got dict: .*from_arrays.*ids=list"):
        door({"a": rng.normal(size=(2, 2)), "b": rng.normal(size=(3, 2))})
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"bag": ["a", "a", "b"], "x": [1.0, 2.0, 3.0]})
    with pytest.raises(InputError, match=r"DataFrameGroupBy: use Bags\.from_frame"):
        door(frame.groupby("bag"))


@each(
    ("y", "classes", "codes"),
    [
        (["x", "y", "x"], ["x", "y"], [0, 1, 0]),
        ([True, False, True], [False, True], [1, 0, 1]),
        (np.array([3, 1, 3], dtype=np.int8), [1, 3], [1, 0, 1]),
        ([("p", 1), ("q", 2), ("p", 1)], [("p", 1), ("q", 2)], [0, 1, 0]),
    ],
)
def test_labels_of_any_type(bags, y, classes, codes):
    labels = check_bag_labels(y, bags)
    assert labels.kind == "single"
    assert labels.classes.tolist() == classes
    assert labels.codes.tolist() == codes


@each(
    ("y", "message"),
    [
        (None, "requires y to be passed"),
        ([0, 1], "y has 2 labels for 3 bags"),
        ([0, 1, np.nan], r"NaN: bag 2 \('c'\) has no label \(nan\)"),
        ([0, 1, np.inf], r"infinity: the label of bag 2 \('c'\) is infinite \(inf\)"),
        (np.array(["x", None, "y"], dtype=object), r"bag 1 \('b'\) has no label"),
        ([0.5, 1.2, 0.1], "Unknown label type"),
        (["a", 1, "b"], "give one type"),
        ([[0, 1], [1, 0], [1, 1]], "one label per bag"),
        (sparse.csr_array([[0, 1], [1, 0], [1, 1]]), "one label per bag"),
        ([1, 1, 1], "y has one class, 1; at least 2 are required"),
        ([{1}, {2}, {1}], "label sets"),
        ([[1], [2, 3], [1]], "label sets"),
    ],
)
def test_bad_labels(bags, y, message):
    with pytest.raises(LabelError, match=message):
        check_bag_labels(y, bags, min_classes=2)


def test_label_sets_in_all_their_forms(bags):
    expected = np.array([[1, 0, 1], [0, 0, 0], [0, 1, 0]])
    as_sets = [{"x", "z"}, set(), {"y"}]
    for y in (as_sets, [frozenset(s) for s in as_sets], [["x", "z"], [], ["y"]]):
        labels = check_label_sets(y, bags)
        np.testing.assert_array_equal(labels.indicator, expected)
        assert labels.classes.tolist() == ["x", "y", "z"]
        assert labels.kind == "sets"
    for y in (expected, expected.astype(bool), sparse.csr_array(expected), expected.tolist()):
        labels = check_label_sets(y, bags)
        np.testing.assert_array_equal(labels.indicator, expected)
        assert labels.classes.tolist() == [0, 1, 2]
    labels = check_label_sets(["y", "x", "y"], bags)
    assert labels.kind == "single"
    np.testing.assert_array_equal(labels.indicator, [[0, 1], [1, 0], [0, 1]])


def test_unknown_label_sets_differ_from_empty_ones(bags):
    labels = check_label_sets([{"x"}, None, set()], bags)
    assert labels.known.tolist() == [True, False, True]
    labels = check_label_sets(np.array([[1, 0], [-1, -1], [0, 0]]), bags)
    assert labels.known.tolist() == [True, False, True]


@each(
    ("y", "message"),
    [
        ([{"x"}, {"q"}, set()], r"bag 1 \('b'\) has the unknown label 'q'"),
        ([{"x"}, set()], "2 labels for 3 bags"),
        ([[0, 1, 0]] * 3, "3 columns for 2 classes"),
        ([[0, 1], [0, 2], [1, 0]], r"bag 1 \('b'\) is \[0, 2\]: expected 0 and 1"),
        ([[0, 1], [0, -1], [1, 0]], r"bag 1 \('b'\)"),
        (["x", "q", "x"], r"no label 'q': its classes: \['x', 'y'\]"),
    ],
)
def test_bad_label_sets(bags, y, message):
    with pytest.raises(LabelError, match=message):
        check_label_sets(y, bags, classes=np.array(["x", "y"]))


@each("X", [None, "text", 3, [], [[]], {"a": 1}, np.zeros((2, 2, 2, 2))])
def test_nonsense_is_refused(X):
    with pytest.raises((BagwiseError, TypeError)):
        door(X)


def test_wide_indices_are_narrowed(rng):
    table = sparse.csr_array(rng.normal(size=(4, 3)))
    wide = sparse.csr_array(
        (table.data, table.indices.astype(np.int64), table.indptr.astype(np.int64)), shape=(4, 3)
    )
    found = door(Bags(wide, [0, 2, 4]))
    assert found.instances.indices.dtype == np.int32
    np.testing.assert_array_equal(found.instances.toarray(), table.toarray())


@each(
    ("y", "classes"),
    [
        ([3, -1, 5, -1], [3, 5]),
        (np.array([3.0, -1.0, 5.0, -1.0]), [3, 5]),
        (["no", -1, "yes", -1], ["no", "yes"]),
        (np.array(["no", -1, "yes", -1.0], dtype=object), ["no", "yes"]),
        ([("a", 1), -1, ("b", 2), -1], [("a", 1), ("b", 2)]),
    ],
)
def test_minus_one_is_an_unlabelled_row(y, classes):
    labels = check_partial_labels(y, 4)
    assert labels.kind == "partial"
    assert labels.classes.tolist() == classes
    assert labels.codes.tolist() == [0, -1, 1, -1]


def test_unknown_labels_among_texts_have_a_remedy(bags):
    y = np.array(["a", -1, *["b"] * (len(bags) - 2)], dtype=object)
    with pytest.raises(LabelError, match=r"unknown ones \(-1\) out.*y != -1"):
        check_bag_labels(y, bags)


@each(
    ("y", "words"),
    [
        ([-1, 1, -1, 1], r"-1 means unlabelled.*np\.where"),
        ([0, 0, -1, -1], "y has one class, 0; at least 2"),
        ([-1, -1, -1, -1], "none of the 4 rows"),
        ([0, 1, -1], "3 labels for 4 rows"),
        ([0, 1, np.nan, -1], "contains NaN"),
        (["a", "b", None, -1], r"row 2 has no label \(None\)"),
        (np.array(["a", "b", "-1", "-1"]), "the string '-1'"),
        (["a", 3, -1, -1], "mixes"),
        ([0.5, 1.2, -1, -1], "Unknown label type"),
        (None, "requires y"),
    ],
)
def test_partial_labels_that_cannot_be_learned_from(y, words):
    with pytest.raises(LabelError, match=words):
        check_partial_labels(y, 4)


def test_rows_are_no_bags(rng, bags):
    X = rng.normal(size=(4, 3))
    for rows in (X, X.tolist()):
        np.testing.assert_array_equal(check_rows(BagEstimator(), rows, reset=True), X)
    with pytest.raises(InputError, match=r"bags\.instances"):
        check_rows(BagEstimator(), bags, reset=True)
    with pytest.raises(InputError, match="NaN"):
        check_rows(BaseEstimator(), np.full((2, 2), np.nan), reset=True)
    with pytest.raises(SparseInputError, match="toarray"):
        check_rows(BaseEstimator(), sparse.csr_array(X), reset=True)


def test_unsigned_labels_keep_their_type():
    bags = Bags(np.eye(2), [0, 1, 2])
    labels = check_bag_labels(np.array([2**63 + 1, 2**63], dtype=np.uint64), bags)
    assert labels.classes.dtype == np.uint64
    assert labels.codes.tolist() == [1, 0]


@each("sets", [[set(), set()], [set(), None], [[], []]])
def test_label_sets_without_any_label_are_refused(sets):
    with pytest.raises(LabelError, match=r"all empty|shape"):
        check_label_sets(sets, Bags(np.eye(2), [0, 1, 2]))


MASKED = np.ma.array([0, 1, 1], mask=[False, False, True])


@each(
    "call",
    [
        lambda bags: SetKernelSVM().fit(bags, MASKED),
        lambda bags: SetKernelRegressor().fit(bags, np.ma.array([0.5, 1, 2], mask=[0, 0, 1])),
        lambda bags: check_sample_weight(MASKED + 1.0, bags),
        lambda bags: CitationKNN().fit(bags, np.ma.array(np.eye(3), mask=np.eye(3))),
        lambda bags: check_groups(MASKED, bags),
        lambda bags: Labels("single", MASKED, [0, 1, 1]),
        lambda bags: Labels.from_values(MASKED),
        lambda bags: Bags(bags.instances, bags.offsets, MASKED),
        lambda bags: Bags.from_groups(np.ones((3, 1)), MASKED),
        lambda bags: check_contents(bags, y=MASKED),
        lambda bags: check_contents(bags, instance_labels=np.ma.array([0] * 4, mask=[0, 0, 0, 1])),
    ],
)
def test_masked_values_are_refused(call):
    bags = Bags(np.eye(4), [0, 1, 2, 4])
    with pytest.raises(InputError, match="masked array"):
        call(bags)


@each(
    "call",
    [
        lambda bags: SetKernelSVM().fit(bags, ["a\0", "a", "b"]),
        lambda bags: SetKernelSVM().fit(bags, np.array(["a\0", "a", "b"], dtype=object)),
        lambda bags: CitationKNN().fit(bags, [{"a\0"}, {"a"}, {"b"}]),
        lambda bags: Labels.from_values(["a\0", "a", "b"]),
        lambda bags: Bags(bags.instances, bags.offsets, ["a\0", "a", "b"]),
        lambda bags: Bags.from_groups(np.ones((3, 1)), ["a\0", "a", "b"]),
        lambda bags: check_contents(bags, y=["a\0", "a", "b"]),
    ],
)
def test_a_trailing_nul_is_refused(call):
    bags = Bags(np.eye(4), [0, 1, 2, 4])
    with pytest.raises(InputError, match=r"'a\\x00' ends with a NUL"):
        call(bags)


@each(
    "use",
    [
        lambda bags, y: SetKernelSVM().fit(bags, y),
        lambda bags, y: SetKernelRegressor().fit(bags, y),
        lambda bags, y: check_groups(y, bags),
        lambda bags, y: check_sample_weight(y, bags),
        lambda bags, y: check_label_sets(pd.get_dummies(y).astype(int), bags),
        lambda bags, y: check_label_sets(y.map({0: set(), 1: {"fox"}}), bags),
        lambda bags, y: check_times(pd.DataFrame({"event": y > 0, "time": y + 1.0}), bags),
        lambda bags, y: check_targets(pd.DataFrame({"u": y, "v": y}), bags),
        lambda bags, y: find_leaks(bags, y),
        lambda bags, y: check_contents(bags, y=y),
        lambda bags, y: check_contents(bags, label_sets=pd.get_dummies(y)),
    ],
)
def test_an_index_of_ids_has_the_order_of_the_bags(rng, use):
    for ids in (["d", "a", "c", "b"], [7, 3, 5, 4]):
        bags = Bags(rng.normal(size=(8, 2)), [0, 2, 4, 6, 8], ids=ids)
        y = pd.Series([0, 1, 1, 0], index=sorted(ids))
        with pytest.raises(LabelError, match=r"in another order: give .*\.loc\[bags\.ids\], or"):
            use(bags, y)
        use(bags, y.loc[bags.ids])
        use(bags, y.reset_index(drop=True))  # numbers of rows, as the columns of a frame have
        part = bags[[1, 0, 2]]  # a part of the labels, as in a search
        if isinstance(ids[0], str):
            with pytest.raises(LabelError, match="in another order"):
                use(part, y.iloc[[2, 0, 1]])


def test_labels_that_may_be_unknown_or_several_are_warned_of(rng):
    bags = Bags(rng.normal(size=(6, 2)), np.arange(7))
    for use in (check_bag_labels, check_label_sets, lambda y, bags: BagMarginSVM().fit(bags, y)):
        with pytest.warns(DataWarning, match=r"the label -1.*bags\[y != -1\]"):
            use([-1, 0, 1] * 2, bags)
    for strings in (["delivery;staff", "staff", "staff"] * 2, ["", "staff", "price"] * 2):
        with pytest.warns(DataWarning, match=r"'(delivery;staff|)' is read as one label: .* sets"):
            ORedLogisticRegression().fit(bags, strings)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_bag_labels([-1, 1] * 3, bags)
        check_bag_labels(["a;b", "", "c"] * 2, bags)  # a model of one label per bag
        check_label_sets(["a b", "b", "c"] * 2, bags)
        check_label_sets([{"a;b"}, set(), None] * 2, bags)
