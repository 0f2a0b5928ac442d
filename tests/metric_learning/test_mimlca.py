"""MIMLCA against literal implementations of the formulas of its paper."""

import itertools
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import linear_sum_assignment
from sklearn.base import clone
from sklearn.cluster import DBSCAN
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.preprocessing import StandardScaler

from bagwise import Bags
from bagwise.datasets import load_letter_carroll
from bagwise.exceptions import DataNotFoundError, InputError, LabelError
from bagwise.metric_learning import MIMLCA, MLCA, MildML, MIMLMetric, MultiInstanceKMeans
from bagwise.preprocessing import InstanceTransformer
from bagwise.solvers.metric.mimlca import kernel_features, mimlca
from bagwise.solvers.metric.multi_instance_kmeans import Candidates
from cases import each
from reproduction import bag_data


def example(n_bags=30, n_labels=4, n_features=5, seed=0, spread=0.3):
    """Bags of one to four instances around the centres of their labels, some labels wrong."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(n_labels, n_features)) * 2
    arrays, label_sets, truth = [], np.zeros((n_bags, n_labels), dtype=int), []
    for i in range(n_bags):
        labels = rng.choice(n_labels, rng.integers(1, 4), replace=False)
        arrays.append(centres[labels] + spread * rng.normal(size=(len(labels), n_features)))
        truth.append(labels)
        label_sets[i, labels] = 1
    label_sets[0, :] = 1  # more labels than instances
    label_sets[1, label_sets[1].argmax()] = 0  # fewer, perhaps none
    return Bags.from_arrays(arrays), label_sets, np.concatenate(truth)


def one_hot(assigned, n_labels):
    H = np.zeros((len(assigned), n_labels))
    H[np.flatnonzero(assigned >= 0), assigned[assigned >= 0]] = 1
    return H


def projection(X, center):
    X = np.asarray(X, dtype=float) - (np.mean(X, axis=0) if center else 0)
    return X @ np.linalg.pinv(X, rcond=1e-10)


def lloyd(X, bags, label_sets, center):
    """Algorithm 1 from the deterministic start, bag by bag with SciPy's assignment."""
    X = np.asarray(X, dtype=float) - (np.mean(X, axis=0) if center else 0)
    left, singular, _ = np.linalg.svd(X, full_matrices=False)
    U = left[:, singular > 1e-10 * singular[0]]
    k = label_sets.shape[1]
    Z, weight = np.zeros((k, U.shape[1])), np.zeros(k)
    for i, rows in enumerate(np.split(np.arange(len(U)), bags.offsets[1:-1])):
        w = 1 / max(len(rows), label_sets[i].sum())
        for c in np.flatnonzero(label_sets[i]):
            Z[c] += w * U[rows].sum(axis=0)
            weight[c] += w * len(rows)
    Z /= np.maximum(weight, 1e-300)[:, None]
    assigned, curve = None, []
    while True:
        found, total = np.full(len(U), -1), 0.0
        for i, rows in enumerate(np.split(np.arange(len(U)), bags.offsets[1:-1])):
            labels = np.flatnonzero(label_sets[i])
            cost = ((U[rows][:, None] - Z[labels]) ** 2).sum(axis=2)
            a, b = linear_sum_assignment(cost)
            found[rows[a]] = labels[b]
            total += cost[a, b].sum()
        curve.append(total)
        if assigned is not None and (found == assigned).all():
            return assigned, np.array(curve)
        assigned = found
        for c in range(k):
            if (assigned == c).any():
                Z[c] = U[assigned == c].mean(axis=0)


def learned(bags, label_sets, **options):
    """The solver with settings that the estimator does not have, and its fitted attributes."""
    candidates = Candidates.from_indicator(bags.offsets, np.asarray(label_sets), one_each=True)
    rng = np.random.RandomState(0)
    result = mimlca(bags, candidates, rng=rng, **options)
    found = dict(zip(MIMLCA._solution, result.solution, strict=True))
    return SimpleNamespace(objective_curve_=result.objective_curve, **found)


@each("center", [True, False])
@each("seed", range(4))
def test_assignments_are_those_of_the_algorithm_written_out(center, seed):
    bags, label_sets, _ = example(seed=seed, spread=2.0)
    model = learned(bags, label_sets, center=center)
    expected, curve = lloyd(bags.instances, bags, label_sets, center)
    np.testing.assert_array_equal(model.assignments_, expected)
    np.testing.assert_allclose(model.objective_curve_, curve, rtol=1e-9)


