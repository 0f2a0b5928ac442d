"""Bags on the workers of a Dask cluster: distribution, computation, network traffic."""

import os
import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bagwise import Bags, preprocessing
from bagwise._common.tables import is_mapped
from bagwise.annotation import ORedLogisticRegression
from bagwise.classification import PrimalDualMISVM, SetKernelSVM
from bagwise.compute import Part, dask, place
from bagwise.compute.arrays import add
from bagwise.compute.dask import DaskParts, _packed, _to_send
from bagwise.embedding import BagStatistics
from bagwise.evaluate import evaluate
from bagwise.exceptions import InputError
from bagwise.io import read_bags, write_bags
from bagwise.metric_learning import MIMLCA
from bagwise.preprocessing import InstancePCA
from checks import example
from engine_examples import kill_a_worker, mapped, with_label_sets


def test_bags_come_back_as_they_went(client):
    bags, _ = example(30)
    away = bags.distribute(client, npartitions=3)
    assert repr(away).endswith("npartitions=3)")
    assert sum(away.map(len)) == len(away) == 30
    back = away.collect()
    np.testing.assert_array_equal(back.instances, bags.instances)
    np.testing.assert_array_equal(back.ids, bags.ids)
    narrow = bags.with_instances(sparse.csr_array(bags.instances))
    np.testing.assert_array_equal(
        narrow.distribute(client).collect().instances.toarray(), bags.instances
    )


@pytest.mark.parametrize("as_sparse", [False, True])
def test_distributed_bags_are_indexed_as_bags_here(client, as_sparse, rng):
    bags, _ = example(30)
    bags = Bags(bags.instances, bags.offsets, bags.ids, feature_names=list("abcd"))
    if as_sparse:
        bags = bags.with_instances(sparse.csr_array(bags.instances), feature_names=list("abcd"))
    away = bags.distribute(client, npartitions=3)
    shuffled = rng.permutation(30)
    keys = [
        slice(None), slice(3, 25), slice(None, None, -2), np.arange(30) % 3 == 0, [29], [-1, 0],
        np.arange(30) < 4, shuffled, shuffled[:7], [5, 5, 20, 5],
    ]  # fmt: skip
    for key in keys:
        chosen, expected = away[key], bags[key]
        assert chosen.where == "cluster"
        assert 1 <= chosen.npartitions <= 3
        assert all(chosen.map(len))  # no empty partition
        np.testing.assert_array_equal(chosen.offsets, expected.offsets)
        same_bags(chosen.collect(), expected)
    again = away[shuffled][::2]
    same_bags(again.collect(), bags[shuffled[::2]])
    for i in (0, 17, -1):
        found = away[i]
        np.testing.assert_array_equal(dense(found), dense(bags[i]))
    assert len(away[[]]) == 0
    with pytest.raises(IndexError, match="there are 30 bags"):
        away[30]
    with pytest.raises(IndexError, match=r"there are 30 bags.* is 29"):
        away[np.ones(29, bool)]


def dense(table):
    return table.toarray() if sparse.issparse(table) else table


def same_bags(found, expected):
    np.testing.assert_array_equal(dense(found.instances), dense(expected.instances))
    np.testing.assert_array_equal(found.offsets, expected.offsets)
    np.testing.assert_array_equal(found.ids, expected.ids)
    assert found.feature_names == expected.feature_names


def test_bags_chosen_in_order_do_not_travel(client):
    bags, _ = example(30)
    away = bags.distribute(client, npartitions=2)
    chosen = away[np.arange(30) % 2 == 0]
    where = client.who_has([*away.futures, *chosen.futures])
    for before, after in zip(away.futures, chosen.futures, strict=True):
        assert where[after.key] == where[before.key]
    assert away[:].futures == away.futures


