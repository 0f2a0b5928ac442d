"""The same model wherever the bags are: here, in a mapped file, on a cluster, on a device."""

import os
import pickle
import re
import signal
import subprocess
import sys
import textwrap
import tracemalloc
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

from bagwise import Bags, _validation, preprocessing
from bagwise.annotation import ORedLogisticRegression
from bagwise.classification import PrimalDualMISVM, SetKernelSVM, WellMISVM
from bagwise.cli import app
from bagwise.cluster import BagConstrainedSpectralClustering, _placed_rows
from bagwise.engines import Checkpoint, Journal, checkpoint, iterate, place
from bagwise.engines.arrays import add
from bagwise.engines.cluster import ClusterParts
from bagwise.engines.parts import LocalParts
from bagwise.exceptions import InputError, WorkerLostError
from bagwise.io import read_bags, write_bags
from bagwise.kernels import segments
from bagwise.metric_learning import MIMLCA
from bagwise.persistence import load_model
from bagwise.solvers import column_span, mimlca, orlr
from bagwise.solvers.orlr import Demands
from bagwise.solvers.primal_dual import LinearSpace, Part, primal_dual
from checks import example
from estimators import public_estimators

ENGINES = ["local", "mapped", "cluster", "tensor"]


@pytest.fixture(scope="module")
def clusters():
    started = []
    yield started
    for client in started:
        client.cluster.close()
        client.close()


@pytest.fixture
def client(clusters):
    """Two workers; those of a new cluster where a test before has left fewer."""
    distributed = pytest.importorskip("distributed")
    try:
        clusters[-1].wait_for_workers(2, timeout=60)
    except (IndexError, TimeoutError, distributed.TimeoutError):
        cluster = distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
        )
        clusters.append(distributed.Client(cluster))
    return clusters[-1]


@pytest.fixture(params=ENGINES)
def move(request, tmp_path):
    """Bring bags to an engine."""
    if request.param == "cluster":
        client = request.getfixturevalue("client")
        return lambda bags: bags.distribute(client, npartitions=2)
    if request.param == "tensor":
        pytest.importorskip("torch")
        return lambda bags: bags.to("cpu")
    if request.param == "mapped":
        return lambda bags: mapped(bags, tmp_path)
    return lambda bags: bags


def mapped(bags, folder):
    path = folder / f"{id(bags)}.npy"
    np.save(path, bags.instances)
    return Bags(np.load(path, mmap_mode="r"), bags.offsets, bags.ids)


def relative(found, expected):
    return np.abs(found - expected).max() / np.abs(expected).max()


@pytest.mark.parametrize(
    ("solver", "splitting", "n_classes"),
    [
        ("exact", "paper", 3),
        ("exact", "shared", 2),
        ("inexact", "paper", 2),
        ("inexact", "shared", 3),
    ],
)
def test_engines_agree(move, solver, splitting, n_classes, rng):
    bags, y = example(40, n_classes=n_classes)
    test, _ = example(20, n_classes=n_classes, seed=1)
    weights = rng.uniform(0.5, 2, len(bags))
    model = PrimalDualMISVM(C=1, solver=solver, splitting=splitting, random_state=0)
    here = model.fit(bags, y, sample_weight=weights)
    expected = here.coef_, here.intercept_, here.objective_curve_, here.residuals_
    answers = [getattr(here, name)(test) for name in ANSWERS]
    there = model.fit(move(bags), y, sample_weight=weights)
    found = there.coef_, there.intercept_, there.objective_curve_, there.residuals_
    for a, b in zip(found, expected, strict=True):
        assert isinstance(a, np.ndarray)
        assert a.shape == b.shape
        assert relative(a, b) < 1e-9
    moved = move(test)
    for name, answer in zip(ANSWERS, answers, strict=True):
        again = getattr(there, name)(moved)
        assert isinstance(again, np.ndarray)
        np.testing.assert_allclose(again, answer, atol=1e-9) if again.dtype.kind == "f" else (
            np.testing.assert_array_equal(again, answer)
        )


ANSWERS = [
    "decision_function", "predict", "score_instances", "predict_instances", "key_instances",
]  # fmt: skip


def test_engines_agree_on_tied_instances(move, rng):
    X = rng.integers(-1, 2, size=(200, 3)).astype(float)  # most bags hold equal instances
    bags, y = Bags(X, np.arange(0, 201, 5)), np.arange(40) % 3
    model = PrimalDualMISVM(C=0.1, max_iter=60, tol=0.5, random_state=0)
    expected = model.fit(bags, y).coef_
    assert relative(model.fit(move(bags), y).coef_, expected) < 1e-6