def best_assignment(P, offsets, label_sets):
    """Brute force over all of Q^V: the smallest objective."""
    choices = []
    for i, labels in enumerate(label_sets):
        found = np.flatnonzero(labels)
        p = min(int(offsets[i + 1] - offsets[i]), len(found))
        choices.append(
            [
                (rows, some)
                for rows in itertools.combinations(range(offsets[i], offsets[i + 1]), p)
                for some in itertools.permutations(found, p)
            ]
        )
    best = np.inf
    for choice in itertools.product(*choices):
        assigned = np.full(len(P), -1)
        for rows, labels in choice:
            assigned[list(rows)] = labels
        H = one_hot(assigned, label_sets.shape[1])
        best = min(best, np.trace((np.diag(H.sum(axis=1)) - H @ np.linalg.pinv(H)) @ P))
    return best


def test_restarts_find_the_best_of_all_assignments():
    bags, label_sets, _ = example(n_bags=5, n_labels=3, n_features=2, seed=4, spread=1.0)
    model = MIMLCA(n_init=40, random_state=0).fit(bags, label_sets)
    best = best_assignment(projection(bags.instances, True), bags.offsets, label_sets)
    np.testing.assert_allclose(model.objective_curve_[-1], best, rtol=1e-9)
    assert model.objective_curve_[-1] < MIMLCA().fit(bags, label_sets).objective_curve_[-1]


@settings(deadline=None, max_examples=25)
@given(
    n_bags=st.integers(2, 20),
    n_labels=st.integers(2, 5),
    seed=st.integers(0, 1000),
    several=st.booleans(),
)
def test_laws_of_assignments(n_bags, n_labels, seed, several):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 5, n_bags)
    bags = Bags(rng.normal(size=(sizes.sum(), 3)), np.concatenate([[0], np.cumsum(sizes)]))
    label_sets = rng.integers(0, 2, (n_bags, n_labels))
    label_sets[0, 0] = 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = MIMLCA(instances_per_label=None if several else 1).fit(bags, label_sets)
    assert (np.diff(model.objective_curve_) <= 1e-9).all()
    for i, assigned in enumerate(bags.split(model.assignments_)):
        taken = assigned[assigned >= 0]
        assert label_sets[i, taken].all()
        if several:
            assert len(taken) == (len(assigned) if label_sets[i].any() else 0)
        else:
            assert len(taken) == len(np.unique(taken)) == min(sizes[i], label_sets[i].sum())


@each("center", [True, False])
def test_objective_is_that_of_the_projections(center):
    bags, label_sets, _ = example(seed=5)
    model = learned(bags, label_sets, center=center)
    H = one_hot(model.assignments_, 4)
    A = np.eye(len(H)) + H @ np.linalg.pinv(H) - np.diag(H.sum(axis=1))
    np.testing.assert_allclose(A @ A, A, atol=1e-12)  # a projection
    P = projection(bags.instances, center)
    rank = np.linalg.matrix_rank(P)
    np.testing.assert_allclose(model.objective_curve_[-1], rank - np.sum(A * P), rtol=1e-9)


@each("center", [True, False])
def test_map_is_the_pseudo_inverse_times_the_normalised_assignment(center):
    bags, label_sets, _ = example(seed=6)
    model = learned(bags, label_sets, center=center)
    inside = model.assignments_ >= 0
    assert not inside.all()
    H = one_hot(model.assignments_, 4)[inside]
    J = H / np.sqrt(np.maximum(H.sum(axis=0), 1))
    X = bags.instances - model.mean_
    L = np.linalg.pinv(X[inside]) @ J
    np.testing.assert_allclose(model.components_, L.T, rtol=1e-8, atol=1e-10)
    M = np.linalg.pinv(X[inside]) @ H @ np.linalg.pinv(H) @ np.linalg.pinv(X[inside]).T
    np.testing.assert_allclose(model.components_.T @ model.components_, M, rtol=1e-8, atol=1e-10)


def test_map_is_the_shortest_where_unassigned_rows_take_a_direction_with_them():
    rng = np.random.default_rng(0)
    bags, label_sets, _ = example(seed=7)
    wide = Bags.from_arrays(
        [np.hstack([bag, np.zeros((len(bag), 1))]) for bag in bags]
        + [np.hstack([rng.normal(size=(2, 5)), np.ones((2, 1))])]
    )
    label_sets = np.vstack([label_sets, np.zeros((1, 4), dtype=int)])
    model = learned(wide, label_sets, center=False)
    inside = model.assignments_ >= 0
    assert not wide.instances[inside, 5].any()
    assert wide.instances[~inside, 5].any()
    H = one_hot(model.assignments_, 4)[inside]
    J = H / np.sqrt(np.maximum(H.sum(axis=0), 1))
    expected = np.linalg.pinv(wide.instances[inside]) @ J
    np.testing.assert_allclose(model.components_, expected.T, rtol=1e-7, atol=1e-10)


