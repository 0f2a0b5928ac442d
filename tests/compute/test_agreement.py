"""All engines give the same model: in memory, mapped file, cluster, device."""

import re
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.utils._testing import set_random_state

from bagwise import Bags
from bagwise.annotation import NoisyOrLogisticRegression, ORedLogisticRegression
from bagwise.classification import PrimalDualMISVM, SetKernelSVM, WellMISVM
from bagwise.cluster import BagConstrainedSpectralClustering
from bagwise.embedding import BagStatistics, RandomFourierEmbedding
from bagwise.exceptions import InputError
from bagwise.labels import LabelCounts
from bagwise.metric_learning import MIMLCA, MultiInstancePLDA
from cases import each
from checks import example
from engine_examples import ANSWERS, relative, with_label_sets
from estimators import public_estimators

# A few iterations tell engines apart as well as many; each is two rounds on a cluster.
FEW = {"max_iter": 25}
STANDARD = {"assumption": "standard", "mu": 1e-2, "rho": 1.2} | FEW
of_both_assumptions = each("options", [FEW, STANDARD])


@each(
    ("options", "n_classes", "tolerance"),
    [
        ({"solver": "exact"} | FEW, 3, 1e-9),
        ({"solver": "inexact"} | FEW, 2, 1e-9),
        ({"solver": "exact"} | STANDARD, 3, 1e-5),
        ({"solver": "inexact"} | STANDARD, 2, 1e-5),
    ],
)
@pytest.mark.filterwarnings("ignore:PrimalDualMISVM did not converge")
def test_engines_agree(move, options, n_classes, tolerance, rng):
    bags, y = example(40, n_classes=n_classes)
    test, _ = example(20, n_classes=n_classes, seed=1)
    weights = rng.uniform(0.5, 2, len(bags))
    model = PrimalDualMISVM(C=1, random_state=0, **options)
    here = model.fit(bags, y, sample_weight=weights)
    expected = here.coef_, here.intercept_, here.objective_curve_, here.residuals_
    answers = [getattr(here, name)(test) for name in ANSWERS]
    there = model.fit(move(bags), y, sample_weight=weights)
    found = there.coef_, there.intercept_, there.objective_curve_, there.residuals_
    for a, b in zip(found, expected, strict=True):
        assert isinstance(a, np.ndarray)
        assert a.shape == b.shape
        assert relative(a, b) < min(tolerance, 1e-8)
    moved = move(test)
    for name, answer in zip(ANSWERS, answers, strict=True):
        again = getattr(there, name)(moved)
        assert isinstance(again, np.ndarray)
        np.testing.assert_allclose(again, answer, atol=tolerance) if again.dtype.kind == "f" else (
            np.testing.assert_array_equal(again, answer)
        )


@of_both_assumptions
@pytest.mark.filterwarnings("ignore:PrimalDualMISVM did not converge")
def test_engines_agree_on_tied_instances_and_in_single_precision(move, options, rng):
    X = rng.integers(-1, 2, size=(200, 3)).astype(float)  # most bags hold equal instances
    bags, y = Bags(X, np.arange(0, 201, 5)), np.arange(40) % 2
    model = PrimalDualMISVM(
        **{"C": 0.1, "tol": 0.5, "random_state": 0} | options | {"max_iter": 15}
    )
    assert relative(model.fit(move(bags), y).coef_, model.fit(bags, y).coef_) < 1e-6
    bags, y = example(40, dtype=np.float32)
    model.set_params(C=1, max_iter=25)
    expected, found = model.fit(bags, y).coef_, model.fit(move(bags), y).coef_
    assert found.dtype == np.float32
    assert relative(found, expected) < 1e-2


@pytest.mark.filterwarnings("ignore:PrimalDualMISVM did not converge")
def test_engines_agree_on_label_sets(move):
    bags, sets = with_label_sets(n_bags=40, n_classes=3)
    sets[::5] = 0  # background bags
    model = PrimalDualMISVM(C=1, **STANDARD)
    expected = model.fit(bags, sets).coef_
    assert relative(model.fit(move(bags), sets).coef_, expected) < 1e-6


def test_bad_values_are_found_where_they_are(put):
    bags, y = example(30)
    table = np.array(bags.instances)
    table[bags.offsets[20], 2] = np.nan
    with pytest.raises(InputError, match=r"contains NaN: bag .*'b20'.*feature 2"):
        PrimalDualMISVM().fit(put(bags.with_instances(table)), y)


def test_models_of_one_process_say_so(client):
    bags, y = example(30)
    with pytest.raises(InputError, match=r"SetKernelSVM works on arrays.*bags\.collect\(\)"):
        SetKernelSVM().fit(bags.distribute(client), y)
    with pytest.raises(InputError, match="kernel='linear'"):
        PrimalDualMISVM(kernel="rbf").fit(bags.distribute(client), y)
    with pytest.raises(InputError, match="on a cluster: use"):
        _ = bags.distribute(client).instances