def test_engines_agree_in_single_precision(move):
    bags, y = example(40, n_classes=3, dtype=np.float32)
    model = PrimalDualMISVM(C=1, random_state=0)
    expected, found = model.fit(bags, y).coef_, model.fit(move(bags), y).coef_
    assert found.dtype == np.float32
    assert relative(found, expected) < 1e-3


def test_a_constant_feature_stays_out_everywhere(move):
    bags, y = example(30)
    table = np.hstack([bags.instances, np.ones((bags.n_instances, 1))])
    model = PrimalDualMISVM(C=1, random_state=0)
    assert model.fit(move(bags.with_instances(table)), y).coef_[0, 4] == 0


def test_bad_values_are_found_where_they_are(move):
    bags, y = example(30)
    table = np.array(bags.instances)
    table[bags.offsets[20], 2] = np.nan
    with pytest.raises(InputError, match=r"contains NaN: bag .*'b20'.*feature 2"):
        PrimalDualMISVM().fit(move(bags.with_instances(table)), y)


def test_other_columns_are_refused(move):
    bags, y = example(30)
    model = PrimalDualMISVM(random_state=0, C=1).fit(bags, y)
    narrow = bags.with_instances(bags.instances[:, :3])
    with pytest.raises(InputError, match="3 features"):
        model.predict(move(narrow))


def test_models_of_one_process_say_so(client):
    bags, y = example(30)
    with pytest.raises(InputError, match=r"SetKernelSVM works on arrays.*bags\.collect\(\)"):
        SetKernelSVM().fit(bags.distribute(client), y)
    with pytest.raises(InputError, match="kernel='linear'"):
        PrimalDualMISVM(kernel="rbf").fit(bags.distribute(client), y)
    with pytest.raises(InputError, match="on the workers"):
        _ = bags.distribute(client).instances
    with pytest.raises(InputError, match="index first"):
        bags.distribute(client)[:3]


def test_models_of_one_process_say_so_of_tensors():
    pytest.importorskip("torch")
    bags, y = example(30)
    with pytest.raises(InputError, match=r"on cpu, and SetKernelSVM.*bags\.to\('numpy'\)"):
        SetKernelSVM().fit(bags.to("cpu"), y)
    with pytest.raises(InputError, match="cannot go to 'nowhere'"):
        bags.to("nowhere")


@pytest.mark.parametrize("engine", ["cluster", "tensor"])
def test_every_model_fits_there_or_says_where(engine, request):
    bags, y = example(30)
    if engine == "tensor":
        pytest.importorskip("torch")
        away, way = bags.to("cpu"), r"to\('numpy'\)"
    else:
        away, way = bags.distribute(request.getfixturevalue("client")), r"collect\(\)"
    messages = {}
    for estimator in public_estimators():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                estimator().fit(away, y)
        except InputError as error:
            messages[estimator.__name__] = str(error)
    able = {estimator.__name__ for estimator in public_estimators()} - messages.keys()
    anywhere = {"PrimalDualMISVM", "ORedLogisticRegression", "MIMLCA"}
    clusters = {"BagConstrainedSpectralClustering", "InstanceTransformer", "WellMISVM"}
    assert able == (anywhere | clusters if engine == "cluster" else anywhere)
    unclear = [m for m in messages.values() if not re.search(f"{way}|works on rows", m)]
    assert not unclear


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


def test_tensors_come_back_as_they_went():
    torch = pytest.importorskip("torch")
    bags, _ = example(10)
    away = bags.to("cpu", dtype="float32")
    assert away.instances.dtype == torch.float32
    assert away.device == "cpu"
    assert "device=cpu" in repr(away)
    np.testing.assert_allclose(away.to("numpy").instances, bags.instances, rtol=1e-6)
    np.testing.assert_allclose(away[[3, 1]][1], bags[1], rtol=1e-6)
    away.instances[:] = 0  # torch has no read-only tensors: the array must not share memory
    assert bags.instances.any()


def test_workers_map_a_mapped_file_themselves(client, tmp_path):
    bags, _ = example(30)
    there = mapped(bags, tmp_path).distribute(client)
    assert all(loader.on_worker for loader in there._loaders)
    assert there.map(_is_mapped) == [True, True]
    np.testing.assert_array_equal(there.collect().instances, bags.instances)


def _is_mapped(bags):
    return _validation.is_mapped(bags.instances)


def test_a_sparse_fit_on_a_cluster(client):
    bags, y = example(30)
    thin = bags.with_instances(sparse.csr_array(bags.instances))
    model = PrimalDualMISVM(C=1, random_state=0)
    expected = model.fit(bags, y).coef_
    assert relative(model.fit(thin.distribute(client), y).coef_, expected) < 1e-9


# --- label sets