@pytest.mark.filterwarnings("ignore:PrimalDualMISVM did not converge")
def test_distributed_bags_are_cross_validated(client):
    bags, y = example(40)
    away = bags.distribute(client, npartitions=2)
    model = PrimalDualMISVM(C=1, max_iter=25, random_state=0)
    splits = StratifiedKFold(2, shuffle=True, random_state=0)
    expected = cross_val_score(model, bags, y, cv=splits)
    np.testing.assert_allclose(cross_val_score(model, away, y, cv=splits), expected)
    folds = list(splits.split(y, y))
    each = make_pipeline(InstancePCA(2), BagStatistics(), LogisticRegression())
    found, known = (evaluate(each, X, y, cv=folds).scores for X in (away, bags))
    assert found.keys() == known.keys()
    for measure, values in known.items():
        np.testing.assert_allclose(found[measure], values, rtol=1e-6)
    same_bags(away.take([3, 1, 38]).collect(), bags.take([3, 1, 38]))
    with pytest.raises(InputError, match=r"SetKernelSVM works on arrays.*bags.collect\(\)"):
        evaluate(SetKernelSVM(), away, y, cv=folds)
    train, test = train_test_split(away, random_state=0)[:2]
    here = train_test_split(bags, random_state=0)
    same_bags(train.collect(), here[0])
    same_bags(test.collect(), here[1])


def test_workers_map_a_mapped_file_themselves(client, tmp_path):
    bags, _ = example(30)
    there = mapped(bags, tmp_path).distribute(client)
    assert there.map(_is_mapped) == [True, True]
    np.testing.assert_array_equal(there.collect().instances, bags.instances)


def test_a_file_that_changed_is_not_read_again(client, tmp_path):
    bags, _ = example(30)
    sent = pickle.dumps(_to_send(client, mapped(bags, tmp_path)))
    assert len(sent) < bags.instances.nbytes
    np.testing.assert_array_equal(pickle.loads(sent).instances, bags.instances)
    file = next(tmp_path.iterdir())
    for content in (10 * bags.instances, [[1.0]]):
        np.save(tmp_path / "new.npy", content)
        os.replace(tmp_path / "new.npy", file)
        with pytest.raises(InputError, match="has changed since"):
            pickle.loads(sent)


def _is_mapped(bags):
    return is_mapped(bags.instances)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_only_what_the_mathematics_needs_crosses_the_wire(client, monkeypatch):
    bags, sets = with_label_sets(200, n_features=100)
    away, y = bags.distribute(client, npartitions=2), np.arange(200) % 5
    sent, collected = {}, {}

    def watch(name, store):
        real = getattr(DaskParts, name)

        def call(self, method, *args, **options):
            found = real(self, method, *args, **options)
            store[method] = len(pickle.dumps((args, options) if store is sent else found))
            return found

        monkeypatch.setattr(DaskParts, name, call)

    for name in ("total", "step", "do"):
        watch(name, sent)
    for name in ("total", "step"):
        watch(name, collected)
    PrimalDualMISVM(solver="inexact", max_iter=2, tol=10.0, random_state=0).fit(away, y)
    ORedLogisticRegression(tol=1.0).fit(away, sets)
    MIMLCA().fit(away, sets)
    table, small = 8 * 5 * 100, 800  # K d numbers; O(K) numbers and what pickle writes around them
    for method, down, up in [
        ("change", table, 0), ("update", 0, table),  # pdMISVM
        ("loss", table, table),  # ORLR
        ("assign", table, 0), ("label_sums", 0, table), ("gram", 8 * 100, 8 * 100**2),  # MIMLCA
    ]:  # fmt: skip
        assert down <= sent[method] < down + small
        assert up <= collected[method] < up + small


class Failing:
    """A part that fails where it has the last bag."""

    def __init__(self, bags, numbers):
        self.numbers = numbers

    def number(self, last):
        if last in self.numbers:
            raise ZeroDivisionError("mine")
        return float(self.numbers.sum()), np.ones(2)


def test_a_tree_adds_all_results_and_reports_errors_of_a_part(client):
    bags, _ = example(30)
    away = bags.distribute(client, npartitions=10)
    with place(away, Failing, np.arange(30)) as placed:
        total, ones = placed.total("number", -1)
        assert total == 29 * 15
        np.testing.assert_array_equal(ones, [10.0, 10.0])
        for verb in (placed.total, placed.step):
            with pytest.raises(ZeroDivisionError, match="mine"):
                verb("number", 29)


class Adding(Part):
    """A part with a number, and an array that is changed in place."""

    def __init__(self, bags):
        self.n_bags, self.value = len(bags), np.zeros(3)

    def add(self, value):
        self.value += value
        return self.value[0]

    def get(self):
        return self.value.sum()

    def state(self):
        return {"value": self.value}

    def restore(self, state):
        self.value = state["value"]