@pytest.mark.filterwarnings("ignore:PrimalDualMISVM did not converge")
def test_bags_without_weight_or_labels_are_left_out_everywhere(move):
    bags, y = example(40, n_classes=3)
    weights = np.ones(len(bags))
    weights[[3, 4, 21]] = 0
    away = move(bags)
    model = PrimalDualMISVM(C=1, random_state=0, **FEW)
    expected = model.fit(bags, y, sample_weight=weights).coef_
    assert relative(model.fit(away, y, sample_weight=weights).coef_, expected) < 1e-9
    bags, sets = with_label_sets(n_features=3)
    sets[5] = -1
    weights = np.ones(len(bags))
    weights[[0, 40]] = 0
    model = ORedLogisticRegression(reg=10.0, tol=1e-9)
    expected = model.fit(bags, sets, sample_weight=weights).coef_
    assert relative(model.fit(move(bags), sets, sample_weight=weights).coef_, expected) < 1e-6


@pytest.mark.filterwarnings("ignore:.*approximated by belief propagation:UserWarning")
def test_orlr_keeps_to_its_operations_everywhere(move):
    bags, sets = with_label_sets(n_features=3)
    exact = ORedLogisticRegression(reg=10.0, tol=1e-9).fit(bags, sets)
    model = ORedLogisticRegression(reg=10.0, tol=1e-9, max_operations=50.0)
    here = model.fit(bags, sets)
    expected, answers = here.coef_, here.annotate_proba(bags, sets)
    assert len(here.approximate_bags_) > 10
    assert relative(expected, exact.coef_) > 1e-5  # the limit matters
    away = move(bags)
    there = model.fit(away, sets)
    assert relative(there.coef_, expected) < 1e-6
    np.testing.assert_allclose(there.annotate_proba(away, sets), answers, atol=1e-6)


def what_it_says(model, bags):
    """The answers of a fitted model for bags in this process."""
    if hasattr(model, "labels_"):
        return [model.labels_]
    methods = ("decision_function", "score_instances", "predict_proba", "transform")
    found = [getattr(model, name)(bags) for name in methods if hasattr(model, name)]
    return [getattr(value, "instances", value) for value in found]


@pytest.mark.parametrize("engine", ["cluster", "tensor"])
def test_every_model_gives_the_same_answers_there_or_says_where_it_can(engine, request):
    bags, y = example(30)
    if engine == "tensor":
        pytest.importorskip("torch")
        away, way = bags.to("cpu"), r"to\('numpy'\)"
    else:
        client = request.getfixturevalue("client")
        away, way = bags.distribute(client, npartitions=2), r"collect\(\)"
    messages = {}
    for estimator in public_estimators():
        here, there = estimator(), estimator()
        for model in (here, there):
            set_random_state(model, 0)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                there.fit(away, y)
                here.fit(bags, y)
        except InputError as error:
            messages[estimator.__name__] = str(error)
            continue
        for found, expected in zip(
            what_it_says(there, bags), what_it_says(here, bags), strict=True
        ):
            assert relative(found, expected) < 1e-6, estimator.__name__
    able = {estimator.__name__ for estimator in public_estimators()} - messages.keys()
    anywhere = {"PrimalDualMISVM", "ORedLogisticRegression", "MIMLCA", "MultiInstancePLDA"}
    anywhere |= {"NoisyOrLogisticRegression"}
    clusters = {"BagConstrainedSpectralClustering", "InstanceTransformer"}
    clusters |= {"BagStatistics", "InstancePCA", "RandomFourierEmbedding", "WellMISVM"}
    assert able == anywhere | (clusters if engine == "cluster" else {"AttentionMIL"})
    unclear = [m for m in messages.values() if not re.search(f"{way}|works on rows", m)]
    assert not unclear


@of_both_assumptions
@pytest.mark.filterwarnings("ignore:PrimalDualMISVM did not converge")
def test_a_sparse_fit_on_a_cluster(client, options):
    bags, y = example(30)
    thin = bags.with_instances(sparse.csr_array(bags.instances))
    model = PrimalDualMISVM(C=1, random_state=0, **options)
    expected = model.fit(bags, y).coef_
    assert relative(model.fit(thin.distribute(client), y).coef_, expected) < 1e-6


@each(
    "model",
    [BagStatistics(("mean", 0.9, "size")), RandomFourierEmbedding(n_components=50, random_state=0)],
)
def test_embeddings_are_computed_on_the_workers(model, client):
    bags, _ = example(30)
    for table in (bags.instances, sparse.csr_array(bags.instances)):
        here = bags.with_instances(table)
        away = here.distribute(client, npartitions=2)
        found = model.fit(away).transform(away)
        np.testing.assert_allclose(found, model.fit_transform(here), atol=1e-10)


