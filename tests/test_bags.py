import contextlib
import pickle
import tracemalloc
from itertools import pairwise

import joblib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

from bagwise import Bags
from bagwise.exceptions import BagwiseError, InputError
from cases import each
from optional import optional

pd = optional("pandas")
pl = optional("polars")
pa = optional("pyarrow")


@st.composite
def ragged(draw, min_bags=1):
    """Random bags as a list of arrays, with random shapes and types; some are empty."""
    n_features = draw(st.integers(1, 4))
    dtype = draw(st.sampled_from([np.float32, np.float64, np.int16, np.uint8, np.bool_]))
    sizes = draw(st.lists(st.integers(0, 5), min_size=min_bags, max_size=8))
    values = st.booleans() if dtype == np.bool_ else st.integers(0, 100)
    return [draw(hnp.arrays(dtype, (size, n_features), elements=values)) for size in sizes]


def dense(table):
    return table.toarray() if sparse.issparse(table) else np.asarray(table)


def assert_same(bags, arrays):
    assert len(bags) == len(arrays)
    for found, expected in zip(bags, arrays, strict=True):
        np.testing.assert_array_equal(dense(found), expected)


@pytest.fixture(params=["dense", "sparse"])
def container(request):
    return (lambda array: array) if request.param == "dense" else sparse.csr_array


@given(ragged())
def test_the_shape_is_told_in_bags_and_features(arrays):
    bags = Bags.from_arrays(arrays)
    assert bags.shape == (len(arrays), arrays[0].shape[1])
    assert bags.n_instances == sum(len(a) for a in arrays)
    assert bags.dtype == arrays[0].dtype
    np.testing.assert_array_equal(bags.sizes, [len(a) for a in arrays])
    np.testing.assert_array_equal(bags.bag_index, np.repeat(np.arange(len(arrays)), bags.sizes))
    assert_same(bags, arrays)


@given(ragged(), st.data(), st.sampled_from([np.asarray, sparse.csr_array, sparse.coo_array]))
@settings(deadline=None)
def test_indexing_equals_indexing_a_list(arrays, data, kind):
    if kind is not np.asarray:
        arrays = [a.astype(float) for a in arrays]
    bags = Bags.from_arrays([kind(a) for a in arrays], ids=[f"b{i}" for i in range(len(arrays))])
    n = len(arrays)
    chosen = data.draw(st.slices(n))
    assert_same(bags[chosen], arrays[chosen])
    indices = data.draw(st.lists(st.integers(-n, n - 1), max_size=6))
    assert_same(bags[np.array(indices, dtype=int)], [arrays[i] for i in indices])
    assert_same(bags.take(np.array(indices, dtype=int)), [arrays[i] for i in indices])
    assert bags[indices].ids.tolist() == [f"b{i % n}" for i in indices]
    mask = data.draw(hnp.arrays(bool, n))
    kept = [a for a, keep in zip(arrays, mask, strict=True) if keep]
    assert_same(bags[mask], kept)
    assert_same(bags[mask, ...], kept)
    i = data.draw(st.integers(-n, n - 1))
    np.testing.assert_array_equal(dense(bags[i]), arrays[i])


@given(
    hnp.arrays(np.float64, st.tuples(st.integers(1, 12), st.just(2)), elements=st.integers(0, 9)),
    st.data(),
)
def test_from_groups_equals_a_dict_of_lists(X, data):
    names = st.sampled_from(["a", "b", "c", "d"])
    groups = data.draw(st.lists(names, min_size=len(X), max_size=len(X)))
    expected = {}
    for row, group in zip(X, groups, strict=True):
        expected.setdefault(group, []).append(row)
    for given_as in (np.array(groups), np.array(groups, dtype=object), groups):
        bags = Bags.from_groups(X, given_as)
        assert bags.ids.tolist() == list(expected)
        assert_same(bags, [np.array(rows) for rows in expected.values()])


