"""Subsets of bags of a large table: rows are read when they are used."""

import pickle
import tracemalloc

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.decomposition import IncrementalPCA
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import bagwise._common.tables
from bagwise import Bags
from bagwise._common.tables import is_mapped
from bagwise.base import in_canonical_order
from bagwise.classification import PrimalDualMISVM, SingleInstanceClassifier
from bagwise.compute import arrays, blocks, in_blocks, mapped, row_blocks
from bagwise.embedding import BagStatistics, RandomFourierEmbedding
from bagwise.evaluate import evaluate
from bagwise.exceptions import InputError, NotEnoughMemoryError
from bagwise.labels import Labels
from bagwise.preprocessing import InstanceTransformer
from bagwise.validation import instances
from checks import example
from engine_examples import mapped as in_file

KINDS = ["dense", "sparse", "mapped"]


@pytest.fixture
def lazy(monkeypatch):
    monkeypatch.setattr(bagwise._common.tables, "COPIED_AT_ONCE", 0)
    monkeypatch.setattr(mapped, "_BLOCK", 20)
    monkeypatch.setattr(blocks, "BLOCK", 40)


def of_kind(kind, bags, folder):
    if kind == "sparse":
        return bags.with_instances(sparse.csr_array(bags.instances))
    return in_file(bags, folder) if kind == "mapped" else bags


def dense(table):
    return table.toarray() if sparse.issparse(table) else np.asarray(table)


@pytest.mark.parametrize("kind", KINDS)
@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=7),
    st.lists(st.integers(0, 6), max_size=9),
    st.lists(st.integers(0, 8), max_size=5),
    st.data(),
)
@settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_chosen_bags_equal_a_list_of_arrays(lazy, tmp_path, kind, sizes, first, second, data):
    table = np.arange(2.0 * sum(sizes)).reshape(-1, 2) + 1
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    if kind == "mapped" and not len(table):
        return  # an empty file cannot be mapped
    bags = of_kind(kind, Bags(table, offsets, ids=list("abcdefg")[: len(sizes)]), tmp_path)
    first = [i % len(sizes) for i in first]
    second = [i % len(first) for i in second] if first else []
    chosen = bags[first][second]
    arrays = [table[offsets[i] : offsets[i + 1]] for i in (first[k] for k in second)]
    expected = np.concatenate([np.zeros((0, 2)), *arrays])
    rows = data.draw(st.slices(len(expected)))
    positions = np.array(data.draw(st.lists(st.integers(0, max(len(expected) - 1, 0)))), int)
    positions = positions[: len(expected) * 5]
    np.testing.assert_array_equal(dense(chosen.rows(rows)), expected[rows])
    np.testing.assert_array_equal(dense(chosen.rows(positions)), expected[positions])
    for i, array in enumerate(arrays):
        np.testing.assert_array_equal(dense(chosen[i]), array)
    again = pickle.loads(pickle.dumps(chosen))
    np.testing.assert_array_equal(dense(again.instances), expected)
    np.testing.assert_array_equal(dense(chosen.instances), expected)
    assert chosen.is_gathered
    assert chosen.shape == (len(second), 2)
    assert chosen.ids.tolist() == ["abcdefg"[first[k]] for k in second]
    with pytest.raises(ValueError, match="read-only"):
        (chosen.instances.data if kind == "sparse" else chosen.instances)[...] = 0


def test_bags_that_lie_together_are_views(lazy, rng):
    table = rng.normal(size=(9, 2))
    bags = Bags(table, [0, 2, 2, 5, 9])
    apart = bags[[3, 0, 1, 2]]
    assert not apart.is_gathered
    assert apart.source is bags.source
    for together in (bags[[1, 2]], apart[1:], apart[[1, 3]], bags[[0, 2, 3]], bags[[2, 1, 3]]):
        assert together.is_gathered
        assert np.shares_memory(together.instances, table)
    assert np.shares_memory(apart.rows(slice(0, 4)), table)
    assert np.shares_memory(apart[0], table)


def test_few_rows_are_copied_and_do_not_keep_the_table(rng):
    table = rng.normal(size=(9, 2))
    chosen = Bags(table, [0, 2, 5, 9])[[2, 0]]
    assert chosen.is_gathered
    assert not np.shares_memory(chosen.source, table)