WITH_KERNEL = {"kernel": "rbf", "n_components": 20, "reg": 1.0, "random_state": 0}
WRONG_SETS = {"missing": 0.1, "spurious": 0.05}


COUNTED = {"reg": 20.0}
UNKNOWN = {"missing": 0.1, "reg": 20.0}


@each("options", [{}, {"background": True}, WITH_KERNEL, WRONG_SETS, COUNTED, UNKNOWN])
def test_orlr_agrees(move, options):
    bags, sets = with_label_sets(n_features=3)
    if "background" in options:
        sets = sets[:, :-1]  # the last class goes unnamed
    if options is UNKNOWN:
        sets[::2, :2] = -1
    if options is COUNTED:
        limits = np.where(sets == 1, 3, np.where(np.arange(5) == 1, -1, 0))
        sets = LabelCounts(sets, limits)
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


@each("options", [{}, WITH_KERNEL])
def test_noisy_or_agrees(move, options):
    bags, sets = with_label_sets(n_features=3)
    sets[5] = -1
    model = NoisyOrLogisticRegression(**({"reg": 10.0, "tol": 1e-9} | options))
    here = model.fit(bags, sets)
    expected = here.coef_, here.objective_curve_, here.annotate_proba(bags, sets)
    shown = here.annotate_sets(bags, sets)
    away = move(bags)
    there = model.fit(away, sets)
    assert relative(there.coef_, expected[0]) < 1e-6
    assert relative(there.objective_curve_, expected[1]) < 1e-6
    np.testing.assert_allclose(there.annotate_proba(away, sets), expected[2], atol=1e-6)
    np.testing.assert_array_equal(there.annotate_sets(away, sets), shown)
    likely = there.log_likelihood(away, sets)
    np.testing.assert_allclose(likely, there.log_likelihood(bags, sets), atol=1e-6)


@each("options", [{}, {"background": 9}, {"background": 9} | WRONG_SETS])
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


MIMLCA_OPTIONS = [
    {},
    {"instances_per_label": None},
    {"n_components": 3},
    {"n_init": 3, "random_state": 0},
]


@each("options", MIMLCA_OPTIONS)
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


@each("options", [{}, {"effects": "fixed", "null": True}, {"instances_per_label": 1, "null": True}])
def test_mimlca_by_likelihood_agrees(move, options):
    bags, sets = with_label_sets()
    sets[7] = -1
    model = MultiInstancePLDA(**options)
    here = model.fit(bags, sets)
    names = ["components_", "mean_", "objective_curve_", "assignment_probabilities_"]
    expected = {name: getattr(here, name) for name in names}
    answers = here.predict_instances(bags), here.annotate(bags, sets), here.predict_proba(bags)
    away = move(bags)
    there = model.fit(away, sets)
    for name, value in expected.items():
        np.testing.assert_allclose(getattr(there, name), value, rtol=1e-6, atol=1e-7)
    np.testing.assert_array_equal(there.predict_instances(away), answers[0])
    np.testing.assert_array_equal(there.annotate(away, sets), answers[1])
    np.testing.assert_allclose(there.predict_proba(away), answers[2], atol=1e-7)


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


@each(
    "options",
    [
        {},  # the posteriors of ORLR
        {"constraints": "bag"},
        {"constraints": None, "affinity": "nearest_neighbors", "n_neighbors": 12},
        {"affinity": "landmark", "n_landmarks": 20, "n_neighbors": 5},
    ],
)
@each("as_sparse", [False, True])
def test_spectral_clustering_agrees(client, options, as_sparse):
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


@each(
    ("n_classes", "as_sparse", "kernel"),
    [(2, False, "linear"), (3, True, "linear"), (3, False, "rbf"), (2, True, "rbf")],
)
def test_wellsvm_agrees(client, n_classes, as_sparse, kernel):
    bags, y = example(60, n_classes=n_classes)
    if as_sparse:
        bags = bags.with_instances(sparse.csr_array(bags.instances))
    away = bags.distribute(client, npartitions=2)
    model = WellMISVM(kernel=kernel)
    here, there = clone(model).fit(bags, y), clone(model).fit(away, y)
    for name in ("coef_" if kernel == "linear" else "dual_coef_", "intercept_", "objective_curve_"):
        assert relative(getattr(there, name), getattr(here, name)) < 1e-9
    for name in ANSWERS:
        np.testing.assert_allclose(
            getattr(there, name)(away), getattr(here, name)(bags), atol=1e-9
        ) if name in ("decision_function", "score_instances") else (
            np.testing.assert_array_equal(getattr(there, name)(away), getattr(here, name)(bags))
        )
    for found, expected in zip(there.label_vectors_, here.label_vectors_, strict=True):
        np.testing.assert_array_equal(found, expected)