def with_label_sets(n_bags=60, n_classes=5, n_features=6, seed=0):
    """Bags whose instances lie around the mean of their class; label sets are the unions."""
    rng = np.random.default_rng(seed)
    means = 3 * np.random.default_rng(1).normal(size=(n_classes, n_features))
    sizes = rng.integers(3, 7, n_bags)
    kinds = rng.integers(n_classes, size=sizes.sum())
    table = means[kinds] + rng.normal(size=(len(kinds), n_features))
    bags = Bags(table, np.concatenate([[0], np.cumsum(sizes)]))
    sets = np.zeros((n_bags, n_classes), int)
    sets[bags.bag_index, kinds] = 1
    return bags, sets


@pytest.mark.parametrize(
    "options",
    [{}, {"background": True}, {"solver": "em", "tol": 1e-3}],
)
def test_orlr_agrees(move, options):
    bags, sets = with_label_sets(n_features=3)
    if "background" in options:
        sets = sets[:, :-1]  # the last class goes unnamed
    model = ORedLogisticRegression(**({"reg": 10.0, "tol": 1e-9} | options))
    here = model.fit(bags, sets)
    expected = [here.coef_, here.intercept_, here.objective_curve_]
    answers = [
        here.predict_proba(bags),
        here.predict_proba_instances(bags),
        here.annotate_proba(bags, sets),
    ]
    labels = here.annotate(bags, sets), here.predict(bags), here.predict_instances(bags)
    away = move(bags)
    there = model.fit(away, sets)
    for a, b in zip([there.coef_, there.intercept_, there.objective_curve_], expected, strict=True):
        assert relative(a, b) < 1e-6
    found = [
        there.predict_proba(away),
        there.predict_proba_instances(away),
        there.annotate_proba(away, sets),
    ]
    for a, b in zip(found, answers, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)
    again = there.annotate(away, sets), there.predict(away), there.predict_instances(away)
    for a, b in zip(again, labels, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("options", [{"background": 9}, {"solver": "em", "tol": 1e-3}])
def test_orlr_agrees_where_instances_are_known(move, options):
    bags, sets = with_label_sets(n_features=3)
    first = bags.offsets[:-1][sets.sum(axis=1) < bags.sizes]
    known = np.full(bags.n_instances, -1)
    known[first] = sets.argmax(axis=1)[bags.bag_index[first]]
    if "background" in options:
        known[first[::3]] = 9
    sets[5] = -1  # of this bag only the known instances count
    known[bags.offsets[5]] = 0
    model = ORedLogisticRegression(**({"reg": 10.0, "tol": 1e-9} | options))
    here = model.fit(bags, sets, instance_labels=known)
    expected = here.coef_, here.annotate_proba(bags, sets, instance_labels=known)
    away = move(bags)
    there = model.fit(away, sets, instance_labels=known)
    assert relative(there.coef_, expected[0]) < 1e-6
    found = there.annotate_proba(away, sets, instance_labels=known)
    np.testing.assert_allclose(found, expected[1], atol=1e-6)


def test_orlr_on_tensors_hands_hard_bags_to_the_kernel(monkeypatch):
    pytest.importorskip("torch")
    from bagwise.engines import tensor_orlr

    bags, sets = with_label_sets()
    how = Demands.of(bags.offsets, sets, background=False, max_operations=300.0).how
    assert len(np.unique(how)) == 2  # some bags are approximated
    theta = 100 * np.random.default_rng(0).normal(size=(5, 7))  # and some underflow
    options = {
        "background": False, "fit_intercept": True, "n_classes": 5, "max_operations": 300.0
    }  # fmt: skip
    arguments = sets.astype(np.int8), np.linspace(1, 2, len(bags)), how
    expected = orlr.Part(bags, *arguments, **options).likelihood(theta)
    for table in (tensor_orlr.TABLE, 200):  # all bags at once, and a few at a time
        monkeypatch.setattr(tensor_orlr, "TABLE", table)
        part = tensor_orlr.Part(bags.to("cpu"), *arguments, **options)
        value, gradient = part.likelihood(theta)
        assert value == pytest.approx(expected[0], rel=1e-12)
        np.testing.assert_allclose(gradient, expected[1], atol=1e-10)


MIMLCA_OPTIONS = [
    {},
    {"instances_per_label": None},
    {"n_components": 3},
    {"ridge": 5.0},
    {"n_init": 3, "random_state": 0, "center": False},
]


@pytest.mark.parametrize("options", MIMLCA_OPTIONS)
def test_mimlca_agrees(move, options):
    bags, sets = with_label_sets()
    sets[7] = 0  # its instances have no label, but count for the space
    model = MIMLCA(**options)
    here = model.fit(bags, sets)
    names = ["components_", "centroids_", "mean_", "objective_curve_"]
    expected = {name: getattr(here, name) for name in [*names, "assignments_", "category_sizes_"]}
    answers = [here.predict_instances(bags, rule=rule) for rule in ("centroid", "projection")]
    away = move(bags)
    there = model.fit(away, sets)
    for name, value in expected.items():
        if value.dtype.kind == "f":
            np.testing.assert_allclose(getattr(there, name), value, rtol=1e-6, atol=1e-9)
        else:
            np.testing.assert_array_equal(getattr(there, name), value)
    for rule, answer in zip(("centroid", "projection"), answers, strict=True):
        np.testing.assert_array_equal(there.predict_instances(away, rule=rule), answer)


def test_mimlca_agrees_on_dependent_columns(move):
    bags, sets = with_label_sets()
    table = np.hstack([bags.instances, bags.instances[:, :2].sum(axis=1, keepdims=True)])
    bags = bags.with_instances(np.hstack([table, np.full((len(table), 1), 3.0)]))
    expected = MIMLCA().fit(bags, sets)
    found = MIMLCA().fit(move(bags), sets)
    np.testing.assert_array_equal(found.assignments_, expected.assignments_)
    np.testing.assert_allclose(found.components_, expected.components_, rtol=1e-6, atol=1e-8)


def test_mimlca_of_few_or_kernel_instances_stays_here(client):
    bags, sets = with_label_sets(n_features=400)
    with pytest.raises(InputError, match="in this process"):
        MIMLCA().fit(bags.distribute(client), sets)
    with pytest.raises(InputError, match="kernel='linear'"):
        MIMLCA(kernel="rbf").fit(bags.distribute(client), sets)


@pytest.mark.parametrize(
    ("model", "saving"),
    [
        (ORedLogisticRegression(), False),
        (ORedLogisticRegression(solver="em", tol=1e-3), False),
        (MIMLCA(), False),
        (MIMLCA(), True),
    ],
)
def test_models_of_label_sets_survive_the_loss_of_a_worker(
    client, model, saving, monkeypatch, tmp_path
):
    monkeypatch.setattr(checkpoint, "INTERVAL", 0.0)
    monkeypatch.setattr(checkpoint, "SHARE", np.inf)
    model = clone(model).set_params(checkpoint=tmp_path / "fit.npz" if saving else None)
    bags, sets = with_label_sets()
    away = bags.distribute(client, npartitions=2)
    learned = "coef_" if hasattr(model, "reg") else "components_"
    expected = getattr(model.fit(away, sets), learned)
    real, calls = ClusterParts.each, []

    def each(self, method, *args):
        calls.append(method)
        if len(calls) == 4:
            kill_a_worker(away)
        return real(self, method, *args)

    rebuilt = []
    rebuild = ClusterParts.rebuild
    monkeypatch.setattr(ClusterParts, "each", each)
    monkeypatch.setattr(ClusterParts, "rebuild", lambda self: rebuilt.append(rebuild(self)))
    model.fit(away, sets)
    assert rebuilt
    np.testing.assert_allclose(getattr(model, learned), expected, rtol=1e-12)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_only_what_the_mathematics_needs_crosses_the_wire(client, monkeypatch):
    bags, sets = with_label_sets(200, n_features=100)
    away, y = bags.distribute(client, npartitions=2), np.arange(200) % 5
    real, crossed = ClusterParts._call, {}

    def call(self, method, arguments):
        answers = real(self, method, arguments)
        crossed[method] = len(pickle.dumps(arguments[0])), len(pickle.dumps(answers[0]))
        return answers

    monkeypatch.setattr(ClusterParts, "_call", call)
    PrimalDualMISVM(solver="inexact", max_iter=2, tol=10.0, random_state=0).fit(away, y)
    ORedLogisticRegression(tol=1.0).fit(away, sets)
    MIMLCA().fit(away, sets)
    table, small = 8 * 5 * 100, 800  # K d numbers; O(K) numbers and what pickle writes around them
    for method, down, up in [
        ("change", table, 0), ("update", 0, table),  # pdMISVM
        ("likelihood", table, table),  # ORLR
        ("assign", table, 0), ("label_sums", 0, table), ("gram", 8 * 100, 8 * 100**2),  # MIMLCA
    ]:  # fmt: skip
        assert down <= crossed[method][0] < down + small
        assert up <= crossed[method][1] < up + small


# --- clusters of instances, and machines of classes, on a Dask cluster


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"affinity": "nearest_neighbors", "n_neighbors": 12},
        {"affinity": "landmark", "n_landmarks": 20, "n_neighbors": 5},
    ],
)
@pytest.mark.parametrize("as_sparse", [False, True])
def test_spectral_clustering_agrees(client, options, as_sparse, monkeypatch):
    monkeypatch.setattr(_placed_rows, "BLOCK", 300)  # of 45 rows
    bags, sets = with_label_sets(80)
    if as_sparse:
        bags = bags.with_instances(sparse.csr_array(bags.instances))
    model = BagConstrainedSpectralClustering(5, random_state=0, **options)
    here = model.fit(bags, sets)
    names = ["eigenvalues_", "embedding_", "cluster_class_shares_"]
    expected = {name: getattr(here, name) for name in names}
    labels, answers = here.labels_, here.predict_instances(bags)
    away = bags.distribute(client, npartitions=3)
    there = model.fit(away, sets)
    for name, value in expected.items():
        np.testing.assert_allclose(getattr(there, name), value, rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(there.labels_, labels)
    np.testing.assert_array_equal(there.predict_instances(away), answers)


def test_neighbours_are_found_again_when_a_worker_is_lost(client, monkeypatch):
    bags, sets = with_label_sets(80)
    model = BagConstrainedSpectralClustering(5, affinity="nearest_neighbors", random_state=0)
    expected = model.fit_predict(bags, sets)
    monkeypatch.setattr(_placed_rows, "BLOCK", 300)
    away = bags.distribute(client, npartitions=2)
    real, calls = ClusterParts.each, []

    def each(self, method, *args):
        calls.append(method)
        if calls.count("search") == 2 and method == "search":
            kill_a_worker(away)
        return real(self, method, *args)

    monkeypatch.setattr(ClusterParts, "each", each)
    np.testing.assert_array_equal(model.fit_predict(away, sets), expected)
    assert calls.count("begin") == 2


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("as_sparse", [False, True])
def test_wellsvm_agrees(client, n_classes, as_sparse):
    bags, y = example(60, n_classes=n_classes)
    if as_sparse:
        bags = bags.with_instances(sparse.csr_array(bags.instances))
    away = bags.distribute(client, npartitions=2)
    here, there = WellMISVM().fit(bags, y), WellMISVM().fit(away, y)
    for name in ("coef_", "intercept_", "objective_curve_"):
        assert relative(getattr(there, name), getattr(here, name)) < 1e-9
    for name in ANSWERS:
        np.testing.assert_allclose(
            getattr(there, name)(away), getattr(here, name)(bags), atol=1e-9
        ) if name in ("decision_function", "score_instances") else (
            np.testing.assert_array_equal(getattr(there, name)(away), getattr(here, name)(bags))
        )
    for found, expected in zip(there.label_vectors_, here.label_vectors_, strict=True):
        np.testing.assert_array_equal(found, expected)
    with pytest.raises(InputError, match="kernel='linear'"):
        WellMISVM(kernel="rbf").fit(away, y)


# --- memory-mapped files -------------------------------------------------------------------------


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


@pytest.mark.parametrize("model", [ORedLogisticRegression(max_iter=2), MIMLCA(max_iter=2)])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_mapped_table_of_label_sets_is_read_in_blocks(model, tmp_path, rng, monkeypatch):
    for module in (column_span, mimlca):
        monkeypatch.setattr(module, "BLOCK", 2**17)
    monkeypatch.setattr(orlr, "BLOCK", 2**15)
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


def test_a_large_mapped_table_of_integers_is_refused(tmp_path, monkeypatch):
    bags, y = example(30)
    whole = bags.with_instances((10 * bags.instances).astype(np.int16))
    model = PrimalDualMISVM(random_state=0)
    expected = model.fit(whole, y).coef_
    np.testing.assert_array_equal(model.fit(mapped(whole, tmp_path), y).coef_, expected)
    monkeypatch.setattr(_validation.instances, "LARGEST_CONVERTED", 100)
    with pytest.raises(InputError, match=r"int16.*read_bags\(\.\.\., dtype='float32'\)"):
        model.fit(mapped(whole, tmp_path), y)


# --- faults and checkpoints ----------------------------------------------------------------------


def solve(bags, codes, track=iter, path=None, exact=False):
    return primal_dual(
        LinearSpace(bags), codes, 3, C=1.0, mu=1e-2, rho=1.1, max_iter=40, tol=0.0, exact=exact,
        shared=False, mask_own_class=True, fit_intercept=True, weights=np.ones(len(codes)),
        rng=np.random.RandomState(0), track=track, checkpoint=path,
    )  # fmt: skip


def kill_a_worker(bags):
    """End the process that holds the first partition."""
    holder = bags.holders()[0]["workers"][0]
    os.kill(bags._client.run(os.getpid, workers=[holder])[holder], signal.SIGKILL)


class KillAWorker:
    """Ends the process of a worker in the middle of a fit."""

    def __init__(self, bags, at=10):
        self.bags, self.at, self.seen = bags, at, []

    def __call__(self, turns):
        for turn in turns:
            if turn == self.at and self.at not in self.seen:
                kill_a_worker(self.bags)
            self.seen.append(turn)
            yield turn


@pytest.mark.parametrize("saving", [False, True])
def test_a_fit_survives_the_loss_of_a_worker(client, saving, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "INTERVAL", 0.0)
    monkeypatch.setattr(checkpoint, "SHARE", np.inf)
    bags, y = example(40, n_classes=3)
    codes = np.unique(y, return_inverse=True)[1]
    path = tmp_path / "fit.npz" if saving else None
    away = bags.distribute(client, npartitions=2)
    killer = KillAWorker(away)
    expected = solve(away, codes)
    found = solve(away, codes, killer, path)
    np.testing.assert_array_equal(found.solution[0], expected.solution[0])
    np.testing.assert_array_equal(found.objective_curve, expected.objective_curve)
    # The turn is taken again: from the checkpoint, or from the start.
    assert killer.seen.count(10) >= 2
    assert killer.seen.count(2) == (1 if saving else 2)
    assert not list(tmp_path.iterdir())


def test_nobody_waits_for_a_worker_that_is_gone(client, monkeypatch):
    from bagwise.engines import cluster

    monkeypatch.setattr(cluster, "WATCH", 0.1)
    gone = "tcp://127.0.0.1:1"
    never = client.submit(abs, 1, workers=[gone], pure=False)
    with pytest.raises(OSError, match="is gone"):
        cluster._wait(client, [never], {gone})
    assert cluster._results(client, [client.submit(abs, -1, pure=False)], {gone}) == [1]


def test_a_part_that_lost_its_state_says_so():
    pytest.importorskip("distributed")
    from bagwise.engines.cluster import _Cell, _unpack

    cell = _Cell(_Counter, None, [], {})
    assert _unpack(cell.call(0, "add", (2,))) == 2
    assert _unpack(cell.call(1, "add", (3,))) == 5
    fresh = _Cell(_Counter, None, [], {})
    with pytest.raises(WorkerLostError):
        _unpack(fresh.call(2, "add", (1,)))
    with pytest.raises(TypeError):
        _unpack(fresh.call(0, "add", ("text",)))


class _Counter:
    def __init__(self, bags, start=0):
        self.value = start

    def add(self, value):
        self.value += value
        return self.value

    def identity(self):
        return "counter"

    def state(self):
        return {"value": np.array(self.value)}

    def restore(self, state):
        self.value = int(state["value"])


def test_a_fit_that_loses_workers_again_and_again_gives_up(tmp_path):
    parts = LocalParts(_Counter(None))

    def step(now):
        raise WorkerLostError("gone.")

    with pytest.raises(WorkerLostError, match=r"Gave up after 5 attempts.*fit\.npz"):
        iterate(
            parts,
            {},
            lambda now: None,
            step,
            max_iter=9,
            checkpoint=Checkpoint(tmp_path / "fit.npz", ()),
        )


KILLED = """
import os, signal, sys
import numpy as np
sys.path[:0] = {path!r}
from bagwise.engines import checkpoint
from checks import example
from test_engines import solve

checkpoint.INTERVAL, checkpoint.SHARE = 0.0, np.inf

def track(turns):
    for turn in turns:
        if turn == {at}:
            os.kill(os.getpid(), signal.SIGKILL)
        yield turn

bags, y = example(40, n_classes=3)
solve(bags.to("cpu") if {tensor} else bags, np.unique(y, return_inverse=True)[1], track, {file!r},
      exact={exact})
"""


@pytest.mark.parametrize(("tensor", "exact"), [(False, True), (True, False)])
def test_a_killed_process_continues_where_it_was(tensor, exact, tmp_path):
    if tensor:
        pytest.importorskip("torch")
    file = tmp_path / "fit.npz"
    script = KILLED.format(path=sys.path, at=17, file=str(file), tensor=tensor, exact=exact)
    ended = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=False)
    assert ended.returncode == -signal.SIGKILL
    bags, y = example(40, n_classes=3)
    codes = np.unique(y, return_inverse=True)[1]
    bags = bags.to("cpu") if tensor else bags
    turns = []
    found = solve(bags, codes, lambda items: map(turns.append, items), file, exact=exact)
    expected = solve(bags, codes, exact=exact)
    assert turns == [0, *range(18, 40)]  # the file is read in the first turn
    np.testing.assert_array_equal(found.solution[0], expected.solution[0])
    np.testing.assert_array_equal(found.solution[1], expected.solution[1])
    np.testing.assert_array_equal(found.objective_curve, expected.objective_curve)
    assert not file.exists()