@given(st.one_of(st.none(), st.text(), st.integers(), st.lists(st.lists(st.floats())), ragged()))
def test_only_our_errors_come_out(thing):
    for make in (
        lambda: Bags(thing, [0, 1]),
        lambda: Bags.from_groups(thing, [0]),
        lambda: Bags.from_frame(thing, bag="b"),
    ):
        with contextlib.suppress(BagwiseError):
            make()


def test_slices_are_views_and_read_only(container, rng):
    table = container(rng.normal(size=(6, 3)))
    bags = Bags(table, [0, 2, 3, 6])
    values = (lambda t: t.data) if sparse.issparse(table) else (lambda t: t)
    for part in (bags.instances, bags[1], bags[1:].instances, bags[[1, 2]].instances):
        assert np.shares_memory(values(part), values(table))
        with pytest.raises(ValueError, match="read-only"):
            values(part)[0] = 1
    assert values(table).flags.writeable


def test_memory_maps_stay_on_disk(tmp_path, rng):
    path = tmp_path / "instances.npy"
    np.save(path, rng.normal(size=(10, 2)))
    table = np.load(path, mmap_mode="r")
    bags = Bags(table, [0, 4, 10])
    assert isinstance(bags[1:].instances, np.memmap)
    assert np.shares_memory(bags[1], table)


def test_what_is_in_order_is_not_copied(rng):
    X, cube = rng.normal(size=(5, 2)), rng.normal(size=(4, 3, 2))
    assert np.shares_memory(Bags.from_groups(X, [7, 7, 1, 1, 1]).instances, X)
    merged = Bags(X, [0, 1, 3, 5]).merge(by=["ann", "ann", "bob"])
    assert np.shares_memory(merged.instances, X)
    assert merged.offsets.tolist() == [0, 3, 5]
    bags = Bags.from_arrays(cube)
    assert np.shares_memory(bags.instances, cube)
    assert_same(bags, list(cube))


of_three_libraries = pytest.mark.parametrize(
    "frame",
    [
        lambda columns: pd.DataFrame(columns),
        lambda columns: pl.DataFrame(columns),
        lambda columns: pa.table(columns),
    ],
    ids=["pandas", "polars", "pyarrow"],
)


@of_three_libraries
def test_a_list_of_frames_has_their_columns(frame):
    first = frame({"u": [1.0, 2.0], "v": [3.0, 4.0]})
    bags = Bags.from_arrays([first, np.zeros((1, 2)), first])
    assert bags.feature_names == ["u", "v"]
    assert Bags.from_arrays([first], feature_names=["x", "y"]).feature_names == ["x", "y"]
    other = frame({"v": [3.0], "u": [1.0]})
    with pytest.raises(InputError, match=r"bag 1 \('b'\) are \['v', 'u'\], and \['u', 'v'\] in"):
        Bags.from_arrays([first, other], ids=["a", "b"])
    assert Bags.from_groups(first, ["b", "a"]).feature_names == ["u", "v"]
    assert Bags(first, [0, 2]).feature_names == ["u", "v"]


def test_numbers_and_equal_names_of_columns():
    plain = pd.DataFrame(np.arange(4.0).reshape(2, 2))
    assert Bags.from_arrays([plain, plain]).feature_names is None
    with pytest.raises(InputError, match=r"bag 1 are \[1, 0\], and \[0, 1\] in bag 0"):
        Bags.from_arrays([plain, plain[[1, 0]]])
    twice = pd.DataFrame([[1.0, 2.0]], columns=["x", "x"])
    assert Bags.from_arrays([twice]).feature_names == ["x", "x"]


@of_three_libraries
def test_frames_of_three_libraries_agree(frame):
    columns = {"slide": ["s2", "s1", "s2"], "x": [1.0, 2.0, 3.0], "n": [1, 2, 3], "t": ["a"] * 3}
    bags = Bags.from_frame(frame(columns), bag="slide", features=["x", "n"])
    assert bags.ids.tolist() == ["s2", "s1"]
    assert bags.feature_names == ["x", "n"]
    assert_same(bags, [np.array([[1.0, 1], [3, 3]]), np.array([[2.0, 2]])])
    with pytest.raises(InputError, match=r"are not numbers: 't'.*features="):
        Bags.from_frame(frame(columns), bag="slide")
    with pytest.raises(InputError, match=r"no column 'case'.*slide"):
        Bags.from_frame(frame(columns), bag="case")


