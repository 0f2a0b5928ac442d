"""Spectral clustering with bag constraints, against its formulas written out."""

import tracemalloc
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import linalg, sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.manifold import spectral_embedding
from sklearn.metrics import adjusted_rand_score
from sklearn.metrics.pairwise import rbf_kernel

import bag_constraint_oracle as oracle
from bagwise import Bags
from bagwise.cluster import BagConstrainedSpectralClustering
from bagwise.cluster._affinity import (
    FactoredSimilarity,
    local_scaling,
    near_anchors,
    neighbor_graph,
    pick_landmarks,
)
from bagwise.exceptions import InputError
from bagwise.solvers.spectral import (
    class_shares,
    constrain,
    embed,
    extension,
    leading_eigenvectors,
    unit_rows,
)
from cases import each

CONSTRAINTS = ("bag", "bag_as_printed")
OPTIONS = {"alpha": 0.7}


def labelled_bags(seed=0, n_bags=9, n_classes=3):
    """A symmetric similarity, the bag of each instance, and label sets of all kinds."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 4, n_bags)
    W = rng.random((sizes.sum(), sizes.sum()))
    W = W + W.T
    np.fill_diagonal(W, 0)
    label_sets = rng.integers(0, 2, (n_bags, n_classes)).astype(np.int8)
    label_sets[0] = -1  # nothing is known
    label_sets[1] = 0  # no label at all
    label_sets[2] = label_sets[3] = [1, 0, 0][:n_classes] + [0] * (n_classes - 3)
    label_sets[4] = [1, 1, 0][:n_classes] + [0] * (n_classes - 3)
    return W, np.repeat(np.arange(n_bags), sizes), label_sets


def blobs(n_bags=40, seed=0, spread=0.4, n_classes=3):
    """Bags of instances of classes that are well apart, with their true classes."""
    rng = np.random.default_rng(seed)
    centers = 6 * np.eye(n_classes, 4)
    classes = [rng.integers(n_classes, size=rng.integers(1, 5)) for _ in range(n_bags)]
    arrays = [centers[c] + spread * rng.normal(size=(len(c), 4)) for c in classes]
    sets = [{f"c{c}" for c in inside} for inside in classes]
    return Bags.from_arrays(arrays), sets, np.concatenate(classes)


# --- The operator -------------------------------------------------------------------------------


@each("form", [np.asarray, sparse.csr_array])
@each("constraints", CONSTRAINTS)
def test_the_operator_is_the_matrix_written_out(constraints, form):
    W, bag_index, label_sets = labelled_bags()
    Q = {"bag": oracle.quadruple_sum, "bag_as_printed": oracle.as_printed}[constraints]
    h = W.sum(axis=1) ** -0.5
    operator = constrain(form(W), bag_index, label_sets, constraints=constraints, **OPTIONS)
    expected = (W + operator.alpha * Q(bag_index, label_sets)) * np.outer(h, h)
    np.testing.assert_allclose(operator.toarray(), expected, atol=1e-12)


def test_the_printed_matrix_is_not_the_sum_it_stands_for():
    _, bag_index, label_sets = labelled_bags()
    label_sets = np.maximum(label_sets, 0)
    gap = oracle.as_printed(bag_index, label_sets) - oracle.quadruple_sum(bag_index, label_sets)
    assert np.abs(gap).max() > 0.1


def test_unlabelled_bags_are_neither_drawn_nor_pushed():
    W, bag_index, label_sets = labelled_bags()
    unknown = bag_index == 0
    h = W.sum(axis=1) ** -0.5
    for constraints, untouched in [("bag", True), ("bag_as_printed", False)]:
        operator = constrain(W, bag_index, label_sets, constraints=constraints, **OPTIONS)
        rows = (operator.toarray() - W * np.outer(h, h))[unknown]
        assert np.allclose(rows, 0) == untouched


@each("constraints", [*CONSTRAINTS, None])
def test_without_labels_or_weight_it_is_plain(constraints):
    W, bag_index, label_sets = labelled_bags()
    plain = constrain(W, bag_index, None, constraints=None, **OPTIONS).toarray()
    for sets in (None, np.full_like(label_sets, -1), np.zeros_like(label_sets)):
        operator = constrain(W, bag_index, sets, constraints=constraints, **OPTIONS)
        np.testing.assert_array_equal(operator.toarray(), plain)
    options = OPTIONS | {"alpha": 0.0}
    operator = constrain(W, bag_index, label_sets, constraints=constraints, **options)
    np.testing.assert_allclose(operator.toarray(), plain, atol=1e-15)


def test_on_a_graph_alpha_follows_the_degrees():
    W, bag_index, label_sets = labelled_bags()
    operator = constrain(sparse.csr_array(W), bag_index, label_sets, constraints="bag", alpha=0.7)
    F = oracle.profiles(label_sets)[bag_index]
    ratio = W.sum() / (F @ F.T).sum()
    assert operator.alpha == pytest.approx(0.7 * ratio)


def test_constraints_hold_no_matrix_of_all_instances():
    n_bags, size = 2000, 4
    n = n_bags * size
    rng = np.random.default_rng(0)
    graph = sparse.diags_array([np.ones(n - 1)] * 2, offsets=[-1, 1], format="csr")
    label_sets = rng.integers(0, 2, (n_bags, 20)).astype(np.int8)
    bag_index = np.repeat(np.arange(n_bags), size)
    tracemalloc.start()
    operator = constrain(graph, bag_index, label_sets, constraints="bag", **OPTIONS)
    operator @ np.ones((n, 1))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < n * n  # an eighth of it


# --- Eigenvectors -------------------------------------------------------------------------------


@each("constraints", [*CONSTRAINTS, None])
def test_eigenvectors_are_those_of_lapack(constraints):
    W, bag_index, label_sets = labelled_bags(n_bags=40)
    operator = constrain(W, bag_index, label_sets, constraints=constraints, **OPTIONS)
    result = leading_eigenvectors(operator, 3, np.random.RandomState(0), tol=1e-10)
    vectors, values = result.solution
    expected = linalg.eigh(operator.toarray())
    np.testing.assert_allclose(values, expected[0][::-1][:3], atol=1e-8)
    projector = expected[1][:, -3:] @ expected[1][:, -3:].T
    np.testing.assert_allclose(vectors @ vectors.T, projector, atol=1e-6)
    assert result.converged
    assert result.objective_curve[-1] == pytest.approx(values.sum())
    assert (np.diff(result.objective_curve) >= -1e-12).all()


def test_residuals_are_within_the_tolerance():
    W, bag_index, label_sets = labelled_bags(n_bags=60)
    operator = constrain(W, bag_index, label_sets, constraints="bag", **OPTIONS)
    result = leading_eigenvectors(operator, 6, np.random.RandomState(0), tol=1e-3)
    vectors, values = result.solution
    residuals = np.linalg.norm(operator @ vectors - values * vectors, axis=0)
    assert (residuals <= 1e-3 * np.maximum(values, 0.01 * values[0])).all()
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(6), atol=1e-12)


@each("n_parts", [3, 20])
def test_an_eigenvalue_is_found_as_often_as_it_occurs(n_parts):
    # Separate parts: 1 is an eigenvalue of each; a single Lanczos vector would see it once.
    part = sparse.csr_array(np.ones((12, 12)) - np.eye(12))
    W = sparse.block_diag([part] * n_parts, format="csr")
    operator = constrain(W, np.arange(12 * n_parts), None, constraints=None, **OPTIONS)
    result = leading_eigenvectors(operator, n_parts, np.random.RandomState(0), tol=1e-3)
    np.testing.assert_allclose(result.solution[1], 1, atol=1e-6)
    assert result.converged


@each("n_more", [0, 1, 2])
def test_hardly_more_instances_than_vectors(n_more):
    W, bag_index, label_sets = labelled_bags()
    n = len(W)
    operator = constrain(W, bag_index, label_sets, constraints="bag", **OPTIONS)
    rng = np.random.RandomState(0)
    vectors, values = leading_eigenvectors(operator, n - n_more, rng, tol=1e-3).solution
    assert vectors.shape == (n, n - n_more)
    np.testing.assert_allclose(values, linalg.eigvalsh(operator.toarray())[::-1][: n - n_more])


def test_a_spent_budget_is_told():
    bags, sets, _ = blobs(n_bags=60, spread=3.0)
    model = BagConstrainedSpectralClustering(6, tol=1e-14, max_iter=1, random_state=0)
    with pytest.warns(ConvergenceWarning, match="max_iter=1"):
        model.fit(bags, sets)
    assert np.isfinite(model.embedding_).all()


def test_plain_embedding_spans_that_of_scikit_learn():
    X = np.random.default_rng(0).normal(size=(80, 3))
    W, _ = local_scaling(X)
    operator = constrain(W, np.arange(80), None, constraints=None, **OPTIONS)
    vectors, _ = leading_eigenvectors(operator, 5, np.random.RandomState(0), tol=1e-10).solution
    theirs = spectral_embedding(
        W, n_components=5, drop_first=False, eigen_solver="arpack", random_state=0
    )
    ours = linalg.orth(vectors)
    theirs = linalg.orth(np.sqrt(operator.degrees)[:, None] * theirs)
    cosines = linalg.svdvals(ours.T @ theirs)
    np.testing.assert_allclose(cosines, 1, atol=1e-8)


# --- Similarities -------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_local_scaling_is_its_definition(dtype, monkeypatch):
    monkeypatch.setattr("bagwise.cluster._affinity.BLOCK", 7)  # several blocks
    X = np.random.default_rng(0).normal(size=(30, 4)).astype(dtype) + 10
    W, scales = local_scaling(X)
    expected, expected_scales = oracle.local_scaling(X.astype(float))
    assert W.dtype == dtype
    tolerance = 1e-12 if dtype == np.float64 else 1e-4
    np.testing.assert_allclose(W, expected, atol=tolerance)
    np.testing.assert_allclose(scales, expected_scales, rtol=tolerance)
    np.testing.assert_allclose(W, W.T, rtol=4 * np.finfo(dtype).eps)
    np.testing.assert_allclose(local_scaling(sparse.csr_array(X))[0], W, atol=tolerance)


def test_the_graph_is_local_scaling_between_neighbours():
    X = np.random.default_rng(0).normal(size=(50, 4))
    W, scales = neighbor_graph(X, 8, approximate=False, seed=0)
    dense, expected_scales = oracle.local_scaling(X)
    D = np.linalg.norm(X[:, None] - X, axis=2)
    near = np.sort(D, axis=1)[:, [8]] >= D
    expected = np.where(near | near.T, dense, 0)
    np.testing.assert_allclose(W.toarray(), expected, atol=1e-12)
    np.testing.assert_allclose(scales, expected_scales)


def test_landmark_similarities_have_degree_one():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(60, 3))
    landmarks = pick_landmarks(Bags(X, [0, 60]), np.arange(60), 12, rng)
    Z = near_anchors(X, landmarks, 4)
    W = FactoredSimilarity(Z)
    dense = Z.toarray() @ np.diag(1 / Z.toarray().sum(axis=0)) @ Z.toarray().T
    np.testing.assert_allclose(W @ np.eye(60), dense, atol=1e-12)
    np.testing.assert_allclose(W.sum(axis=1), 1)
    assert linalg.eigvalsh(dense).min() > -1e-12


@pytest.mark.slow  # pynndescent compiles for half a minute
def test_approximate_neighbours_are_nearly_the_exact_ones():
    pytest.importorskip("pynndescent", reason="the extra ann is not installed")
    X = np.random.default_rng(0).normal(size=(2000, 5)).astype(np.float32)
    exact = neighbor_graph(X, 10, approximate=False, seed=0)[0]
    nearly = neighbor_graph(X, 10, approximate=True, seed=0)[0]
    common = (exact > 0).multiply(nearly > 0).nnz
    assert common > 0.9 * exact.nnz
    assert nearly.diagonal().max() == 0


def test_a_matrix_beyond_the_memory_is_refused():
    X = np.broadcast_to(np.zeros((1, 1)), (10_000_000, 1))
    with pytest.raises(InputError, match=r"800000\.0 GB.*nearest_neighbors"):
        local_scaling(X)


# --- The estimator ------------------------------------------------------------------------------


@each("affinity", ["local_scaling", "nearest_neighbors", "landmark", rbf_kernel])
@each("constraints", ["auto", "bag", "bag_as_printed", None])
def test_well_separated_classes_are_found(constraints, affinity):
    bags, sets, truth = blobs()
    model = BagConstrainedSpectralClustering(
        3, constraints=constraints, affinity=affinity, n_landmarks=30, random_state=0
    )
    found = model.fit_predict(bags, sets)
    assert adjusted_rand_score(truth, found) == 1
    assert (model.cluster_classes_[found] == np.char.add("c", truth.astype(str))).all()
    new, _, new_truth = blobs(seed=1)
    named = model.cluster_classes_[model.predict_instances(new)]
    assert (named == np.char.add("c", new_truth.astype(str))).all()


def test_labels_part_what_features_cannot():
    # Two modes per class, all four equally far apart: only labels know which belong together.
    rng = np.random.default_rng(0)
    mode = rng.integers(4, size=200)
    X = 6 * np.eye(4)[mode] + 0.3 * rng.normal(size=(200, 4))
    bags = Bags(X, np.arange(0, 201, 2))
    classes = mode // 2
    sets = [set(classes[2 * i : 2 * i + 2].tolist()) for i in range(100)]
    model = BagConstrainedSpectralClustering(2, alpha=2.0, random_state=0)
    assert adjusted_rand_score(classes, model.fit_predict(bags, sets)) == 1
    finer = BagConstrainedSpectralClustering(4, random_state=0)
    assert adjusted_rand_score(mode, finer.fit_predict(bags, sets)) == 1
    assert (finer.cluster_classes_[finer.labels_] == classes).all()
    assert finer.cluster_class_shares_.max(axis=1).min() > 0.99


def test_precomputed_similarities_are_taken_as_they_are():
    bags, sets, _ = blobs()
    W, _ = local_scaling(np.asarray(bags.instances))
    direct = BagConstrainedSpectralClustering(3, random_state=0).fit(bags, sets)
    for similarity in (W, sparse.csr_array(W)):
        model = BagConstrainedSpectralClustering(3, affinity="precomputed", random_state=0)
        model.fit(Bags(similarity, bags.offsets), sets)
        assert adjusted_rand_score(model.labels_, direct.labels_) == 1
        np.testing.assert_array_equal(model.predict_instances(similarity), model.labels_)
    assert W.diagonal().max() == 0


@each(
    ("similarity", "message"),
    [
        (np.ones((4, 3)), "shape \\(4, 3\\)"),
        (np.triu(np.ones((4, 4))), "symmetric"),
        (-np.ones((4, 4)), "negative"),
    ],
)
def test_unusable_similarities_are_refused(similarity, message):
    model = BagConstrainedSpectralClustering(2, affinity="precomputed")
    with pytest.raises(InputError, match=message):
        model.fit(similarity)


def test_the_extension_at_old_instances_is_the_embedding():
    # Plain: with the rows of W itself the Nystroem formula is the eigenvalue equation.
    W, bag_index, _ = labelled_bags(n_bags=30)
    operator = constrain(W, bag_index, None, constraints=None, **OPTIONS)
    rng = np.random.RandomState(0)
    vectors, values = leading_eigenvectors(operator, 3, rng, tol=1e-12).solution
    assert (values > 0).all()
    for weighted in (True, False):
        at_anchors = extension(operator, vectors, values, weighted=weighted)
        expected = embed(vectors, values, weighted=weighted)
        np.testing.assert_allclose(unit_rows(W @ at_anchors), expected, atol=1e-8)


# --- Edges --------------------------------------------------------------------------------------


@each("affinity", ["local_scaling", "nearest_neighbors", "landmark"])
def test_duplicates_are_together(affinity):
    X = np.repeat(np.random.default_rng(0).normal(size=(3, 2)), 20, axis=0)
    model = BagConstrainedSpectralClustering(3, affinity=affinity, random_state=0)
    labels = model.fit_predict(Bags(X, np.arange(0, 61, 2)))
    assert np.isfinite(model.embedding_).all()
    assert adjusted_rand_score(labels, np.repeat(np.arange(3), 20)) == 1


@each("affinity", ["local_scaling", "nearest_neighbors"])
def test_an_outlier_beyond_all_scales(affinity):
    X = np.vstack([np.random.default_rng(0).normal(size=(40, 2)), [[1e9, 0]]])
    sets = [{"a"}] * 20 + [{"b"}] * 21
    model = BagConstrainedSpectralClustering(2, affinity=affinity, random_state=0).fit(X, sets)
    assert np.isfinite(model.embedding_).all()
    assert np.isfinite(model.eigenvalues_).all()


def test_an_isolated_instance_follows_its_bag():
    W = np.kron(np.eye(2), np.ones((10, 10)))
    W = np.pad(W, ((0, 1), (0, 1)))
    sets = [{"a"}] * 10 + [{"b"}] * 11
    model = BagConstrainedSpectralClustering(2, affinity="precomputed", random_state=0).fit(W, sets)
    assert model.labels_[20] == model.labels_[19] != model.labels_[0]


@settings(max_examples=25, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=8),
    n_clusters=st.integers(1, 4),
    seed=st.integers(0, 99),
    constraints=st.sampled_from(["posterior", "bag", "bag_as_printed", None]),
    affinity=st.sampled_from(["local_scaling", "nearest_neighbors", "landmark"]),
)
def test_any_bags_give_finite_answers(sizes, n_clusters, seed, constraints, affinity):
    rng = np.random.default_rng(seed)
    bags = Bags.from_arrays([rng.integers(0, 6, (size, 5)).astype(float) for size in sizes])
    if affinity == "landmark":
        constraints = "bag"
    sets = rng.integers(0, 2, (len(bags), 3))
    sets[rng.random(len(bags)) < 0.3] = -1
    model = BagConstrainedSpectralClustering(
        n_clusters, constraints=constraints, affinity=affinity, random_state=0
    )
    if bags.n_instances < n_clusters:
        with pytest.raises(InputError, match="less than n_clusters"):
            model.fit(bags, sets)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # k-means: rows may coincide
        labels = model.fit_predict(bags, sets)
    assert labels.shape == (bags.n_instances,)
    assert np.isfinite(model.embedding_).all()
    assert set(model.predict_instances(bags)) <= set(range(n_clusters))


# --- Classes of clusters ------------------------------------------------------------------------


def test_class_shares_maximise_the_likelihood():
    rng = np.random.default_rng(0)
    clusters = rng.integers(0, 2, 60)
    truth = np.where(rng.random(60) < 0.8, clusters, 2)
    candidates = rng.random((60, 3)) < 0.4
    candidates[np.arange(60), truth] = True
    candidates[:5] = False  # nothing is known of these
    shares = class_shares(clusters, candidates, 2, tol=1e-10, max_iter=5000)
    for k in range(2):
        rows = candidates[(clusters == k) & candidates.any(axis=1)].astype(float)
        # At the maximum over the simplex the gradient is at most n, and n where a share is
        # positive.
        gradient = rows.T @ (1 / (rows @ shares[k]))
        assert gradient.max() <= len(rows) * (1 + 1e-3)
        assert gradient[shares[k] > 1e-3] == pytest.approx(len(rows), rel=1e-3)
    assert shares.sum(axis=1) == pytest.approx(1)


def test_a_cluster_without_labelled_instances_has_no_shares():
    shares = class_shares(np.array([0, 1]), np.array([[True, False], [False, False]]), 2)
    np.testing.assert_array_equal(shares, [[1, 0], [0, 0]])
    assert class_shares(np.array([0]), np.zeros((1, 2), bool), 1).sum() == 0


def test_large_sets_are_clustered_from_a_sample(monkeypatch):
    monkeypatch.setattr("bagwise.solvers.spectral.KMEANS_SAMPLE", 20)
    bags, sets, truth = blobs(n_bags=150)
    found = BagConstrainedSpectralClustering(3, random_state=0).fit_predict(bags, sets)
    assert adjusted_rand_score(truth, found) == 1