KILLED_WHILE_SAVING = """
import os, signal, sys
import numpy as np
sys.path[:0] = {path!r}
from bagwise.engines import checkpoint
from test_engines import MODELS, with_label_sets

checkpoint.INTERVAL, checkpoint.SHARE = 0.0, np.inf
saved, save = [], checkpoint.Checkpoint.save

def save_and_die(self, *args):
    save(self, *args)
    saved.append(args)
    if len(saved) == 4:
        os.kill(os.getpid(), signal.SIGKILL)

checkpoint.Checkpoint.save = save_and_die
bags, sets = with_label_sets()
MODELS[{model!r}].set_params(checkpoint={file!r}).fit(bags.to("cpu") if {tensor} else bags, sets)
"""

MODELS = {
    "orlr": ORedLogisticRegression(),
    "orlr-em": ORedLogisticRegression(solver="em", max_iter=3),
    "orlr-gem": ORedLogisticRegression(solver="gem", max_iter=5),
    "mimlca": MIMLCA(n_init=3, random_state=0),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("model", "tensor"),
    [(name, False) for name in MODELS] + [("orlr", True), ("mimlca", True)],
)
def test_a_killed_fit_of_label_sets_continues(model, tensor, tmp_path, monkeypatch):
    if tensor:
        pytest.importorskip("torch")
    file = tmp_path / "fit.npz"
    script = KILLED_WHILE_SAVING.format(path=sys.path, model=model, file=str(file), tensor=tensor)
    ended = subprocess.run([sys.executable, "-c", script], check=False)
    assert ended.returncode == -signal.SIGKILL
    monkeypatch.setattr(checkpoint, "INTERVAL", 0.0)
    monkeypatch.setattr(checkpoint, "SHARE", np.inf)
    saved, save = [], Checkpoint.save
    monkeypatch.setattr(Checkpoint, "save", lambda *args: saved.append(save(*args)))
    bags, sets = with_label_sets()
    bags = bags.to("cpu") if tensor else bags

    def fitted(path):
        del saved[:]
        fit = clone(MODELS[model]).set_params(checkpoint=path).fit(bags, sets)
        arrays = [v for v in vars(fit).values() if isinstance(v, np.ndarray)]
        return arrays, len(saved)

    found, n_more = fitted(file)
    expected, n_all = fitted(tmp_path / "other.npz")
    assert n_more == n_all - 4  # from where it was
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)
    assert not list(tmp_path.iterdir())


