"""BagStatistics against a loop over bags."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.pipeline import make_pipeline

from bagwise import Bags
from bagwise.compute import blocks
from bagwise.embedding import BagStatistics
from bagwise.exceptions import InputError
from cases import each
from checks import example

ALL = ("mean", "min", "max", "std", 0.1, 0.5, 0.99, "size")


def statistics_of(bag, statistics):
    """One row, by numpy, in double precision."""
    bag = np.asarray(bag, dtype=float)
    names = {
        "mean": lambda: bag.mean(axis=0),
        "min": lambda: bag.min(axis=0),
        "max": lambda: bag.max(axis=0),
        "std": lambda: bag.std(axis=0),
        "size": lambda: [len(bag)],
    }
    parts = [names[s]() if isinstance(s, str) else np.quantile(bag, s, axis=0) for s in statistics]
    return np.concatenate(parts)


@st.composite
def bags_with_zeros(draw):
    sizes = draw(st.lists(st.integers(1, 7), min_size=1, max_size=6))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    table = rng.normal(size=(sum(sizes), draw(st.integers(1, 4))))
    table[rng.random(table.shape) < draw(st.sampled_from([0.0, 0.5, 1.0]))] = 0
    return Bags(table.astype(dtype), np.concatenate([[0], np.cumsum(sizes)]))


@given(bags_with_zeros(), st.permutations(ALL), st.integers(1, len(ALL)))
@settings(deadline=None, max_examples=60)
def test_statistics_are_those_of_a_loop_over_bags(bags, order, n_statistics):
    statistics = tuple(order[:n_statistics])
    expected = np.array([statistics_of(bag, statistics) for bag in bags])
    model = BagStatistics(statistics).fit(bags)
    for table in (bags.instances, np.asfortranarray(bags.instances), as_csr(bags.instances)):
        found = model.transform(bags.with_instances(table))
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    assert len(model.get_feature_names_out()) == found.shape[1]


def as_csr(table):
    """The same values in CSR: columns out of order, some entries given as a sum of two."""
    rows, columns = (np.tile(index, 2) for index in np.nonzero(table))
    order = np.lexsort((-columns, rows))
    rows, columns = rows[order], columns[order]
    indptr = np.searchsorted(rows, np.arange(len(table) + 1))
    return sparse.csr_array((table[rows, columns] / 2, columns, indptr), shape=table.shape)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_statistics_do_not_depend_on_blocks(form, monkeypatch):
    bags, _ = example()
    bags = bags.with_instances(form(np.where(bags.instances > 0, bags.instances, 0)))
    whole = BagStatistics(ALL).fit_transform(bags)
    monkeypatch.setattr(blocks, "BLOCK", 20)
    assert len(list(blocks.bag_blocks(bags))) > 5
    np.testing.assert_array_equal(BagStatistics(ALL).fit_transform(bags), whole)


def test_statistics_of_sparse_bags_keep_the_instances_sparse(monkeypatch):
    monkeypatch.setattr(sparse.csr_array, "toarray", None)
    rng = np.random.default_rng(0)
    cells = np.unique(rng.integers(0, [3000, 50_000], size=(1500, 2)), axis=0).T
    table = sparse.csr_array((rng.uniform(size=cells.shape[1]), cells), shape=(3000, 50_000))
    found = BagStatistics(("mean", "max")).fit_transform(Bags(table, [0, 1000, 3000]))
    np.testing.assert_allclose(found[0, :50_000], table[:1000].sum(axis=0) / 1000, atol=1e-15)
    np.testing.assert_allclose(found[:, 50_000:].max(), table.data.max())


def test_deviations_are_exact_far_from_zero_and_for_equal_values():
    bags, _ = example()
    model = BagStatistics(("std",)).fit(bags)
    far = bags.with_instances(bags.instances + 1e8)  # rounds the values to 1e-8
    np.testing.assert_allclose(model.transform(far), model.transform(bags), atol=1e-7)
    for value in (0.1, 1e8 + 0.1, -1 / 3):
        equal = Bags(np.full((7, 4), value), [0, 3, 7])
        found = BagStatistics(("std", "mean", 0.3)).fit_transform(equal)
        np.testing.assert_array_equal(found, [[0.0] * 4 + [value] * 8] * 2)


def test_names_of_statistics():
    bags, _ = example()
    named = bags.with_instances(bags.instances, feature_names=["a", "b", "c", "d"])
    model = BagStatistics((0.25, "size", "max")).fit(named)
    expected = [*(f"q0.25_{n}" for n in "abcd"), "size", *(f"max_{n}" for n in "abcd")]
    assert model.get_feature_names_out().tolist() == expected
    pytest.importorskip("pandas")
    assert model.set_output(transform="pandas").transform(named).columns.tolist() == expected


@each(
    "statistics", [(), ("mean", "mean"), ("median",), (0.0,), (1.0,), (np.nan,), (True,), ([0.5],)]
)
def test_unknown_statistics_are_refused(statistics):
    with pytest.raises(InputError, match=r"statistics (is|holds)"):
        BagStatistics(statistics).fit([[[0.0]]])


@given(st.floats(-1e150, 1e150), st.floats(-1e150, 1e150), st.floats(0.01, 0.99))
@settings(deadline=None, max_examples=60)
def test_statistics_of_finite_values_are_finite(a, b, level):
    model = BagStatistics(("mean", "min", "max", "std", level))
    values = [a, b, 0.0]
    (found,) = model.fit([[[1.0]]]).transform([[[value] for value in values]])
    assert np.isfinite(found).all()
    assert (found[1], found[2]) == (min(values), max(values))
    inside = found[[0, 4]]
    slack = 1e-12 * max(map(abs, values))
    assert ((inside >= found[1] - slack) & (inside <= found[2] + slack)).all()


def test_trees_on_statistics_are_a_bag_classifier():
    bags, y = example(60)
    test, truth = example(40, seed=1)
    model = make_pipeline(BagStatistics(), ExtraTreesClassifier(100, random_state=0))
    assert model.fit(bags, y).score(test, truth) > 0.8
