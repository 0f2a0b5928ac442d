import time

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.metrics import pairwise_distances
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS, pairwise_kernels

from bagwise import Bags, pairwise
from bagwise._common import memory
from bagwise.base import in_canonical_order
from bagwise.embedding._prototypes import distinct_instances, similarity_to
from bagwise.exceptions import InputError, NotEnoughMemoryError
from bagwise.loops import threads
from bagwise.pairwise import (
    bag_distances,
    bag_kernel,
    distances_between,
    instance_kernel,
    kernel_width,
    minimax_statistics,
    with_shared_distances,
)
from cases import covering, each

POOL = {
    "minmin": lambda D: D.min(),
    "maxmin": lambda D: D.min(axis=1).max(),
    "meanmin": lambda D: D.min(axis=1).mean(),
    "hausdorff": lambda D: max(D.min(axis=1).max(), D.min(axis=0).max()),
}


def draw(rng, n_bags, dtype=float):
    return [rng.normal(size=(rng.integers(1, 7), 3)).astype(dtype) for _ in range(n_bags)]


def brute_distances(A, B, kind, metric):
    return np.array([[POOL[kind](pairwise_distances(a, b, metric=metric)) for b in B] for a in A])


@pytest.fixture
def work_in_blocks(monkeypatch):
    """Choose between one piece, as for small data, and tiny blocks on threads."""

    def choose(blocks):
        if blocks:
            monkeypatch.setattr(pairwise, "BLOCK", 100)
            monkeypatch.setattr(threads, "SMALL", 0)

    return choose


@covering(
    kind=POOL,
    metric=["euclidean", "cityblock"],
    convert=[np.asarray, sparse.csr_array],
    blocks=[False, True],
)
def test_distances_equal_brute_force(rng, work_in_blocks, kind, metric, convert, blocks):
    work_in_blocks(blocks)
    A, B = draw(rng, 9), draw(rng, 7)
    convert_all = lambda bags: [convert(bag) for bag in bags]  # noqa: E731
    np.testing.assert_allclose(
        bag_distances(convert_all(A), convert_all(B), kind=kind, metric=metric),
        brute_distances(A, B, kind, metric),
        rtol=1e-12,
    )
    np.testing.assert_allclose(
        bag_distances(convert_all(A), kind=kind, metric=metric),
        brute_distances(A, A, kind, metric),
        rtol=1e-12,
        atol=1e-300,
    )


def test_close_pairs_far_from_the_origin_lose_no_digits():
    a = np.array([[1e6, 1e6]])
    b = a + np.array([[3e-6, 4e-6]])
    expected = np.linalg.norm(b - a)
    assert bag_distances([a], [b])[0, 0] == expected


@covering(kind=POOL, convert=[np.asarray, sparse.csr_array])
def test_single_precision_finds_the_nearest_pairs_of_far_clusters(rng, kind, convert):
    A = [(rng.normal(size=(8, 5)) + 1e4 * (i % 2)).astype(np.float32) for i in range(20)]
    expected = brute_distances(
        [a.astype(float) for a in A], [a.astype(float) for a in A], kind, "euclidean"
    )
    found = bag_distances([convert(a) for a in A], kind=kind)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


def by_differences(A):
    """Minimal distances by differences: scikit-learn's product loses precision by the outlier."""
    return np.array([[np.sqrt(((a[:, None] - b) ** 2).sum(axis=2)).min() for b in A] for a in A])


def test_an_outlier_does_not_spoil_the_others(rng):
    A = [rng.normal(size=(4, 3)) for _ in range(6)]
    A[0][0, 0] = 1e9
    np.testing.assert_allclose(bag_distances(A), by_differences(A), rtol=1e-6, atol=1e-6)


@each("kernel", sorted(PAIRWISE_KERNEL_FUNCTIONS))
def test_every_kernel_of_scikit_learn_goes_through(rng, kernel):
    A = [np.abs(bag) for bag in draw(rng, 4)]
    expected = [[pairwise_kernels(a, b, metric=kernel).sum() for b in A] for a in A]
    found = bag_kernel(A, kernel=kernel, normalization=None)
    if kernel not in ("poly", "polynomial", "sigmoid"):  # their coef0 differs from ours
        np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert np.isfinite(bag_kernel(A, kernel=kernel, kind="minimax")).all()


def test_a_bag_is_at_distance_zero_from_itself(rng):
    bags = draw(rng, 5, np.float32)
    for kind in POOL:
        assert (np.diag(bag_distances(bags, bags, kind=kind)) == 0).all()