def test_a_search_that_takes_another_way_leaves_the_journal(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "INTERVAL", 0.0)
    parts, path = LocalParts(_Counter(None)), tmp_path / "fit.npz"

    def journal():
        return Journal(parts, Checkpoint(path, "settings"))

    first, one, two = journal(), np.ones(2), np.full(2, 2.0)
    first.ask("f", one, lambda: (1.0, one))
    first.ask("f", two, lambda: (2.0, two))
    again = journal()
    assert again.ask("f", one, lambda: (9.0, two))[0] == 1.0
    assert again.ask("g", two, lambda: (9.0, two))[0] == 9.0
    assert journal().ask("f", one, lambda: (9.0, two))[0] == 1.0
    again.close()
    assert not path.exists()


def test_a_checkpoint_of_another_fit_is_refused(tmp_path):
    bags, y = example(30)
    path = tmp_path / "fit.npz"
    model = PrimalDualMISVM(C=1, random_state=0, checkpoint=path, max_iter=30)
    codes = np.zeros(30, np.int64)
    parts = place(
        bags, Part, codes, np.ones(30), n_classes=2, shared=False, mask=True, cost=1.0
    )  # fmt: skip
    parts.total("begin", np.zeros((2, 4)))
    Checkpoint(path, "other settings").save({"W": np.zeros((2, 4))}, parts)
    with pytest.raises(InputError, match="belongs to another fit"):
        model.fit(bags, y)
    path.write_bytes(b"no archive")
    with pytest.raises(InputError, match="not a checkpoint"):
        model.fit(bags, y)