@pytest.mark.parametrize("kind", ["dense", "mapped"])
def test_blocks_of_rows_are_all_rows_in_order(lazy, kind, tmp_path):
    bags = of_kind(kind, example(20)[0], tmp_path)[np.arange(20)[::-1]]
    assert in_blocks(bags)
    expected = np.concatenate([bags[i] for i in range(20)])
    found = list(row_blocks(bags))
    assert len(found) > 5
    for rows, block in found:
        assert block.size <= max(40, bags.n_features)
        np.testing.assert_array_equal(block, expected[rows])
    assert sum(len(block) for _, block in found) == len(expected)
    assert bags.where == ("mapped" if kind == "mapped" else "local")


MODELS = {
    "statistics": make_pipeline(BagStatistics(), DecisionTreeClassifier(random_state=0)),
    "scaled": make_pipeline(
        InstanceTransformer(StandardScaler(), clip=10),
        PrimalDualMISVM(solver="inexact", max_iter=8, random_state=0),
    ),
    "projected": make_pipeline(
        InstanceTransformer(IncrementalPCA(2)), SingleInstanceClassifier(pooling="mean")
    ),
    "fourier": make_pipeline(RandomFourierEmbedding(20, random_state=0), RidgeClassifier()),
}


@pytest.mark.parametrize("kind", ["dense", "mapped"])
@pytest.mark.parametrize("name", ["statistics", "scaled", "fourier"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_scores_of_folds_are_those_of_arrays(request, kind, name, tmp_path):
    bags, y = example(30)
    model = MODELS[name]
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    expected = evaluate(model, bags, y, cv=folds).scores
    request.getfixturevalue("lazy")
    there = of_kind(kind, bags, tmp_path)
    found = evaluate(model, there, y, cv=folds).scores
    for measure, scores in expected.items():
        np.testing.assert_allclose(found[measure], scores, rtol=1e-6)
    accuracy = cross_val_score(model, there, y, cv=folds)
    np.testing.assert_allclose(accuracy, expected["accuracy"], rtol=1e-6)


def test_a_search_works_on_chosen_bags(lazy, tmp_path):
    bags, y = example(30)
    chosen = in_file(bags, tmp_path)[np.arange(30)[::-1]]
    grid = {"decisiontreeclassifier__max_depth": [1, 3]}
    search = GridSearchCV(clone(MODELS["statistics"]), grid, cv=3)
    found = search.fit(chosen, y[::-1]).cv_results_["mean_test_score"]
    expected = search.fit(bags[::-1], y[::-1]).cv_results_["mean_test_score"]
    np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize("name", ["statistics", "scaled", "projected"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_folds_of_a_mapped_table_are_never_in_memory(name, tmp_path, rng, monkeypatch):
    monkeypatch.setattr(bagwise._common.tables, "COPIED_AT_ONCE", 2**15)
    monkeypatch.setattr(mapped, "_BLOCK", 2**13)
    monkeypatch.setattr(blocks, "BLOCK", 2**13)
    monkeypatch.setattr(arrays, "BLOCK", 2**13)
    X = rng.normal(size=(20_000, 80)).astype(np.float32)
    bags, y = in_file(Bags(X, np.arange(0, 20_001, 100)), tmp_path), np.arange(200) % 2
    folds = list(StratifiedKFold(2, shuffle=True, random_state=0).split(y, y))
    evaluate(MODELS[name], bags[:40], y[:40], cv=2)  # compiled functions take memory too
    tracemalloc.start()
    evaluate(MODELS[name], bags, y, cv=folds)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.4 * X.nbytes  # a fold has half of the table


def test_bad_values_of_chosen_bags_are_located(lazy, tmp_path):
    bags, _ = example(10)
    table = bags.instances.copy()
    table[bags.offsets[7] + 1, 2] = np.nan
    bags = Bags(table, bags.offsets, ids=[f"slide {i}" for i in range(10)])
    for there in (bags, in_file(bags, tmp_path)):
        with pytest.raises(InputError, match=r"bag 2 \('slide 7'\), instance 1, feature 2"):
            BagStatistics().fit(there[[3, 9, 7, 1]])


def test_integers_are_converted(lazy):
    bags, _ = example(20)
    whole = bags.with_instances((100 * bags.instances).astype(np.int16))
    order = np.random.default_rng(0).permutation(20)
    found = BagStatistics().fit_transform(whole[order])
    np.testing.assert_allclose(found, BagStatistics().fit_transform(whole)[order])


def test_far_float32_features_become_float64(lazy):
    bags, _ = example(20)
    far = bags.with_instances((bags.instances + 1e5).astype(np.float32))
    model = SingleInstanceClassifier().fit(far[::2], np.arange(10) % 2)
    expected = SingleInstanceClassifier().fit(
        Bags.from_arrays([far[i].astype(float) for i in range(0, 20, 2)]), np.arange(10) % 2
    )
    np.testing.assert_array_equal(model.decision_function(far), expected.decision_function(far))


def test_a_copy_larger_than_memory_is_refused(lazy, monkeypatch):
    bags, _ = example(20)
    monkeypatch.setattr("bagwise._common.memory._ALWAYS_GRANTED", 0)
    monkeypatch.setattr("bagwise._common.memory.available_memory", lambda: 100)
    with pytest.raises(NotEnoughMemoryError, match=r"10 bags needs .* memory_limit"):
        bags[::2].instances  # noqa: B018


def test_pages_are_released_and_read_again(tmp_path, rng):
    table = rng.normal(size=(1000, 50))
    array, _ = mapped.mapped_array(table.shape, table.dtype)
    array[:] = table
    mapped.release_pages(array[10:])
    np.testing.assert_array_equal(array, table)
    np.save(tmp_path / "table.npy", table)
    changed = np.load(tmp_path / "table.npy", mmap_mode="c")
    changed += 1  # in memory, not in the file
    mapped.release_pages(changed)
    np.testing.assert_array_equal(changed, table + 1)
    mapped.release_pages(table)


def test_a_file_is_searched_for_bad_values_once(lazy, tmp_path, monkeypatch):
    bags, _ = example(20)
    there, reads, before = in_file(bags, tmp_path), [], set(instances._KNOWN)
    original = instances._read_extremes
    monkeypatch.setattr(instances, "_read_extremes", lambda b: reads.append(b) or original(b))
    for chosen in (there, there[::2], there[1::2], there):
        BagStatistics().fit_transform(chosen)
    assert [len(b) for b in reads] == [1]  # the whole table
    del there, chosen
    assert set(instances._KNOWN) <= before


def test_bad_values_of_other_bags_do_not_matter(lazy, tmp_path):
    bags, _ = example(20)
    table = bags.instances.copy()
    table[bags.offsets[7], 0] = np.inf
    there = in_file(Bags(table, bags.offsets), tmp_path)
    np.testing.assert_array_equal(
        BagStatistics().fit_transform(there[::2]), BagStatistics().fit_transform(bags[::2])
    )
    with pytest.raises(InputError, match="infinity: bag 3, instance 0"):
        BagStatistics().fit_transform(there[1::2])


def test_values_too_small_for_squares_are_found_in_a_fold(lazy, tmp_path):
    bags, _ = example(20)
    scale = np.repeat(np.where(np.arange(20) % 2, 1.0, 1e-25), bags.sizes)[:, None]
    there = in_file(bags.with_instances((bags.instances * scale).astype(np.float32)), tmp_path)
    with pytest.raises(InputError, match="the largest magnitude in X"):
        SingleInstanceClassifier().fit(there[::2], np.arange(10) % 2)
    SingleInstanceClassifier().fit(there[1::2], np.arange(10) % 2)


def test_only_exact_transformers_see_blocks_of_an_array(lazy):
    bags, _ = example(40)
    arrays = Bags.from_arrays([bags[i] for i in range(0, 40, 2)])
    for inner in (StandardScaler(), MinMaxScaler(), MaxAbsScaler(), IncrementalPCA(2)):
        found = InstanceTransformer(inner).fit(bags[::2]).transform(bags[::2]).instances
        expected = inner.fit_transform(arrays.instances)
        np.testing.assert_allclose(found, expected, atol=1e-9)


def test_bags_in_a_file_are_sorted_into_a_file(tmp_path, rng, monkeypatch):
    path = tmp_path / "table.npy"
    np.save(path, rng.normal(size=(4000, 256)).astype(np.float32))
    bags = Bags(np.load(path, mmap_mode="r"), np.arange(0, 4001, 100))
    labels = Labels.from_values(np.arange(40) % 2)
    expected = in_canonical_order(Bags(np.array(bags.instances), bags.offsets), labels)
    monkeypatch.setattr(blocks, "BLOCK", 2**14)
    monkeypatch.setattr(mapped, "_BLOCK", 2**14)
    monkeypatch.setattr(bagwise._common.tables, "COPIED_AT_ONCE", 0)
    for order in (np.arange(40), rng.permutation(40)):
        chosen = bags[order]
        tracemalloc.start()
        try:
            found = in_canonical_order(chosen, labels[order])
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < bags.source.nbytes / 4
        assert is_mapped(found[0].source)
        np.testing.assert_array_equal(found[0].instances, expected[0].instances)
        np.testing.assert_array_equal(found[1].codes, expected[1].codes)
