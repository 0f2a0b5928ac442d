"""Similarities of instances by local scaling: dense, on a neighbour graph, or through landmarks.

    w(p, q) = exp(-|x_p - x_q|^2 / (2 s_p s_q)),    s_p: distance of p to its t-th neighbour

(Zelnik-Manor and Perona 2004). The diagonal is 0. For each kind there is a function for the
similarity of new instances to the training instances, up to a factor per new instance, to which the
clustering is invariant.

With label sets, similarities can be weighted by the agreement of labels, W o P P', with P the
posteriors of kernel ORLR: neighbours that probably have different labels have a small similarity.
"""

import warnings
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.neighbors import NearestNeighbors

from bagwise._common.extras import import_extra
from bagwise._common.memory import require_memory
from bagwise._common.tables import slices
from bagwise._common.types import Array, Floats, Ints
from bagwise.annotation import ORedLogisticRegression
from bagwise.bags import Bags
from bagwise.base import in_canonical_order
from bagwise.base._set_kernel import rows_at
from bagwise.compute import over_partitions
from bagwise.labels import Labels
from bagwise.solvers.spectral import nearest_neighbors, neighbor_table
from bagwise.validation import check_similarity

AFFINITIES = ("auto", "local_scaling", "nearest_neighbors", "landmark", "precomputed")
MOST_DENSE = 10_000  # instances up to which "auto" compares all pairs
BLOCK = 512
AGREEMENT_BLOCK = 2**22  # values per block
SCALE_NEIGHBOR = 7  # t, as in the paper
# Lower bound on scales, as a fraction of the mean scale: duplicates are at distance 0.
NEAREST = 1e-3
SAMPLE = 20_000  # number of instances on which landmarks are fitted
# Lower bound on the agreement of a pair, which keeps every instance connected.
LEAST = 1e-3
# A tighter fit labels instances no better, and its last iterations amplify rounding errors.
ANNOTATOR_TOL = 3e-4


def compare(
    model: Any, bags: Bags, order: Ints, rng: np.random.RandomState
) -> tuple[Any, Any, Array | None]:
    """Compute the similarities of the instances.

    Parameters
    ----------
    model : BagConstrainedSpectralClustering
        Provides the parameters, and ``affinity_``.
    bags : Bags
        The bags; in this process, except for "landmark".
    order : ndarray of int of shape (n_instances,)
        The index of the instance in each row of the similarity.
    rng : RandomState
        For landmarks, and for the approximate search of neighbours.

    Returns
    -------
    similarity : ndarray, CSR or FactoredSimilarity of shape (n_instances, n_instances)
        W.
    anchors : ndarray, CSR or None
        Points with which new instances are compared.
    scales : ndarray of shape (n_anchors,) or None
        The scales of the anchors.
    """
    kind, k = model.affinity_, model.n_neighbors
    if kind == "landmark":
        landmarks = pick_landmarks(bags, order, model.n_landmarks, rng)
        weights = over_partitions(lambda some: near_anchors(some.instances, landmarks, k), bags)
        return FactoredSimilarity(weights[order]), landmarks, None
    rows = bags.instances[order]
    if kind == "precomputed" or callable(kind):
        similarity = kind(rows, rows) if callable(kind) else rows
        return check_similarity(similarity, len(order)), rows if callable(kind) else None, None
    if kind == "local_scaling":
        similarity, scales = local_scaling(rows)
        return similarity, rows, scales
    seed = rng.randint(np.iinfo(np.int32).max)
    nearly = model.neighbor_search == "approximate"
    graph, scales = neighbor_graph(rows, k, approximate=nearly, seed=seed)
    return graph, rows, scales


def compare_new(model: Any, X: Any, anchors: Any, scales: Any) -> Any:
    """Similarities of new instances to the anchors, up to a factor per row."""
    kind = model.affinity_
    if kind == "precomputed":
        return X
    if callable(kind):
        return kind(X, anchors)
    if kind == "local_scaling":
        return local_scaling_rows(X, anchors, scales)
    return near_anchors(X, anchors, model.n_neighbors, scales)


def local_scaling(X: Any) -> tuple[Array, Array]:
    """Similarity of all pairs of instances.

    Memory: the matrix itself, in the precision of the instances.

    Parameters
    ----------
    X : ndarray or CSR of shape (n_instances, n_features)
        The instances.

    Returns
    -------
    similarity : ndarray of shape (n_instances, n_instances)
        W, symmetric.
    scales : ndarray of shape (n_instances,)
        s.
    """
    n = X.shape[0]
    require_memory(
        float(n) * n * X.dtype.itemsize,
        purpose=f"the similarity of all pairs of {n:,} instances",
        remedy="use affinity='nearest_neighbors'",
    )
    if not sparse.issparse(X):  # differences are more precise near the origin
        X = X - X.mean(axis=0, dtype=np.float64).astype(X.dtype)
    W = euclidean_distances(X, squared=True)
    t = min(SCALE_NEIGHBOR, n - 1)  # an instance is its own neighbour number 0
    blocks = [W[rows] for rows in slices(n, BLOCK)]
    scales = _floored(np.sqrt(np.concatenate([np.partition(b, t, axis=1)[:, t] for b in blocks])))
    for rows, block in zip(slices(n, BLOCK), blocks, strict=True):
        block /= -2 * scales[rows, None] * scales
        np.exp(block, out=block)
    np.fill_diagonal(W, 0)
    return W, scales