def test_a_checkpoint_is_seldom_written_and_removed_at_the_end(tmp_path):
    saved = []

    class Watched(Checkpoint):
        def save(self, memory, parts):
            super().save(memory, parts)
            saved.append(memory["n_iter"])

    def step(now):
        parts.total("add", 1)
        return False

    parts = LocalParts(_Counter(None))
    end = iterate(
        parts,
        {},
        lambda now: None,
        step,
        max_iter=50,
        checkpoint=Watched(tmp_path / "fit.npz", ()),
    )
    assert end["n_iter"] == parts.part.value == 50
    assert saved == []
    assert not list(tmp_path.iterdir())


# --- small pieces ---------------------------------------------------------------------------------


def test_answers_are_added():
    assert add([(1, np.ones(2)), (2, np.ones(2)), (3, np.ones(2))])[0] == 6
    assert add([None, None]) is None
    first = np.ones(3)
    add([first, first, first])
    np.testing.assert_array_equal(first, 1)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=6), st.integers(0, 1000))
@settings(deadline=None, max_examples=15)
def test_reductions_on_tensors_are_those_on_arrays(sizes, seed):
    torch = pytest.importorskip("torch")
    from bagwise.engines import tensors

    offsets = np.concatenate([[0], np.cumsum(sizes)])
    values = np.random.default_rng(seed).integers(0, 4, (offsets[-1], 2)).astype(float)
    bag = torch.as_tensor(np.repeat(np.arange(len(sizes)), sizes))
    table = torch.as_tensor(values)
    first, second, row = segments.top2(values, offsets)
    tops, rows = tensors.top_three(table, bag, len(sizes))
    np.testing.assert_array_equal(tops[0], first)
    np.testing.assert_array_equal(tops[1], second)
    np.testing.assert_array_equal(rows[0], row + offsets[:-1, None])
    np.testing.assert_array_equal((rows[1] < 0).all(1), np.array(sizes) == 1)
    third = [np.sort(v, axis=0)[-3] if len(v) > 2 else [-np.inf] * 2 for v in
             np.split(values, offsets[1:-1])]  # fmt: skip
    np.testing.assert_array_equal(tops[2], third)
    np.testing.assert_array_equal(
        tensors.segment_sum(table, bag, len(sizes)), segments.sum(values, offsets)
    )


