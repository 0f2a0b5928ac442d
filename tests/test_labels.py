"""Labels against lists: indexing, every accepted form of y, and conversion back."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from bagwise import Bags
from bagwise.base._pipelines import label_kind
from bagwise.classification import CitationKNN
from bagwise.exceptions import LabelError
from bagwise.labels import Intervals, Labels, is_missing, is_unlabelled
from bagwise.validation import (
    check_bag_labels,
    check_known_labels,
    check_label_sets,
    check_partial_labels,
)
from cases import each

SINGLE = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=8)
PARTIAL = st.lists(st.sampled_from([None, "a", "b"]), min_size=1, max_size=8)
SETS = st.lists(st.none() | st.sets(st.sampled_from(["a", "b", "c"])), min_size=1, max_size=8)


def bags_for(values):
    return Bags(np.zeros((len(values), 1)), np.arange(len(values) + 1))


def labels_of(values):
    """The labels of a list of labels or sets, with the classes a, b and c."""
    classes = ["a", "b", "c"]
    if any(isinstance(v, set) for v in values):
        return Labels.from_sets(values, classes)
    codes = [-1 if v is None else classes.index(v) for v in values]
    return Labels("partial" if None in values else "single", classes, codes)


def test_unknown_numbers_are_nan_where_minus_one_is_a_number():
    labels = Labels.from_values(np.array([-1.0, np.nan, 2.5]))
    np.testing.assert_array_equal(labels.values, [-1.0, np.nan, 2.5])
    assert labels.values.dtype == np.float64
    assert Labels.from_values(labels.values).tolist() == [-1.0, None, 2.5]
    assert Labels.from_values([0, None, 2]).values.tolist() == [0, -1, 2]


@given(SINGLE | PARTIAL | SETS, st.data())
def test_they_are_indexed_like_a_list(values, data):
    labels = labels_of(values)
    assert labels.tolist() == values
    assert len(labels) == len(values)
    i = data.draw(st.integers(-len(values), len(values) - 1))
    assert labels[i] == values[i]
    rows = data.draw(st.lists(st.integers(-len(values), len(values) - 1), max_size=8))
    assert labels[np.array(rows, dtype=int)].tolist() == [values[i] for i in rows]
    part = data.draw(st.slices(len(values)))
    assert labels[part].tolist() == values[part]
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values))))
    assert labels[mask].tolist() == [v for v, kept in zip(values, mask, strict=True) if kept]
    hidden = labels.without(mask)
    assert hidden.tolist() == [None if gone else v for v, gone in zip(values, mask, strict=True)]
    assert labels[mask].kind == labels.kind


@given(SINGLE | PARTIAL | SETS)
def test_codes_indicator_signs_and_counts_agree(values):
    labels = labels_of(values)
    carried = [
        [v is not None and (c in v if isinstance(v, set) else c == v) for c in "abc"]
        for v in values
    ]
    known = np.array([v is not None for v in values])
    assert labels.known.tolist() == known.tolist()
    np.testing.assert_array_equal(labels.indicator == 1, carried)
    assert (labels.indicator[~known] == -1).all()
    np.testing.assert_array_equal(labels.counts, np.sum(carried, axis=0))
    for k in range(3):
        signs = np.where(np.array(carried)[:, k], 1, -1) * known
        np.testing.assert_array_equal(labels.signs(k), signs)
    texts = [None if v is None else "; ".join(sorted(v)) for v in values]
    assert labels.texts == texts


@given(SINGLE)
def test_one_label_per_bag_in_all_forms(values):
    pd = pytest.importorskip("pandas")
    bags, series = bags_for(values), pd.Series(values)
    forms = [values, tuple(values), np.array(values), np.array(values, dtype=object), series]
    for y in [*forms, series.astype("category")]:
        for check in (check_bag_labels, check_label_sets):
            labels = check(y, bags)
            assert labels.kind == "single"
            assert labels.classes.tolist() == sorted(set(values))
            assert labels.tolist() == labels.values.tolist() == values
        again = check_bag_labels(labels.values, bags)
        np.testing.assert_array_equal(again.codes, labels.codes)


@given(PARTIAL.filter(lambda values: {"a", "b"} <= set(values)))
def test_partial_labels_and_the_way_back(values):
    y = [-1 if v is None else v for v in values]
    for form in (y, np.array(y, dtype=object)):
        labels = check_partial_labels(form, len(y))
        assert labels.kind == "partial"
        assert labels.tolist() == values
        assert labels.values.tolist() == y
    numbers = np.array([-1 if v is None else "ab".index(v) for v in values])
    labels = check_partial_labels(numbers, len(y))
    assert labels.values.dtype == np.int64
    np.testing.assert_array_equal(labels.values, numbers)
    found = check_known_labels(values, bags_for(values), classes=["b"], names=["beta"])
    assert found.tolist() == values
    assert found.names == ["beta", "a"]


@given(SETS.filter(lambda values: any(values)))
def test_label_sets_in_all_forms(values):
    bags = bags_for(values)
    classes = sorted(set().union(*(v for v in values if v)))
    labels = check_label_sets(values, bags)
    assert labels.kind == "sets"
    assert labels.classes.tolist() == classes
    assert labels.tolist() == values
    indicator = labels.values
    forms = [indicator, indicator.astype(float), [None if v is None else sorted(v) for v in values]]
    if all(v is not None for v in values):
        forms += [sparse.csr_array(indicator), indicator.astype(bool)]
    for y in forms:
        if len(classes) > 1 or isinstance(y, list):
            again = check_label_sets(y, bags, classes=labels.classes)
            np.testing.assert_array_equal(again.indicator, indicator)


@each("missing", [None, float("nan"), np.datetime64("NaT", "s"), "NA"])
def test_missing_values(missing):
    if missing == "NA":
        missing = pytest.importorskip("pandas").NA
    assert is_missing(missing)
    assert is_unlabelled(missing)
    found = check_known_labels(["a", missing, "b"], bags_for([0] * 3))
    assert found.tolist() == ["a", None, "b"]


def test_minus_one_is_unlabelled_unless_it_is_a_class():
    assert is_unlabelled(-1)
    assert is_unlabelled(np.float64(-1))
    assert not is_unlabelled(-1, [-1, 1])
    assert not is_unlabelled("-1")
    for value in (0, "", (), [], set(), np.array([np.nan])):
        assert not is_unlabelled(value)
    bags = bags_for([0] * 3)
    assert check_known_labels([-1, 0, 1], bags, classes=[0, 1], names="01").tolist() == [None, 0, 1]
    found = check_known_labels([-1, 1, 1], bags, classes=[-1, 1], names=["no", "yes"])
    assert found.texts == ["no", "yes", "yes"]
    assert check_known_labels([-1, -1, None], bags) is None


def test_labels_of_another_model_are_matched_by_value_then_by_name():
    labels = Labels("single", [1, 2, 3], [0, 1, 2, 0])
    found = labels.aligned([2, "1"], ["two", "1"])
    assert found.names == ["two", "1", "3"]
    assert found.codes.tolist() == [1, 0, 2, 1]
    sets = Labels.from_sets([{1, 3}, None, set()], [1, 2, 3]).aligned([2, "1"], ["two", "1"])
    np.testing.assert_array_equal(sets.indicator, [[0, 1, 1], [-1, -1, -1], [0, 0, 0]])


def test_they_cannot_be_changed():
    labels = Labels.from_sets([{"a"}, None])
    for array in (labels.classes, labels.indicator, labels.known, labels.values):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = array[0]
    with pytest.raises(LabelError, match="no codes"):
        _ = labels.codes
    assert pickle.loads(pickle.dumps(labels)).tolist() == labels.tolist()
    assert repr(labels) == "Labels('sets', n=2, classes=['a'], unknown=1)"


@each("y", [[0, 1, 1, 0], [{"a"}, {"b"}, {"a", "b"}, {"a"}]])
def test_a_model_remembers_the_kind_of_its_labels(y):
    bags = Bags(np.arange(8.0).reshape(8, 1), [0, 2, 4, 6, 8])
    model = CitationKNN().fit(bags, y)
    assert model.label_kind_ == label_kind(make_pipeline(model)) == check_label_sets(y, bags).kind
    assert label_kind(LogisticRegression().fit([[0.0], [1.0]], [0, 1])) == "single"


def test_intervals_are_indexed_like_bags():
    numbers = Intervals.from_strings(["5.3", "<5", ">=10", "4-6", 2.5, None])
    assert len(numbers) == 6
    assert numbers.shape == (6,)
    assert numbers.exact.tolist() == [True, False, False, False, True, False]
    assert numbers.texts == ["5.3", "<5", ">=10", "4 to 6", "2.5", "unknown"]
    assert numbers[3] == (4.0, 6.0)
    assert numbers[[3, 0]].texts == [*numbers[np.array([0, 0, 0, 1, 0, 0], bool)].texts, "5.3"]
    assert numbers[1:3, ...].texts == ["<5", ">=10"]
    assert numbers.upper[1] == np.nextafter(5, 0)
    assert list(numbers[:1]) == [(5.3, 5.3)]
    texts = ["<5", ">4.7", "<1e-06", ">=10", "unknown"]
    assert Intervals.from_strings(["<5", "> 4.7", "<0.000001", "10+", None]).texts == texts
    assert repr(numbers[:2]) == "Intervals(['5.3', '<5'])"
    with pytest.raises(ValueError, match="read-only"):
        numbers.lower[0] = 1
    with pytest.raises(LabelError, match="the number of bag 1 is 'x'"):
        Intervals.from_strings(["1", "x"])