def test_assignments_depend_on_the_span_only():
    bags, label_sets, _ = example(seed=9, spread=1.0)
    rng = np.random.default_rng(0)
    T = rng.normal(size=(5, 5)) * np.array([1e-6, 1.0, 1e3, 1e6, 1.0])
    moved = bags.with_instances(bags.instances @ T)
    plain, other = (learned(b, label_sets, center=False) for b in (bags, moved))
    np.testing.assert_array_equal(plain.assignments_, other.assignments_)
    np.testing.assert_allclose(plain.objective_curve_, other.objective_curve_, rtol=1e-6)


def test_linear_kernel_is_the_linear_version():
    bags, label_sets, _ = example(seed=10)
    linear = MIMLCA().fit(bags, label_sets)
    as_kernel = MIMLCA(np.dot, n_components=5)
    as_kernel.fit(bags, label_sets)
    np.testing.assert_array_equal(as_kernel.assignments_, linear.assignments_)
    rows = example(seed=11)[0]
    np.testing.assert_allclose(
        as_kernel.transform(rows).instances, linear.transform(rows).instances, atol=1e-9
    )
    for rule in ("centroid", "projection"):
        np.testing.assert_array_equal(
            as_kernel.predict_instances(rows, rule), linear.predict_instances(rows, rule)
        )


def test_singletons_with_one_label_are_mlca():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 40)
    X = rng.normal(size=(40, 4)) + y[:, None]
    for kernel in ("linear", "rbf"):
        ours, known = MIMLCA(kernel).fit(X, y), MLCA(kernel).fit(X, y)
        np.testing.assert_array_equal(ours.assignments_, y)
        np.testing.assert_allclose(ours.components_, known.components_)
        np.testing.assert_allclose(ours.transform(X), known.transform(X))


@each("kernel", ["rbf", "laplacian"])
def test_kernel_of_full_rank_warns_and_does_not_degenerate(kernel):
    data = load_letter_carroll(0)
    bags = InstanceTransformer(StandardScaler()).fit_transform(data.bags)
    jitter = np.random.default_rng(0).normal(scale=0.1, size=bags.instances.shape)
    bags = bags.with_instances(bags.instances + jitter)  # no two letters are equal
    with pytest.warns(UserWarning, match="leading ones are used"):
        model = MIMLCA(kernel).fit(bags, data.label_sets)
    assigned = model.assignments_ >= 0
    assert np.mean(model.assignments_[assigned] == data.instance_labels[assigned]) > 0.8
    assert model.n_iter_ > 2
    with pytest.warns(UserWarning, match="Lower n_components"):
        features, _ = kernel_features(pairwise_kernels(bags.instances, metric=kernel))
        features = bags.with_instances(features)
        n = bags.n_instances
        degenerate = learned(features, data.label_sets, center=False, n_components=n)
    # U = I: every assignment costs the number of assigned instances less that of clusters.
    n_clusters = len(np.unique(degenerate.assignments_)) - 1
    np.testing.assert_allclose(degenerate.objective_curve_[-1], assigned.sum() - n_clusters)


def test_fewer_instances_than_features_warns_and_truncates():
    bags, label_sets, _ = example(n_bags=10, n_features=60, seed=1)
    thin = bags.with_instances(sparse.csr_array(bags.instances))
    with pytest.warns(UserWarning, match="leading directions are used"):
        model, same = (MIMLCA().fit(b, label_sets) for b in (bags, thin))
    assert model.components_.shape == (4, 60)
    assert np.linalg.matrix_rank(model.components_) <= 8
    np.testing.assert_allclose(same.components_, model.components_, atol=1e-9)


def test_rank_deficient_instances():
    bags, label_sets, _ = example(seed=2)
    X = bags.instances
    doubled = bags.with_instances(np.hstack([X, X[:, [0]] + 2 * X[:, [1]], np.ones((len(X), 1))]))
    plain, wide = (MIMLCA().fit(b, label_sets) for b in (bags, doubled))
    np.testing.assert_array_equal(wide.assignments_, plain.assignments_)
    np.testing.assert_allclose(
        wide.transform(doubled).instances, plain.transform(bags).instances, atol=1e-8
    )
    inside = wide.assignments_ >= 0
    H = one_hot(wide.assignments_, 4)[inside]
    J = H / np.sqrt(np.maximum(H.sum(axis=0), 1))
    X = (doubled.instances - wide.mean_)[inside]
    expected = np.linalg.pinv(X, rcond=1e-9) @ J  # the shortest of all maps that fit
    np.testing.assert_allclose(wide.components_, expected.T, rtol=1e-6, atol=1e-9)


