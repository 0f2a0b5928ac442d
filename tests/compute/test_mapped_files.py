"""Bags in a memory-mapped file."""

import tracemalloc

import numpy as np
import pytest
from sklearn.base import clone
from typer.testing import CliRunner

from bagwise import Bags
from bagwise.annotation import ORedLogisticRegression
from bagwise.classification import PrimalDualMISVM
from bagwise.cli import app
from bagwise.compute import Parts, arrays, blocks
from bagwise.compute.mapped import read_ahead
from bagwise.io import write_bags
from bagwise.metric_learning import MIMLCA, MultiInstancePLDA, _multi_instance_plda
from bagwise.persistence import load_model
from bagwise.solvers.annotation import orlr_parts
from bagwise.solvers.margin import primal_dual
from bagwise.solvers.metric import plda
from checks import example
from engine_examples import mapped


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_mapped_table_is_not_copied(tmp_path, rng):
    X = rng.normal(size=(40_000, 60)).astype(np.float32)
    X[::10, 0] += np.repeat(np.arange(4000) % 2, 1)
    bags = mapped(Bags(X, np.arange(0, 40_001, 10)), tmp_path)
    model = PrimalDualMISVM(solver="inexact", max_iter=3, tol=10.0, random_state=0)
    y = np.arange(4000) % 2
    model.fit(bags[:100], y[:100]).predict(bags[:100])  # compiled kernels take memory too
    tracemalloc.start()
    model.fit(bags, y).predict(bags)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < X.nbytes  # two tables of scores, a block, and numbers per bag


@pytest.mark.parametrize(
    "options",
    [
        {"solver": "inexact"},
        {"solver": "exact"},
        {"assumption": "standard", "solver": "inexact", "max_iter": 30},
        {"assumption": "standard", "solver": "exact", "max_iter": 30},
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_file_larger_than_memory_is_read_once_per_iteration(options, tmp_path, rng, monkeypatch):
    bags, y = example(40, n_classes=3)
    weights = rng.uniform(0.5, 2, len(bags))
    model = PrimalDualMISVM(C=1, random_state=0, **options)
    here = model.fit(bags, y, sample_weight=weights)
    expected = here.coef_, here.intercept_, here.objective_curve_, here.residuals_
    calls = []
    total = Parts.total

    def counted(parts, method, *arguments):
        calls.append(method)
        return total(parts, method, *arguments)

    monkeypatch.setattr(Parts, "total", counted)
    monkeypatch.setattr(primal_dual, "bytes_in_file", lambda bags: 10**8)
    monkeypatch.setattr(primal_dual, "available_memory", lambda: 10**7)
    monkeypatch.setattr(blocks, "BLOCK", 60)  # a few bags at a time
    there = model.fit(mapped(bags, tmp_path), y, sample_weight=weights)
    assert calls.count("advance") == there.n_iter_
    assert not {"change", "update"} & set(calls)
    found = there.coef_, there.intercept_, there.objective_curve_, there.residuals_
    for a, b in zip(found, expected, strict=True):
        assert np.abs(a - b).max() <= 1e-9 * np.abs(b).max()


def test_blocks_that_are_read_ahead_are_the_same(tmp_path, rng):
    X = rng.normal(size=(5000, 3))
    rows = [slice(0, 10), slice(10, 10), slice(10, 1000), slice(1000, 1003), slice(3, 5000)]
    path = tmp_path / "x.npy"
    np.save(path, X)
    table = np.load(path, mmap_mode="r")
    for other in (table, table[2000:], X, table[:, 1:], np.asfortranarray(table)):
        assert list(read_ahead(other, rows)) == rows
    path.unlink()  # only the mapping has it now
    assert list(read_ahead(table, rows)) == rows
    np.testing.assert_array_equal(table, X)


@pytest.mark.parametrize(
    "model",
    [ORedLogisticRegression(max_iter=2)]
    + [
        pytest.param(m, marks=pytest.mark.slow)
        for m in (MIMLCA(max_iter=2), MultiInstancePLDA(max_iter=2))
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_mapped_table_of_label_sets_is_read_in_blocks(model, tmp_path, rng, monkeypatch):
    monkeypatch.setattr(arrays, "BLOCK", 2**17)
    monkeypatch.setattr(orlr_parts, "BLOCK", 2**15)
    monkeypatch.setattr(plda, "BLOCK", 2**16)
    monkeypatch.setattr(_multi_instance_plda, "BLOCK", 2**16)
    monkeypatch.setattr("bagwise.metric_learning._base.BLOCK", 2**16)
    X = rng.normal(size=(40_000, 60)).astype(np.float32)
    bags = mapped(Bags(X, np.arange(0, 40_001, 5)), tmp_path)
    sets = np.zeros((8000, 3), int)
    sets[np.arange(8000), np.arange(8000) % 3] = 1
    sets[::4, 0] = 1
    expected = clone(model).fit(Bags(X, bags.offsets), sets).predict_instances(bags)
    model.fit(bags[:100], sets[:100])  # compiled kernels take memory too
    tracemalloc.start()
    found = model.fit(bags, sets).predict_instances(bags)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < X.nbytes  # labels and costs per instance, blocks, and X'X
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("name", "options", "method"),
    [
        ("bags.csv", {}, "pdmisvm"),
        ("bags.parquet", {}, "orlr"),
        ("folder", {"format": "hdf5"}, "mimlca"),
        ("small.npz", {}, "pdmisvm"),
        ("bags.npz", {"compress": False}, "orlr"),
        ("bags.npz", {"compress": False}, "mimlca"),
    ],
)
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")  # those of the CSV file
def test_the_command_line_fits_a_file_larger_than_memory(name, options, method, tmp_path):
    for package in ("skops", "pyarrow", "h5py"):
        pytest.importorskip(package)
    bags, y = example(30, n_classes=2)
    labels = y.astype(object)
    if name.endswith("npz"):
        labels[3] = -1  # a bag without label is left out, also of a mapped file
    write_bags(tmp_path / name, bags, y=labels, **options)
    models = []
    for limit in ("1GB", "1KB"):
        output = tmp_path / f"{limit}.skops"
        command = ["fit", str(tmp_path / name), "-m", method, "--memory-limit", limit]
        command += ["-o", str(output)]
        if method != "pdmisvm":
            command += ["--checkpoint", str(tmp_path / "state.npz")]
        found = CliRunner().invoke(app, command)
        assert found.exit_code == 0, found.output
        models.append(load_model(output)[0])
    first, second = (model.predict(bags) for model in models)
    np.testing.assert_array_equal(first, second)
    assert not (tmp_path / "state.npz").exists()
    assert "state.npz" not in repr(models[0].get_params())