@covering(
    kernel=["rbf", "linear", "poly", "laplacian"],
    normalization=["feature", "average", None],
    convert=[np.asarray, sparse.csr_array],
    blocks=[False, True],
)
def test_set_kernel_equals_brute_force(rng, work_in_blocks, kernel, normalization, convert, blocks):
    work_in_blocks(blocks)
    A, B = draw(rng, 8), draw(rng, 5)
    options = {"gamma": 0.7, "degree": 2, "coef0": 1.0}
    k = lambda a, b: pairwise_kernels(a, b, metric=kernel, filter_params=True, **options).sum()  # noqa: E731
    norm = {
        "feature": lambda bag: np.sqrt(k(bag, bag)),
        "average": len,
        None: lambda bag: 1.0,
    }[normalization]
    for left, right in ((A, B), (A, None)):
        expected = [[k(a, b) / (norm(a) * norm(b)) for b in (right or left)] for a in left]
        sets = [None if s is None else [convert(bag) for bag in s] for s in (left, right)]
        found = bag_kernel(*sets, kernel=kernel, normalization=normalization, **options)
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


def test_the_set_kernel_is_positive_semidefinite_with_unit_diagonal(rng):
    gram = bag_kernel(draw(rng, 12), gamma=0.5)
    np.testing.assert_allclose(np.diag(gram), 1)
    assert np.linalg.eigvalsh(gram).min() > -1e-12
    np.testing.assert_array_equal(gram, gram.T)


@each("convert", [np.asarray, sparse.csr_array])
def test_minimax_is_a_kernel_of_extremes(rng, convert):
    A = draw(rng, 6)
    stats = np.array([np.concatenate([bag.min(axis=0), bag.max(axis=0)]) for bag in A])
    bags = Bags.from_arrays([convert(bag) for bag in A])
    np.testing.assert_array_equal(minimax_statistics(bags), stats)
    expected = pairwise_kernels(stats, metric="poly", degree=2, gamma=1.0, coef0=1.0)
    found = bag_kernel(bags, kind="minimax", kernel="poly", degree=2, gamma=1.0)
    np.testing.assert_allclose(found, expected)


def test_a_callable_kernel_and_metric(rng):
    A = draw(rng, 4)
    dot = lambda a, b: float(a @ b)  # noqa: E731
    np.testing.assert_allclose(
        bag_kernel(A, kernel=dot), bag_kernel(A, kernel="linear"), rtol=1e-10
    )
    norm = lambda a, b: float(np.abs(a - b).sum())  # noqa: E731
    np.testing.assert_allclose(bag_distances(A, metric=norm), bag_distances(A, metric="cityblock"))


@each(
    ("call", "message"),
    [
        (lambda: bag_distances([[[0.0]]], kind="median"), "kind is 'median'"),
        (lambda: bag_kernel([[[0.0]]], kind="sum"), "kind is 'sum'"),
        (lambda: bag_kernel([[[0.0]]], normalization="l2"), "normalization is 'l2'"),
        (lambda: bag_distances([[[0.0]]], [[[0.0, 1.0]]]), "1 and 2 features"),
        (lambda: bag_distances([[[0.0]]], metric="nope"), "metric is 'nope'"),
        (lambda: bag_kernel([[[0.0]]], kernel="nope"), "kernel is 'nope'"),
        (lambda: bag_kernel([[[-1.0]]], kernel="chi2"), "chi2.*does not suit"),
        (lambda: bag_distances([sparse.eye_array(2)], metric="chebyshev"), "needs dense"),
        (lambda: bag_kernel([sparse.eye_array(2)], kernel="chi2"), "dense data is required"),
        (lambda: bag_kernel([[[0.0]]], kernel=np.zeros(3)), "kernel is"),
        (lambda: bag_distances([[[0.0]]], metric=["euclidean"]), "metric is"),
        (lambda: bag_kernel([[[0.0]]], gamma="wide"), "does not suit"),
        (lambda: bag_kernel([[[0.0]]], gamma=np.nan), "does not suit|reaches nan"),
    ],
)
def test_bad_options(call, message):
    with pytest.raises(InputError, match=message):
        call()


@each("dtype", [np.float32, np.float64])
def test_kernel_values_beyond_the_range_of_solvers_are_refused(dtype):
    bags = Bags.from_arrays([np.full((2, 3), 1e8, dtype), np.ones((1, 3), dtype)])
    with pytest.raises(InputError, match="kernel='poly' reaches"):
        bag_kernel(bags, kernel="poly", degree=50)
    with pytest.raises(InputError, match="kernel='poly' reaches nan"):
        bag_kernel(bags, kernel="poly", degree=0.5, coef0=-1e30)