def test_bad_scales_keep_the_basis_orthonormal():
    bags, label_sets, _ = example(seed=4)
    scales = 10.0 ** np.arange(-6, 9, 3)
    plain = MIMLCA().fit(bags, label_sets)
    scaled = MIMLCA().fit(bags.with_instances(bags.instances * scales), label_sets)
    np.testing.assert_allclose(scaled.objective_curve_, plain.objective_curve_, rtol=1e-9)
    single = (bags.instances * 10.0 ** np.arange(-4, 6, 2)).astype(np.float32)
    single_fit = MIMLCA().fit(bags.with_instances(single), label_sets)
    np.testing.assert_allclose(single_fit.objective_curve_, plain.objective_curve_, rtol=1e-3)


def test_empty_categories_are_never_predicted():
    rng = np.random.default_rng(0)
    bags = Bags(rng.normal(size=(40, 3)) + 4, np.arange(41))
    label_sets = np.zeros((40, 5), dtype=int)
    label_sets[np.arange(40), rng.integers(0, 2, 40)] = 1
    label_sets[0, 2] = 1  # loses to the other label, or takes its only instance
    model = MIMLCA().fit(bags, label_sets)
    empty = np.flatnonzero(model.category_sizes_ == 0)
    assert {3, 4} <= set(empty)
    near_zero = np.vstack([np.zeros((5, 3)), rng.normal(size=(50, 3))])
    for rule in ("centroid", "projection"):
        for alpha in (0.0, 0.5, 5.0):
            named = model.predict_instances(near_zero, rule, alpha)
            assert not np.isin(named, empty).any()
    assert not model.components_[empty].any()


def test_bags_without_labels_stay_unassigned():
    bags, label_sets, _ = example(seed=12)
    label_sets[3] = 0
    label_sets[4] = -1
    parts = bags.split(MIMLCA().fit(bags, label_sets).assignments_)
    assert (parts[3] == -1).all()
    assert (parts[4] == -1).all()
    with pytest.raises(LabelError, match="no bag has a label"):
        MIMLCA().fit(bags, np.zeros_like(label_sets))


@each("n_labels", [4, 9])  # fewer and more than features
def test_prediction_rules_written_out(n_labels):
    bags, label_sets, _ = example(80, n_labels, seed=13)
    model = MIMLCA().fit(bags, label_sets)
    rows = example(n_labels=n_labels, seed=14)[0].instances
    mapped = (rows - model.mean_) @ model.components_.T
    centroids = np.array(
        [bags.instances[model.assignments_ == c].mean(axis=0) for c in range(n_labels)]
    )
    np.testing.assert_allclose(model.centroids_, centroids)
    metric = model.get_metric()
    nearest = [np.argmin([metric(row, z) for z in centroids]) for row in rows]
    np.testing.assert_array_equal(model.predict_instances(rows), nearest)
    for alpha in (0.0, 0.25, 1.0):
        norms = ((centroids - model.mean_) @ model.components_.T) ** 2
        scores = mapped - alpha * norms.sum(axis=1)
        np.testing.assert_array_equal(
            model.predict_instances(rows, "projection", alpha), scores.argmax(axis=1)
        )
    with pytest.raises(InputError, match="rule is 'nearest'"):
        model.predict_instances(rows, "nearest")


LEARNERS = [MIMLCA(), MIMLCA("rbf", n_components=6), MultiInstanceKMeans()]


@each("learner", LEARNERS)
def test_metric_axioms(learner):
    bags, label_sets, _ = example(seed=15)
    metric = learner.fit(bags, label_sets).get_metric()
    points = np.random.default_rng(0).normal(size=(6, 5))
    D = np.array([[metric(a, b) for b in points] for a in points])
    assert (D >= 0).all()
    assert not D.diagonal().any()
    np.testing.assert_allclose(D, D.T)
    for a, b, c in itertools.permutations(range(6), 3):
        assert D[a, c] <= D[a, b] + D[b, c] + 1e-12
    mapped = learner.transform(points)
    np.testing.assert_allclose(
        D, np.linalg.norm(mapped[:, None] - mapped, axis=2), rtol=1e-6, atol=1e-9
    )
    assert DBSCAN(metric=metric, eps=1.0).fit(points).labels_.shape == (6,)
    with pytest.raises(InputError, match="two vectors of 5 features"):
        metric([1.0], [2.0])