def test_frames_with_numbers_for_names():
    frame = pd.DataFrame(np.arange(6.0).reshape(3, 2))
    frame[2] = ["a", "b", "a"]
    bags = Bags.from_frame(frame, bag=2)
    assert bags.feature_names == ["0", "1"]
    assert_same(bags, [np.array([[0.0, 1], [4, 5]]), np.array([[2.0, 3]])])


@given(ragged(), st.data(), st.sampled_from([np.asarray, sparse.csr_array]))
@settings(deadline=None)
def test_merged_bags_equal_a_dict_of_stacks(arrays, data, container):
    n = len(arrays)
    by = data.draw(st.lists(st.sampled_from(["ann", "bob", 3]), min_size=n, max_size=n))
    bags = Bags.from_arrays([container(a) for a in arrays], ids=range(n), feature_names=None)
    together = {}
    for patient, array in zip(by, arrays, strict=True):
        together.setdefault(patient, []).append(array)
    merged = bags.merge(by)
    assert merged.ids.tolist() == list(together)
    assert_same(merged, [np.concatenate(parts) for parts in together.values()])
    # Values per instance are split in the same way.
    origin = bags.with_instances(bags.bag_index[:, None]).merge(by).instances.ravel()
    assert origin.tolist() == [i for p in together for i in bags.bag_index if by[i] == p]


def test_split_cuts_values_by_bag(rng):
    bags = Bags(rng.normal(size=(5, 2)), [0, 2, 5])
    scores = rng.normal(size=(5, 3))
    for part, (a, b) in zip(bags.split(scores), pairwise(bags.offsets), strict=True):
        assert np.shares_memory(part, scores)
        np.testing.assert_array_equal(part, scores[a:b])


def test_pickles_and_hashes(container, rng):
    bags = Bags(container(rng.normal(size=(5, 2))), [0, 2, 5], ids=["a", "b"], feature_names="xy")
    copy = pickle.loads(pickle.dumps(bags))
    assert_same(copy, [dense(bag) for bag in bags])
    assert copy.ids.tolist() == ["a", "b"]
    assert copy.feature_names == ["x", "y"]
    assert joblib.hash(copy) == joblib.hash(bags)
    assert joblib.hash(bags[[1, 0]]) != joblib.hash(bags)
    with pytest.raises(ValueError, match="read-only"):
        copy.ids[0] = "c"


def test_sparse_duplicates_are_summed_without_touching_the_original():
    table = sparse.csr_array((np.ones(3), np.array([1, 0, 1]), np.array([0, 3])), shape=(1, 2))
    before = table.copy()
    bags = Bags(table, [0, 1])
    np.testing.assert_array_equal(bags.instances.toarray(), [[1, 2]])
    np.testing.assert_array_equal(table.indices, before.indices)


def test_ids_of_any_type_are_kept():
    X = np.zeros((3, 1))
    for ids in ([1, "a", (2, 3)], [(0, 1), (0, 2), (0, 3)], [1.5, 2.5, 3.5], [None, 1, 2]):
        assert Bags(X, [0, 1, 2, 3], ids).ids.tolist() == ids