def test_parts_continue_from_the_state_that_was_collected(client, monkeypatch):
    monkeypatch.setattr(dask, "KEPT", 3)
    bags, _ = example(30)
    with place(bags.distribute(client, npartitions=2), Adding) as parts:
        assert parts.step("add", 1) == 2
        parts.hold()
        first = parts._first
        for i in range(5):
            assert parts.step("add", 1) == 4 + 2 * i
            parts.renew()
        assert parts.total("get") == 36
        parts._held = first
        assert parts.total("get") == 6  # where the loop began


def test_workers_read_their_own_files(client, tmp_path):
    pytest.importorskip("h5py")
    bags, y = example(12)
    write_bags(tmp_path / "slides", bags, y=y, format="hdf5")
    data = read_bags(tmp_path / "slides", client=client, npartitions=3)
    assert data.bags.npartitions == 3
    np.testing.assert_array_equal(data.y, y)
    np.testing.assert_array_equal(data.bags.ids, bags.ids)
    np.testing.assert_array_equal(data.bags.collect().instances, bags.instances)


def test_workers_read_their_own_row_groups(client, tmp_path):
    pytest.importorskip("pyarrow")
    import pyarrow as pa
    import pyarrow.parquet as pq

    bags, y = example(12)
    write_bags(tmp_path / "bags.parquet", bags, y=y)
    small = tmp_path / "small.parquet"
    pq.write_table(pq.read_table(tmp_path / "bags.parquet"), small, row_group_size=7)
    data = read_bags(small, client=client, npartitions=3)
    np.testing.assert_array_equal(data.y, y)
    np.testing.assert_array_equal(data.bags.ids, bags.ids)
    np.testing.assert_array_equal(data.bags.collect().instances, bags.instances)
    kill_a_worker(data.bags)  # and read them again
    np.testing.assert_array_equal(data.bags.collect().instances, bags.instances)
    table = pq.read_table(small)
    order = np.random.default_rng(0).permutation(len(table))
    pq.write_table(table.take(pa.array(order)), tmp_path / "mixed.parquet")
    mixed = read_bags(tmp_path / "mixed.parquet", client=client, memory_limit="1GB")
    assert mixed.bags.collect().n_instances == bags.n_instances


def test_other_files_are_read_here_and_mapped_there(client, tmp_path):
    bags, y = example(12)
    write_bags(tmp_path / "bags.npz", bags, y=y, compress=False)
    data = read_bags(tmp_path / "bags.npz", client=client, memory_limit=0)
    np.testing.assert_array_equal(data.bags.collect().instances, bags.instances)


@pytest.mark.filterwarnings("ignore:PrimalDualMISVM did not converge")
def test_a_pipeline_standardises_on_the_workers(client):
    bags, y = example(40)
    away = bags.distribute(client, npartitions=2)
    scaler = preprocessing.InstanceTransformer(StandardScaler())
    there = scaler.fit(away).transform(away)
    assert there.npartitions == 2
    expected = scaler.fit_transform(bags).instances
    np.testing.assert_allclose(there.collect().instances, expected, atol=1e-12)
    kill_a_worker(there)  # what was lost is made again
    np.testing.assert_allclose(there.collect().instances, expected, atol=1e-12)
    model = make_pipeline(scaler, PrimalDualMISVM(C=1, max_iter=25, random_state=0))
    here = model.fit(bags, y).predict(bags)
    np.testing.assert_array_equal(model.fit(away, y).predict(away), here)
    with pytest.raises(InputError, match="no partial_fit"):
        preprocessing.InstanceTransformer(PCA()).fit(away)


def test_answers_are_added():
    assert add([(1, np.ones(2)), (2, np.ones(2)), (3, np.ones(2))])[0] == 6
    assert add([None, None]) is None
    first = np.ones(3)
    add([first, first, first])
    np.testing.assert_array_equal(first, 1)


def test_arrays_that_are_sent_are_aligned():
    """BLAS without AVX crashes on others: OPENBLAS_CORETYPE=Prescott."""
    odd = np.frombuffer(bytearray(8 * 7 + 1), np.uint8, offset=1).view(np.float64)
    assert not odd.flags.aligned
    arrived = pickle.loads(_packed({"a": [odd, 1]}))
    assert arrived["a"][0].flags.aligned
    assert arrived["a"][0].flags.writeable