def local_scaling_rows(X: Any, anchors: Any, scales: Array) -> Array:
    """Similarity of new instances to the training instances, as a dense block.

    Parameters
    ----------
    X : ndarray or CSR of shape (n_new, n_features)
        New instances.
    anchors : ndarray or CSR of shape (n_instances, n_features)
        The training instances.
    scales : ndarray of shape (n_instances,)
        Scales of the training instances.

    Returns
    -------
    ndarray of shape (n_new, n_instances)
        The largest value of each row is 1.
    """
    squared = euclidean_distances(X, anchors, squared=True)
    t = min(SCALE_NEIGHBOR, squared.shape[1]) - 1
    own = np.maximum(np.sqrt(np.partition(squared, t, axis=1)[:, t]), scales.min())
    return _from_exponents(squared / (2 * own[:, None] * scales))


def neighbor_graph(
    X: Any, n_neighbors: int, *, approximate: bool, seed: int
) -> tuple[sparse.csr_array, Array]:
    """Similarity of pairs in which one instance is among the nearest neighbours of the other.

    Parameters
    ----------
    X : ndarray or CSR of shape (n_instances, n_features)
        The instances.
    n_neighbors : int
        Number of neighbours of each instance.
    approximate : bool
        Whether to search by pynndescent: it finds almost all neighbours, in almost linear time.
    seed : int
        Seed of the approximate search.

    Returns
    -------
    similarity : CSR of shape (n_instances, n_instances)
        W, symmetric.
    scales : ndarray of shape (n_instances,)
        s.
    """
    n = X.shape[0]
    k = min(n_neighbors, n - 1)
    if k == 0:
        return sparse.csr_array((n, n), dtype=X.dtype), np.ones(n)
    distances, neighbors = _nearly_nearest(X, k, seed) if approximate else nearest_neighbors(X, k)
    scales = _floored(distances[:, min(SCALE_NEIGHBOR, k) - 1])
    exponents = distances**2 / (2 * scales[:, None] * scales[neighbors])
    weights = np.exp(-exponents).astype(X.dtype)
    graph = neighbor_table(weights, neighbors, n)
    return graph.maximum(graph.T).tocsr(), scales


def near_anchors(
    X: Any, anchors: Any, n_neighbors: int, scales: Array | None = None
) -> sparse.csr_array:
    """Connect each instance to its nearest anchors.

    Parameters
    ----------
    X : ndarray or CSR of shape (n_instances, n_features)
        The instances.
    anchors : ndarray or CSR of shape (n_anchors, n_features)
        Training instances, or landmarks.
    n_neighbors : int
        Number of anchors per instance.
    scales : ndarray of shape (n_anchors,), default=None
        Scales of the training instances. Without them the scale of an instance is the distance to
        its last landmark.

    Returns
    -------
    CSR of shape (n_instances, n_anchors)
        Rows add up to 1.
    """
    k = min(n_neighbors, anchors.shape[0])
    search = NearestNeighbors(n_neighbors=k, algorithm="brute" if scales is None else "auto")
    search.fit(anchors)
    parts = []
    for rows in slices(X.shape[0], 50_000):
        distances, nearest = search.kneighbors(X[rows])
        if scales is None:
            squares = np.square(_floored(distances[:, -1:]))
        else:
            own = np.maximum(distances[:, min(SCALE_NEIGHBOR, k) - 1], scales.min())
            squares = own[:, None] * scales[nearest]
        weights = _from_exponents(distances**2 / (2 * squares))
        weights /= weights.sum(axis=1, keepdims=True)
        parts.append(neighbor_table(weights, nearest, anchors.shape[0]))
    return sparse.vstack(parts, format="csr")