@each(
    ("make", "message"),
    [
        (lambda: Bags(np.zeros(3), [0, 3]), r"shape \(3,\)"),
        (lambda: Bags(np.zeros((3, 1)), [0, 2]), r"n_instances=3: got \[0 2\]"),
        (lambda: Bags(np.zeros((3, 1)), [0, 2, 1, 3]), "offsets must rise"),
        (lambda: Bags(np.zeros((3, 1)), [0.0, 3.0]), "float64: expected n_bags"),
        (lambda: Bags(np.zeros((3, 1)), [0, 3], ids=["a", "b"]), "2 ids for 1 bags"),
        (lambda: Bags(np.zeros((3, 1)), [0, 3], feature_names=["a", "b"]), "2 feature names"),
        (lambda: Bags(np.array([["a"]]), [0, 1]), "<U1: expected real numbers"),
        (lambda: Bags.from_arrays([]), "no bags"),
        (lambda: Bags.from_arrays([np.zeros((1, 2)), np.zeros(2)]), r"bag 1 has shape \(2,\)"),
        (
            lambda: Bags.from_arrays([np.zeros((1, 2)), np.zeros((1, 3))], ids=["a", "b"]),
            r"bag 1 \('b'\) has 3 features, while bag 0 \('a'\) has 2",
        ),
        (lambda: Bags.from_arrays([[[1, 2], [3]]]), "bag 0 has no 2-D table"),
        (lambda: Bags.from_arrays([np.zeros((1, 2)), sparse.eye_array(2)]), "some bags are sparse"),
        (lambda: Bags.from_groups(np.zeros((2, 1)), ["a", None]), "row 1 belongs to no bag"),
        (lambda: Bags.from_groups(np.zeros((2, 1)), [np.nan, 1]), "row 0 belongs to no bag"),
        (lambda: Bags.from_groups(np.zeros((2, 1)), ["a"]), "1 entries for 2 instances"),
        (lambda: Bags.from_arrays(None), "got NoneType"),
        (lambda: Bags.from_arrays([np.ma.array([[1.0]], mask=[[1]])]), "bag 0 has masked values"),
        (lambda: Bags.from_arrays([np.zeros((1, 1))], ids=5), "one value per row, got int"),
        (lambda: Bags.from_groups(np.zeros((2, 1)), pd.array(["a", None])), "row 1 belongs to no"),
        (lambda: Bags.from_frame({"a": [1]}, bag="a"), "cannot read bags from dict"),
        (lambda: Bags.from_arrays([(i for i in range(3))]), "bag 0 has no rows.*generator"),
        (lambda: Bags.from_arrays({"a": np.zeros((1, 2))}), "got dict"),
        (lambda: Bags.from_arrays(pd.DataFrame({"x": [1.0]})), "from_frame"),
        (lambda: Bags(np.zeros((3, 1)), [0, 3]).merge(["a", "b"]), "2 entries for 1 bags"),
        (lambda: Bags(np.zeros((3, 1)), [0, 3]).split(np.zeros(2)), "one row per instance"),
        (lambda: Bags(np.zeros((2, 1)), [0, 1, 2], ids={"a", "b"}), "set"),
        (lambda: Bags(np.zeros((2, 1)), [0, 2], feature_names=3), "feature_names"),
    ],
)
def test_errors_say_what_arrived(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_names_are_ids_or_positions():
    assert Bags.from_arrays([[[1.0]], [[2.0]]]).names.tolist() == [0, 1]
    bags = Bags.from_groups([[1.0], [2.0], [3.0]], ["b", "a", "b"])
    assert bags.names.tolist() == ["b", "a"]
    assert bags[1:].names.tolist() == ["a"]


@each("key", [3, -4, [3], [True], np.ones((3, 1), bool), "a", (0, 1), None, 1.5, slice("a", "b")])
def test_bags_are_indexed_by_position_only(key):
    bags = Bags(np.zeros((3, 1)), [0, 1, 2, 3])
    with pytest.raises(IndexError, match=r"indexed by position.*there are 3 bags|not of shape"):
        bags[key]


def test_a_tuple_of_positions_is_taken_and_a_slice_is_not():
    bags = Bags(np.arange(5.0)[:, None], range(6))
    assert bags.take((0, 3)).instances.ravel().tolist() == [0, 3]
    assert bags.take(2).instances.tolist() == [[2]]
    assert bags[np.array(-1)].tolist() == [[4]]
    with pytest.raises(IndexError, match="indexed by position"):
        bags.take(slice(0, 2))


def test_a_slice_costs_what_it_contains():
    bags = Bags(np.zeros((300_000, 1)), range(300_001))
    tracemalloc.start()
    bags[5:6]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100_000  # an index of all bags would take 2.4 MB