@each("kind", pairwise.DISTANCES)
def test_large_bags_have_the_same_distances(rng, kind, monkeypatch):
    """One bag of 50,000 instances among small ones took minutes."""
    rows = rng.normal(size=(60, 3)).round(1)  # ties, too
    bags = Bags(rows, [0, 5, 40, 41, 60])
    plain = bag_distances(bags, kind=kind)
    monkeypatch.setattr(pairwise, "TREE_SIZE", 10)
    assert_array_equal(bag_distances(bags, kind=kind), plain)
    others = bag_distances(bags[::2], bags, kind=kind)
    assert_allclose(others, plain[::2], atol=1e-15)


@each("dtype", [np.float32, np.float64])
@each("shift", [0.0, 2.0**26])
def test_the_rbf_kernel_does_not_depend_on_the_origin(rng, shift, dtype):
    rows = (rng.integers(8, size=(20, 3)) * 8).astype(dtype)  # exact also when shifted
    expected = pairwise_kernels(rows.astype(float), metric="rbf", gamma=0.001)
    found = instance_kernel(rows + dtype(shift), rows + dtype(shift), "rbf", {"gamma": 0.001})
    assert_allclose(found, expected, rtol=1e-6)


def test_a_matrix_between_too_many_bags_is_refused(rng, monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 10**6)
    bags = Bags(np.ones((4000, 1)), np.arange(4001))
    with pytest.raises(NotEnoughMemoryError, match=r"4,000 x 4,000 bags needs 0\.1 GB"):
        bag_distances(bags)


@each("kind", ["minmin", "maxmin", "meanmin"])
def test_large_sparse_bags_of_few_features_are_searched_by_trees(rng, kind):
    table = rng.normal(size=(6003, 2)) * (rng.random((6003, 2)) < 0.5)
    dense = Bags(table, [0, 3, 3003, 6003])
    found = pairwise.bag_distances(dense.with_instances(sparse.csr_array(table)), kind=kind)
    np.testing.assert_array_equal(found, pairwise.bag_distances(dense, kind=kind))


@each("wrap", [np.asarray, sparse.csr_array])
def test_a_weight_in_the_kernel_width_counts_copies_of_a_bag(rng, wrap):
    arrays = [rng.normal(3 * i, size=(i + 1, 2)) for i in range(4)]
    bags = Bags(wrap(np.vstack(arrays)), [0, 1, 3, 6, 10])
    copies = np.array([1, 3, 0, 2])
    repeated = Bags.from_arrays([arrays[i] for i in np.repeat(np.arange(4), copies)])
    width = kernel_width("scale", bags, copies.astype(float))
    assert width == pytest.approx(kernel_width("scale", repeated))


@each("kind", ["equal rows", "rows far away"])
def test_a_tree_does_not_compare_all_pairs(rng, kind):
    # It cannot split equal rows, and rows far away are all equally far, up to rounding.
    rows, shift = rng.normal(size=(100_000, 2)), 0.0
    if kind == "equal rows":
        rows[::2] = 0.0
        bags = Bags.from_arrays([np.zeros((100_000, 2)), rows])
    else:
        shift = 1e18
        bags = Bags.from_arrays([rows + shift, rows])
    begun = time.process_time()
    distances = bag_distances(bags, kind="minmin")
    assert time.process_time() - begun < 10
    expected = shift * np.sqrt(2)
    assert_allclose(distances, [[0, expected], [expected, 0]], rtol=1e-9)


def test_selections_of_shared_bags_have_the_distances_of_these_bags(rng):
    offsets = np.r_[0, np.cumsum(rng.integers(1, 5, size=12))]
    bags = Bags(rng.integers(0, 4, size=(offsets[-1], 3)).astype(float), offsets)
    shared, y = with_shared_distances(bags), np.arange(12) % 2
    for first, second in (([3, 0, 7], [2, 3]), (np.arange(12), None), ([5, 1, 4, 6], None)):
        of_shared, plain = (
            [whole[first], None if second is None else whole[second]] for whole in (shared, bags)
        )
        for kind in POOL:
            found = distances_between(*of_shared, kind=kind)
            assert_allclose(found, distances_between(*plain, kind=kind), rtol=1e-13)
        # Rearranged, as MILES does.
        sorted_shared, sorted_plain = (
            in_canonical_order(parts[0], y[: len(first)])[0] for parts in (of_shared, plain)
        )
        similar = [
            similarity_to(distinct_instances(some, None, 0), some, 0.5)
            for some in (sorted_shared, sorted_plain)
        ]
        assert_array_equal(*similar)
    moved = shared.with_instances(2 * np.asarray(bags.instances))  # other instances share nothing
    found = distances_between(moved[:5], shared[5:], kind="minmin")
    expected = bag_distances(bags.with_instances(2 * np.asarray(bags.instances))[:5], bags[5:])
    assert_array_equal(found, expected)