def pick_landmarks(bags: Bags, order: Ints, n_landmarks: int, rng: np.random.RandomState) -> Array:
    """Find landmarks that represent all instances, by a short k-means on a sample.

    Parameters
    ----------
    bags : Bags
        The bags.
    order : ndarray of int of shape (n_instances,)
        The order in which the instances are drawn.
    n_landmarks : int
        Number of landmarks.
    rng : RandomState
        Source of randomness.

    Returns
    -------
    ndarray of shape (n_landmarks, n_features)
        Fewer rows if there are fewer distinct instances.
    """
    size = min(len(order), max(SAMPLE, 5 * n_landmarks))
    drawn = order[np.sort(rng.choice(len(order), size, replace=False))]
    model = KMeans(min(n_landmarks, size), n_init=1, max_iter=10, random_state=rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # duplicates give fewer centres
        return np.unique(model.fit(rows_at(bags, drawn)).cluster_centers_, axis=0)


class FactoredSimilarity:
    """Implicit similarity matrix Z L^-1 Z', with L the column sums of Z.

    Two instances are similar if they are connected to the same landmarks (Liu, He and Chang 2010).
    All degrees are 1.

    Parameters
    ----------
    weights : CSR of shape (n_instances, n_landmarks)
        Z, from `near_anchors`.

    Attributes
    ----------
    per_landmark : CSR of shape (n_landmarks, n_instances)
        L^-1 Z', which averages values of instances at the landmarks.
    """

    def __init__(self, weights: sparse.csr_array) -> None:
        total = weights.sum(axis=0)
        share = sparse.diags_array(1 / np.where(total > 0, total, 1))
        self.weights, self.dtype = weights, weights.dtype
        self.per_landmark = (share @ weights.T).tocsr()

    def __matmul__(self, v: Array) -> Array:
        """Multiply by a vector or a matrix."""
        return self.weights @ (self.per_landmark @ v)

    def sum(self, axis: int) -> Array:
        """Sum each row."""
        return self @ np.ones(self.weights.shape[0], self.dtype)


def learn_labels(bags: Bags, labels: Labels, seed: int) -> tuple[ORedLogisticRegression, Floats]:
    """Fit kernel ORLR; return it, and the posterior labels of the instances.

    Parameters
    ----------
    bags : Bags
        The bags.
    labels : Labels
        Their label sets.
    seed : int
        Seed of the landmarks.

    Returns
    -------
    ORedLogisticRegression, ndarray of shape (n_instances, n_classes)
    """
    seen, sets = in_canonical_order(bags, labels)  # landmarks do not depend on the order
    model = ORedLogisticRegression(kernel="rbf", tol=ANNOTATOR_TOL, random_state=seed)
    with warnings.catch_warnings():
        # Empty label sets, and sets with more labels than instances, are not used here.
        impossible = "[0-9]+ of [0-9]+ bags (are left out|have an empty label set)"
        warnings.filterwarnings("ignore", impossible)
        model.fit(seen, sets.indicator)
        return model, model.annotate_proba(bags, labels.indicator)


def weigh_by_agreement(similarity: Any, P: Floats, Q: Floats) -> Any:
    """Multiply similarities by the probability that both instances have the same label.

    Parameters
    ----------
    similarity : ndarray or CSR of shape (n, m)
        Similarities.
    P, Q : ndarray of shape (n, n_classes), (m, n_classes)
        Posterior labels of the instances in the rows and in the columns.

    Returns
    -------
    ndarray or CSR of shape (n, m)
        A new matrix.
    """
    if not sparse.issparse(similarity):
        weighted = np.empty_like(similarity)
        for rows in slices(len(P), max(1, AGREEMENT_BLOCK // len(Q))):
            weighted[rows] = similarity[rows] * (LEAST + (1 - LEAST) * (P[rows] @ Q.T))
        return weighted
    weighted = similarity.tocsr(copy=True)
    row = np.repeat(np.arange(len(P)), np.diff(weighted.indptr))
    for edges in slices(weighted.nnz, max(1, AGREEMENT_BLOCK // P.shape[1])):
        both = np.einsum("ec,ec->e", P[row[edges]], Q[weighted.indices[edges]])
        weighted.data[edges] *= LEAST + (1 - LEAST) * both
    return weighted


def _from_exponents(exponents: Array) -> Array:
    """Compute exp(-exponents), scaled so that the largest value of each row is 1."""
    exponents -= exponents.min(axis=1, keepdims=True)
    return np.exp(-exponents)


def _nearly_nearest(X: Any, k: int, seed: int) -> tuple[Array, Array]:
    search = import_extra("pynndescent", extra="ann").NNDescent
    # The neighbours found include the instance itself, but not always first if it has duplicates.
    index = search(X, n_neighbors=min(k + 1, X.shape[0]), random_state=seed, compressed=False)
    neighbors, distances = index.neighbor_graph
    own = neighbors == np.arange(len(neighbors))[:, None]
    own[~own.any(axis=1), -1] = True
    shape = (len(neighbors), -1)
    return distances[~own].reshape(shape), neighbors[~own].reshape(shape)


def _floored(scales: Array) -> Array:
    mean = float(scales.mean())
    return np.maximum(scales, NEAREST * mean if mean > 0 else 1.0)
