"""Instances that are read, converted or computed in blocks at each use."""

import pickle
import tracemalloc

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.kernel_approximation import Nystroem
from sklearn.preprocessing import StandardScaler

from bagwise import Bags
from bagwise._common import tables
from bagwise._common.tables import ComputedTable, ConvertedTable
from bagwise.annotation import ORedLogisticRegression
from bagwise.base._set_kernel import kernel_bags, width_of
from bagwise.classification import PrimalDualMISVM
from bagwise.compute import blocks, mapped, readable_table
from bagwise.exceptions import DataNotFoundError, FileFormatError
from bagwise.io import read_bags, write_bags
from bagwise.metric_learning import MultiInstancePLDA
from bagwise.preprocessing import InstancePCA, InstanceTransformer, make_bag_pipeline
from bagwise.solvers.margin import primal_dual
from checks import example
from engine_examples import mapped as in_file

TYPES = ["float16", "uint8", "float32"]
RELATIVE = 1e-5  # of sums of float32 in another order


@pytest.fixture
def lazy(monkeypatch):
    """Small data are treated as large ones; returns the numbers of rows that were gathered."""
    monkeypatch.setattr(tables, "COPIED_AT_ONCE", 0)
    monkeypatch.setattr(blocks, "BLOCK", 60)
    gathered, original = [], mapped.gathered

    def recorded(source):
        gathered.append(source.n_rows)
        return original(source)

    monkeypatch.setattr(mapped, "gathered", recorded)
    return gathered


def numbers(dtype):
    """Bags with values that all types have, and their labels."""
    bags, y = example(18, n_classes=3)
    return bags.with_instances((10 * bags.instances + 60).astype(np.uint8).astype(dtype)), y


def streamed(kind, bags, folder):
    """The bags from a memory-mapped file, or from HDF5 files that are not copied."""
    if kind == "mapped":
        return in_file(bags, folder)
    pytest.importorskip("h5py")
    write_bags(folder / "slides", bags, format="hdf5")
    return read_bags(folder / "slides", memory_limit=0).bags


@pytest.mark.parametrize("kind", ["converted", "hdf5", "computed"])
@given(data=st.data())
@settings(
    deadline=None, max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_rows_are_those_of_the_array(lazy, tmp_path_factory, kind, data):
    lazy.clear()
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=2, max_size=6))
    dtype = data.draw(st.sampled_from(TYPES))
    values = (3 * np.arange(2 * sum(sizes)) % 251).reshape(-1, 2).astype(dtype)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    bags = Bags(values, offsets)
    if kind == "hdf5":
        bags = streamed("hdf5", bags, tmp_path_factory.mktemp("data"))
        assert bags.dtype == dtype
    elif kind == "converted":
        bags = bags.with_source(ConvertedTable(values))
        assert bags.dtype == np.float32
    else:
        bags = bags.with_source(ComputedTable(values, lambda rows: rows + 0.5, 2, np.float64))
        values = values + 0.5
    chosen = data.draw(st.lists(st.integers(0, len(sizes) - 1), min_size=1, max_size=6))
    some = bags[chosen]
    expected = np.concatenate([values[offsets[i] : offsets[i + 1]] for i in chosen])
    rows = data.draw(st.slices(len(expected)))
    positions = np.array(data.draw(st.lists(st.integers(0, len(expected) - 1))), int)
    for table in (some, Bags(readable_table(some), some.offsets)):
        np.testing.assert_array_equal(table.rows(rows), expected[rows])
        np.testing.assert_array_equal(table.rows(positions), expected[positions])
    for block, read in blocks.read_bag_blocks(some):
        np.testing.assert_array_equal(read, expected[blocks.rows_of(some, block)])
    assert not lazy
    if kind != "computed":  # whose function here cannot be sent
        again = pickle.loads(pickle.dumps(bags))
        np.testing.assert_array_equal(again.rows(slice(None)), values)
        assert not lazy
    np.testing.assert_array_equal(some.instances, expected)