def test_clustering_in_a_given_metric_is_that_of_mapped_instances():
    bags, label_sets, _ = example(seed=16, spread=1.5)
    components = np.random.default_rng(0).normal(size=(3, 5))
    ours = MultiInstanceKMeans(components).fit(bags, label_sets)
    in_space = bags.with_instances(bags.instances @ components.T)
    mapped = MultiInstanceKMeans().fit(in_space, label_sets)
    np.testing.assert_array_equal(ours.assignments_, mapped.assignments_)
    with pytest.raises(InputError, match="components has shape"):
        MultiInstanceKMeans(components[:, :2]).fit(bags, label_sets)
    whole = learned(bags, label_sets, center=False)
    _, singular, right = np.linalg.svd(bags.instances, full_matrices=False)
    whitening = right / singular[:, None]  # M = X^+ (X^+)', Theorem 2.1
    same = MultiInstanceKMeans(whitening).fit(bags, label_sets)
    np.testing.assert_array_equal(same.assignments_, whole.assignments_)


def test_budget_is_kept_and_told():
    bags, label_sets, _ = example(seed=0, spread=2.0)
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        model = MIMLCA(max_iter=1).fit(bags, label_sets)
    assert model.n_iter_ == len(model.objective_curve_) == 1


def test_ties_are_broken_and_end():
    bags = Bags(np.ones((6, 2)), [0, 3, 6])
    model = learned(bags, np.ones((2, 2), dtype=int), center=False, n_components=1)
    assert [(part >= 0).sum() for part in bags.split(model.assignments_)] == [2, 2]
    nothing = MIMLCA().fit(bags, np.ones((2, 2), dtype=int))  # centred: no direction is left
    assert not nothing.components_.any()
    assert nothing.predict_instances(bags).shape == (6,)


@each("seed", range(3))
def test_letters_are_found(seed):
    data = load_letter_carroll(seed)
    model = MIMLCA().fit(data.bags, data.label_sets)
    assigned = model.assignments_ >= 0
    assert np.mean(model.assignments_[assigned] == data.instance_labels[assigned]) > 0.8


@each(
    ("load", "several", "goal"),
    [
        (bag_data.load_letter_carroll_redraw, False, 0.87),
        (bag_data.load_msrcv2, False, 0.76),
        (bag_data.load_hja_birdsong, True, 0.85),
    ],
)
def test_instances_of_known_sets_are_given_their_own_label(load, several, goal):
    try:
        data = load()
    except DataNotFoundError:
        pytest.skip("the data are not in the data home")
    model = MIMLCA(instances_per_label=None if several else 1).fit(data.bags, data.label_sets)
    assigned = model.assignments_ >= 0
    assert np.mean(model.assignments_[assigned] == data.instance_labels[assigned]) >= goal


def test_few_kernel_directions_of_many_are_the_leading_ones():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1200, 3))
    y = (X[:, 0] > 0).astype(int)
    model = MLCA("rbf", n_components=20).fit(X, y)
    gram = np.exp(-np.square(X[:, None] - X).sum(axis=2) / 3)
    values = np.linalg.eigvalsh(gram)[-20:]
    features = gram @ model.kernel_map_
    np.testing.assert_allclose(features.T @ features, np.diag(values), atol=1e-6 * values[-1])


@each("model", [MIMLCA(kernel="rbf"), MLCA(kernel="rbf")])
def test_a_kernel_matrix_that_does_not_fit_is_refused_before_it_is_made(model):
    """200,000 instances ended in a MemoryError of numpy."""
    X = np.zeros((200_000, 1))
    X[::2] = 1
    with pytest.raises(InputError, match=r"kernel matrix of 200,000 instances .* 960\.0 GB"):
        model.fit(X, np.arange(200_000) % 2)


@each("learner", [MIMLCA(), MIMLCA("rbf"), MLCA(), MIMLMetric(), MildML()])
def test_numpy_integers_are_numbers_of_components(learner):
    bags, label_sets, _ = example(seed=18)
    y = label_sets.argmax(axis=1) if isinstance(learner, MLCA) else label_sets
    found, expected = (
        clone(learner).set_params(n_components=n).fit(bags, y) for n in (np.int64(2), 2)
    )
    np.testing.assert_array_equal(found.components_, expected.components_)