# --- files


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
    assert all(loader.on_worker for loader in data.bags._loaders)
    np.testing.assert_array_equal(data.y, y)
    np.testing.assert_array_equal(data.bags.ids, bags.ids)
    np.testing.assert_array_equal(data.bags.collect().instances, bags.instances)
    kill_a_worker(data.bags)  # and read them again
    np.testing.assert_array_equal(data.bags.collect().instances, bags.instances)
    table = pq.read_table(small)
    order = np.random.default_rng(0).permutation(len(table))
    pq.write_table(table.take(pa.array(order)), tmp_path / "mixed.parquet")
    mixed = read_bags(tmp_path / "mixed.parquet", client=client, memory_limit="1GB")
    assert not any(loader.on_worker for loader in mixed.bags._loaders)
    assert mixed.bags.collect().n_instances == bags.n_instances


def test_other_files_are_read_here_and_mapped_there(client, tmp_path):
    bags, y = example(12)
    write_bags(tmp_path / "bags.npz", bags, y=y, compress=False)
    data = read_bags(tmp_path / "bags.npz", client=client, memory_limit=0)
    assert all(loader.on_worker for loader in data.bags._loaders)
    np.testing.assert_array_equal(data.bags.collect().instances, bags.instances)


def test_mapped_instances_are_standardised_into_a_file(tmp_path, monkeypatch):
    monkeypatch.setattr(preprocessing, "BLOCK", 40)
    bags, y = example(30)
    scaler = preprocessing.InstanceTransformer(StandardScaler())
    expected = scaler.fit_transform(bags).instances
    found = scaler.fit(mapped(bags, tmp_path), y).transform(mapped(bags, tmp_path)).instances
    assert _validation.is_mapped(found)
    np.testing.assert_allclose(found, expected, atol=1e-12)


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
    model = make_pipeline(scaler, PrimalDualMISVM(C=1, random_state=0))
    here = model.fit(bags, y).predict(bags)
    np.testing.assert_array_equal(model.fit(away, y).predict(away), here)
    with pytest.raises(InputError, match="no partial_fit"):
        preprocessing.InstanceTransformer(PCA()).fit(away)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("bags.csv", {}),
        ("bags.parquet", {}),
        ("folder", {"format": "hdf5"}),
        ("small.npz", {}),
        ("bags.npz", {"compress": False}),
    ],
)
@pytest.mark.parametrize("method", ["pdmisvm", "orlr", "mimlca"])
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
        command += ["--checkpoint", str(tmp_path / "state.npz"), "-o", str(output)]
        found = CliRunner().invoke(app, command)
        assert found.exit_code == 0, found.output
        models.append(load_model(output)[0])
    first, second = (model.predict(bags) for model in models)
    np.testing.assert_array_equal(first, second)
    assert not (tmp_path / "state.npz").exists()
    assert "state.npz" not in repr(models[0].get_params())


def test_the_command_line_says_which_methods_have_no_checkpoint(tmp_path):
    pytest.importorskip("skops")
    bags, y = example(10)
    write_bags(tmp_path / "bags.npz", bags, y=y)
    command = ["fit", str(tmp_path / "bags.npz"), "-m", "nsk", "--checkpoint", "state.npz"]
    found = CliRunner().invoke(app, [*command, "-o", str(tmp_path / "model.skops")])
    assert found.exit_code != 0
    assert "no parameter 'checkpoint'" in str(found.exception) + found.output