@pytest.mark.parametrize(
    ("dtype", "kind", "once", "options"),
    [
        ("float16", "mapped", True, {"solver": "inexact"}),
        ("float16", "mapped", False, {"solver": "exact"}),
        ("uint8", "hdf5", True, {"assumption": "standard", "solver": "exact"}),
        ("float32", "hdf5", False, {"solver": "inexact"}),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_fit_equals_that_of_the_same_values_in_memory(
    dtype, kind, options, once, lazy, tmp_path, monkeypatch
):
    bags, y = numbers(dtype)
    model = make_bag_pipeline(
        InstanceTransformer(StandardScaler()),
        PrimalDualMISVM(C=1, random_state=0, max_iter=8, **options),
    )
    here = bags.with_instances(bags.instances.astype(np.float32))
    expected = model.fit(here, y)[-1]
    expected = expected.coef_, expected.objective_curve_, model.decision_function(here)
    if once:  # one pass over the file per iteration
        monkeypatch.setattr(primal_dual, "bytes_in_file", lambda bags: 10**8)
        monkeypatch.setattr(primal_dual, "available_memory", lambda: 10**7)
    there = streamed(kind, bags, tmp_path)
    lazy.clear()
    found = model.fit(there, y)[-1]
    assert found.coef_.dtype == np.float32
    found = found.coef_, found.objective_curve_, model.decision_function(there)
    assert not [n for n in lazy if n > 20]  # blocks of a few bags
    for a, b in zip(found, expected, strict=True):
        assert np.abs(a - b).max() <= RELATIVE * 100 * np.abs(b).max()


@pytest.mark.parametrize(
    "model",
    [
        ORedLogisticRegression(max_iter=30, tol=1e-3),
        ORedLogisticRegression(kernel="rbf", n_components=9, tol=1e-3, random_state=0),
        MultiInstancePLDA(max_iter=5),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_label_sets_of_streamed_instances(model, lazy, tmp_path):
    bags, y = numbers("float16")
    sets = np.eye(3, dtype=int)[np.unique(y, return_inverse=True)[1]]
    sets[::4, 0] = 1
    here = bags.with_instances(bags.instances.astype(np.float32))
    expected = model.fit(here, sets).score_instances(here)
    there = in_file(bags, tmp_path)
    lazy.clear()
    found = model.fit(there, sets).score_instances(there)
    assert not [n for n in lazy if n > 20]
    assert np.abs(found - expected).max() <= 1e-3 * np.abs(expected).max()


def test_features_of_a_kernel_go_to_a_file(lazy, tmp_path):
    bags, _ = numbers("uint8")
    here = bags.with_instances(bags.instances.astype(np.float32))
    there = streamed("hdf5", bags, tmp_path)
    there = there.with_source(ConvertedTable(there.source))
    assert width_of("scale", there) == pytest.approx(width_of("scale", here), rel=1e-6)
    nystroem = Nystroem(n_components=9, random_state=0).fit(here.instances)
    found = kernel_bags(nystroem, there)
    assert not [n for n in lazy if n > 20]
    assert found.where == "mapped"
    np.testing.assert_allclose(
        found.instances, nystroem.transform(here.instances), rtol=1e-3, atol=1e-5
    )


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_memory_of_a_file_of_bytes(tmp_path, rng, monkeypatch):
    X = rng.integers(0, 255, size=(160_000, 60), dtype=np.uint8)
    bags, y = in_file(Bags(X, np.arange(0, 160_001, 400)), tmp_path), np.arange(400) % 2
    monkeypatch.setattr(blocks, "BLOCK", 2**16)
    monkeypatch.setattr(tables, "COPIED_AT_ONCE", 2**16)
    model = PrimalDualMISVM(solver="inexact", max_iter=3, tol=10.0, random_state=0)
    model.fit(bags[:100], y[:100]).predict(bags[:100])  # compiled kernels take memory too
    tracemalloc.start()
    model.fit(bags, y).predict(bags)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * X.nbytes  # blocks and scores; as float32 it would take four times its size


@pytest.mark.parametrize("transformer", [InstanceTransformer(StandardScaler()), InstancePCA(4)])
def test_computed_rows_are_those_of_the_fit(transformer, lazy, tmp_path):
    bags, _ = numbers("float16")
    there = streamed("hdf5", bags, tmp_path)
    new = transformer.fit_transform(there)
    assert isinstance(new.source, ComputedTable)
    expected = new.rows(slice(None))
    sent = pickle.loads(pickle.dumps(new))
    transformer.fit(there[:3])
    for found in (new, sent):
        np.testing.assert_array_equal(found.rows(slice(None)), expected)


def test_a_file_that_changed_or_went_away_is_refused(tmp_path):
    bags, _ = numbers("float32")
    there = streamed("hdf5", bags, tmp_path)
    first, second, third = (tmp_path / "slides" / f"b{i}.h5" for i in range(3))
    first.unlink()
    with pytest.raises(DataNotFoundError, match=first.name):
        there[0]
    write_bags(tmp_path / "other", [bags[1] + 1, np.ones((99, bags.n_features))], format="hdf5")
    same_shape, longer = sorted((tmp_path / "other").glob("*.h5"))
    for i, (old, new) in enumerate([(second, same_shape), (third, longer)]):
        new.replace(old)
        with pytest.raises(FileFormatError, match=rf"{old.name} has changed"):
            there[i + 1]
