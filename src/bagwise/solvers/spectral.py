r"""Spectral clustering with bag constraints (Pei and Fern 2014), Algorithm 1.

The constraints come from the label sets of bags. The algorithm takes the leading eigenvectors of
D^-1/2 (W + alpha Q) D^-1/2, where W is the similarity of the N instances, D its degrees, and Q the
constraints. With y_i the indicator of the label set of bag i divided by its size, and e the
indicator of instances in labelled bags,

    Q = B Y'Y B' - mu e e',    mu = sum(Y'Y) / M^2        (the sum of Eq. 9)

over the M labelled bags. The paper prints B (Y'Y - mu I) B': its Appendix A equates the sum of
b_s b_r' over all pairs of bags with B B', but the sum is (B 1)(B 1)'. Q is never formed.

The affinity W is sparse if it is between nearest neighbours, which are searched here too.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg, sparse
from scipy.sparse.linalg import LinearOperator, aslinearoperator
from sklearn.cluster import KMeans
from sklearn.neighbors import NearestNeighbors
from sklearn.utils.extmath import safe_sparse_dot

from bagwise._common.types import Array, Bools, Floats, Ints
from bagwise.bags import offsets_of
from bagwise.compute.arrays import with_fixed_signs
from bagwise.loops.threads import one_core_if_few
from bagwise.loops.ties import row_ranks
from bagwise.solvers.result import SolverResult

DEPTH = 6  # blocks added per restart
KMEANS_SAMPLE = 10_000  # rows of the sample for choosing among several k-means starts
LEAF = 30  # rows per leaf of scikit-learn's trees


def group_term(groups: Ints, core: LinearOperator) -> LinearOperator:
    """Operator G core G': the entry for two instances depends only on their groups.

    Parameters
    ----------
    groups : ndarray of int of shape (n_instances,)
        The group of each instance.
    core : LinearOperator of shape (n_groups, n_groups)
        The entry for each pair of groups.

    Returns
    -------
    LinearOperator of shape (n_instances, n_instances)
    """
    n = len(groups)
    G = sparse.csr_array((np.ones(n), groups, np.arange(n + 1)), shape=(n, core.shape[0]))
    return aslinearoperator(G) @ core @ aslinearoperator(G.T.tocsr())


@dataclass(frozen=True)
class ConstrainedSimilarity:
    """The operator D^-1/2 (W + term) D^-1/2.

    Attributes
    ----------
    similarity : ndarray, CSR or anything with ``@``, of shape (n_instances, n_instances)
        W, possibly changed by the constraints.
    term : LinearOperator or None
        Term added by the constraints.
    degrees : ndarray of shape (n_instances,)
        D.
    alpha : float
        The weight of Q: `alpha`, or `alpha` adapted to the size of the graph.
    """

    similarity: Any
    term: LinearOperator | None
    degrees: Floats
    alpha: float

    @property
    def shape(self) -> tuple[int, int]:
        """(n_instances, n_instances)."""
        return len(self.degrees), len(self.degrees)

    @property
    def dtype(self) -> Any:
        """The precision of the similarity, which products use."""
        return self.similarity.dtype

    def __matmul__(self, v: Floats) -> Floats:
        """Multiply by the columns of a matrix, at about the cost of W."""
        scale = (self.degrees**-0.5).astype(self.dtype)[:, None]
        z = scale * v.astype(self.dtype, copy=False)
        product = self.similarity @ z
        if self.term is not None:
            product += (self.term @ z).astype(self.dtype, copy=False)
        return scale * product

    def toarray(self) -> Floats:
        """Convert to a dense matrix, for few instances."""
        return (self @ np.eye(len(self.degrees))).astype(np.float64)


def constrain(
    similarity: Any, bag_index: Ints, label_sets: Any, *, constraints: str | None, alpha: float
) -> ConstrainedSimilarity:
    """Combine a similarity of instances with the constraints of label sets.

    Parameters
    ----------
    similarity : ndarray, CSR or the like, of shape (n_instances, n_instances)
        W: symmetric, with non-negative entries.
    bag_index : ndarray of int of shape (n_instances,)
        The bag of each instance.
    label_sets : ndarray of shape (n_bags, n_classes) or None
        Zeros and ones; a row of -1 if the label set is unknown.
    constraints : {"bag", "bag_as_printed"} or None
        Q as above, or as the paper prints it in Eq. 12: all bags count. None for plain spectral
        clustering.
    alpha : float
        The weight of Q. If W is not an array, but a graph, its degrees do not grow with the number
        of instances, as the row sums of Q do: alpha is then multiplied by their ratio.

    Returns
    -------
    ConstrainedSimilarity
    """
    degrees = floored_degrees(np.asarray(similarity.sum(axis=1), dtype=float).ravel())
    if constraints is None or label_sets is None or not (label_sets == 1).any():
        return ConstrainedSimilarity(similarity, None, degrees, 0.0)
    known, profiles = profiles_of(label_sets)
    total = profiles.sum(axis=0)
    if constraints == "bag_as_printed":
        mu = float(total @ total) / len(profiles) ** 2
        core = aslinearoperator(profiles) @ aslinearoperator(profiles.T)
        core = core - mu * aslinearoperator(sparse.eye_array(len(profiles)))
    else:
        mu = float(total @ total) / float(known.sum()) ** 2
        factor = np.column_stack([profiles, known])
        weights = np.append(np.ones(profiles.shape[1]), -mu)
        core = aslinearoperator(factor * weights) @ aslinearoperator(factor.T)
    if not isinstance(similarity, np.ndarray):
        total = np.bincount(bag_index, minlength=len(profiles)) @ profiles
        alpha *= float(degrees.mean()) / (float(total @ total) / len(bag_index))
    term = group_term(bag_index, alpha * core)  # this order avoids large arrays
    return ConstrainedSimilarity(similarity, term, degrees, alpha)


def profiles_of(label_sets: Ints) -> tuple[Floats, Floats]:
    """Which label sets are known, and y of each bag: its labels, normalised to sum 1.

    Parameters
    ----------
    label_sets : ndarray of shape (n_bags, n_classes)
        Zeros and ones; a row of -1 if the label set is unknown.

    Returns
    -------
    known : ndarray of shape (n_bags,)
    profiles : ndarray of shape (n_bags, n_classes)
    """
    indicator = np.maximum(label_sets, 0).astype(float)
    profiles = indicator / np.maximum(indicator.sum(axis=1, keepdims=True), 1)
    return np.all(label_sets >= 0, axis=1), profiles


def floored_degrees(degrees: Floats) -> Floats:
    """Clip degrees to at least a hundredth of their mean.

    The constraints of an instance are weighted by the inverse of its degree: an instance far from
    all others would outweigh them all.

    Parameters
    ----------
    degrees : ndarray of shape (n_instances,)
        Row sums of the similarity.

    Returns
    -------
    ndarray of shape (n_instances,)
    """
    mean = float(degrees.mean())
    return np.maximum(degrees, 0.01 * mean) if mean > 0 else np.ones_like(degrees)


def leading_eigenvectors(
    operator: Any, n_vectors: int, rng: np.random.RandomState, *, tol: float, max_iter: int = 100
) -> SolverResult:
    """Find the eigenvectors of the largest (algebraic) eigenvalues, by block Krylov-Schur.

    The multiplicity of the eigenvalue 1 is the number of connected components of the graph, and
    well separated clusters are similar. A method that multiplies single vectors finds such an
    eigenvalue only once. This one multiplies blocks of vectors, and accepts the result only if new
    random vectors, orthogonal to it, add nothing.

    Parameters
    ----------
    operator : object with ``shape``, ``dtype``, ``@`` and ``toarray``
        The symmetric matrix; `toarray` is called for small ones only.
    n_vectors : int
        Number of eigenvectors; at most the size of the matrix.
    rng : RandomState
        Random generator for the vectors.
    tol : float
        Tolerance on the residual of each eigenvector, relative to its eigenvalue (or to a hundredth
        of the largest, if that is larger).
    max_iter : int, default=100
        Maximum number of restarts.

    Returns
    -------
    SolverResult
        ``solution`` is (vectors, values), largest first, with the signs of
        `with_fixed_signs`; the objective is the sum of the eigenvalues (Eq. 13), which never
        decreases.
    """
    n = operator.shape[0]
    block = n_vectors // 4 + 4
    kept = block * (n_vectors // block + 2)
    size = kept + DEPTH * block
    if n <= size + block:  # the Krylov space would be the whole space
        values, vectors = linalg.eigh(operator.toarray())
        leading = with_fixed_signs(vectors[:, ::-1][:, :n_vectors]), values[::-1][:n_vectors]
        return SolverResult(leading, [leading[1].sum()], True)
    basis = np.zeros((n, size), operator.dtype, order="F")
    projected = np.zeros((size, size))  # basis' A basis
    filled, fresh = 0, _random_block(block, basis[:, :0], rng)
    curve: list[float] = []
    verified, converged = -np.inf, False
    with one_core_if_few(basis.size):
        while not converged and len(curve) < max_iter:
            while filled < size:
                step = slice(filled, filled + block)
                basis[:, step] = fresh
                filled += block
                fresh, shares, coupling = _orthonormal(operator @ fresh, basis[:, :filled], rng)
                projected[:filled, step], projected[step, :filled] = shares, shares.T
            values, rotation = linalg.eigh((projected + projected.T) / 2)
            values, rotation = values[::-1][:kept], rotation[:, ::-1][:, :kept]
            basis[:, :kept] = basis @ rotation.astype(basis.dtype)
            curve.append(float(values[:n_vectors].sum()))
            if verified == -np.inf:
                gaps = np.linalg.norm(coupling @ rotation[-block:, :n_vectors], axis=0)
            else:  # random vectors replaced the remaining block
                found = basis[:, :n_vectors]
                gaps = np.linalg.norm(operator @ found - values[:n_vectors] * found, axis=0)
            sizes = np.abs(values[:n_vectors])
            if (gaps <= tol * np.maximum(sizes, 0.01 * sizes.max())).all():
                converged = curve[-1] - verified <= tol * sizes.max()
                verified = curve[-1]
                fresh = _random_block(block, basis[:, :kept], rng)
            projected[:] = 0
            projected[range(kept), range(kept)] = values
            filled = kept
    found = with_fixed_signs(np.ascontiguousarray(basis[:, :n_vectors]))
    return SolverResult((found, values[:n_vectors]), curve, converged)


def _orthonormal(
    block: Array, basis: Array, rng: np.random.RandomState
) -> tuple[Array, Array, Array]:
    """Split a block into basis @ shares + q @ r, with q orthonormal and orthogonal to the basis.

    Two passes are enough unless the block is rank-deficient: q is then filled with random vectors,
    and r with zeros.
    """
    q, shares, r = block, np.zeros((basis.shape[1], block.shape[1])), np.eye(block.shape[1])
    eps = np.finfo(block.dtype).eps
    noise = (100 * eps * max(1.0, float(np.abs(block).max()))) ** 2
    for turn in range(5):
        part = basis.T @ q
        q = q - basis @ part
        shares += part @ r
        squares, axes = linalg.eigh(q.T @ q, check_finite=False)
        lost = squares <= max(10 * eps * squares[-1], noise)
        lengths = np.sqrt(np.where(lost, 1.0, squares)).astype(q.dtype)
        q = q @ (axes / lengths)
        r = (np.where(lost, 0.0, lengths)[:, None] * axes.T) @ r
        q[:, lost] = rng.standard_normal((len(q), int(lost.sum()))) / np.sqrt(len(q))
        if turn > 0 and squares[0] > 0.5:
            break
    return q, shares, r


def _random_block(n_columns: int, basis: Array, rng: np.random.RandomState) -> Array:
    draw = rng.standard_normal((len(basis), n_columns)).astype(basis.dtype)
    return _orthonormal(draw, basis, rng)[0]


def embed(vectors: Floats, values: Floats, *, weighted: bool) -> Floats:
    """Embed the instances in the space of the eigenvectors, on the unit sphere (steps 4 and 5).

    Parameters
    ----------
    vectors : ndarray of shape (n_instances, n_vectors)
        The leading eigenvectors.
    values : ndarray of shape (n_vectors,)
        Their eigenvalues.
    weighted : bool
        Whether each is multiplied by the square root of its eigenvalue.

    Returns
    -------
    ndarray of shape (n_instances, n_vectors)
    """
    weights = np.sqrt(_floored(values)) if weighted else np.ones(len(values))
    return unit_rows(vectors * weights.astype(vectors.dtype))


def extension(
    operator: ConstrainedSimilarity, vectors: Floats, values: Floats, *, weighted: bool
) -> Floats:
    """Factors of the Nyström extension, to multiply with the similarities of a new instance.

    An eigenvector at x is sum_p w(x, p) v_p / (lambda sqrt(d_x d_p)); d_x is the same for all
    eigenvectors, and cancels when the row is normalised.

    Parameters
    ----------
    operator : ConstrainedSimilarity
        The matrix.
    vectors : ndarray of shape (n_instances, n_vectors)
        Its leading eigenvectors.
    values : ndarray of shape (n_vectors,)
        Their eigenvalues; those near 0 or negative are not used for new instances.
    weighted : bool
        As in `embed`.

    Returns
    -------
    ndarray of shape (n_instances, n_vectors)
    """
    floored = _floored(values)
    factors = (values == floored) * floored ** (-0.5 if weighted else -1.0)
    roots = operator.degrees[:, None] ** -0.5
    return roots.astype(vectors.dtype) * vectors * factors.astype(vectors.dtype)


def k_means(
    embedding: Floats, n_clusters: int, n_init: int, rng: np.random.RandomState
) -> tuple[Ints, Floats]:
    """Cluster the embedding (step 6); with many rows, the best start is chosen on a sample.

    Parameters
    ----------
    embedding : ndarray of shape (n_instances, n_vectors)
        The rows.
    n_clusters : int
        The number of clusters.
    n_init : int
        The number of starts.
    rng : RandomState
        Random generator.

    Returns
    -------
    clusters : ndarray of shape (n_instances,)
        The cluster of each instance.
    centers : ndarray of shape (n_clusters, n_vectors)
        The centres.
    """
    n, size = len(embedding), max(KMEANS_SAMPLE, 50 * n_clusters)
    model = KMeans(n_clusters, n_init=n_init, random_state=rng)
    if n > size:
        sample = np.sort(rng.choice(n, size, replace=False))
        centers = model.fit(embedding[sample]).cluster_centers_
        model = KMeans(n_clusters, init=centers, n_init=1)
    model.fit(embedding)
    return model.labels_.astype(np.int64), model.cluster_centers_


def nearest_center(similarities: Any, at_anchors: Array, centers: Array) -> Ints:
    """Embed new instances by the Nyström extension, and find the nearest centre of each.

    Parameters
    ----------
    similarities : ndarray or CSR of shape (n_new, n_anchors)
        Similarities of new instances to the anchors; rows may have any scale.
    at_anchors : ndarray of shape (n_anchors, n_vectors)
        The factors from `extension`.
    centers : ndarray of shape (n_clusters, n_vectors)
        The centres of the clusters.

    Returns
    -------
    ndarray of shape (n_new,)
    """
    placed = unit_rows(safe_sparse_dot(similarities, at_anchors, dense_output=True))
    squares = (centers**2).sum(axis=1)
    return (squares - 2 * placed @ centers.T).argmin(axis=1)


def _floored(values: Floats) -> Floats:
    """Clip eigenvalues at a hundredth of the largest: small and negative ones are noise."""
    return np.maximum(values, 0.01 * values[0]) if values[0] > 0 else np.ones_like(values)


def unit_rows(rows: Array) -> Array:
    """Scale rows to length 1; rows of zeros remain zero.

    Parameters
    ----------
    rows : ndarray of shape (n, n_columns)
        The rows.

    Returns
    -------
    ndarray of shape (n, n_columns)
    """
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths > 0, lengths, 1)


def class_shares(
    clusters: Ints, candidates: Bools, n_clusters: int, *, max_iter: int = 100, tol: float = 1e-3
) -> Floats:
    """Estimate the shares of the classes in each cluster by maximum likelihood.

    An instance of cluster k belongs to class c with probability theta_kc, and its class is one of
    the labels of its bag. EM maximises the likelihood, which is concave in theta:

        sum_p log sum_{c in Y_p} theta_{k(p), c}

    Parameters
    ----------
    clusters : ndarray of int of shape (n_instances,)
        The cluster of each instance.
    candidates : ndarray of bool of shape (n_instances, n_classes)
        Which classes each instance may belong to; instances without any are left out.
    n_clusters : int
        The number of clusters.
    max_iter : int, default=100
        Maximum number of iterations.
    tol : float, default=1e-3
        Largest change of a share at which to stop.

    Returns
    -------
    ndarray of shape (n_clusters, n_classes)
        Rows sum to 1; zeros for a cluster without usable instances.
    """
    instance, label = np.nonzero(candidates)
    cell = clusters[instance] * candidates.shape[1] + label
    shares = np.ones((n_clusters, candidates.shape[1]))
    for _ in range(max_iter):
        weight = shares.ravel()[cell]
        posterior = weight / np.bincount(instance, weight)[instance]
        new = np.bincount(cell, posterior, shares.size).reshape(shares.shape)
        new = new / np.maximum(new.sum(axis=1, keepdims=True), 1e-300)
        change, shares = np.abs(new - shares).max(initial=0.0), new
        if change <= tol:
            break
    return shares


def nearest_neighbors(X: Any, n_neighbors: int) -> tuple[Array, Ints]:
    """Find the nearest other rows of each row.

    A tree cannot split equal rows: a search among n copies of a row compares n^2 pairs. If a row
    has more copies than fit into a leaf of the tree, only the distinct rows are searched.

    Parameters
    ----------
    X : ndarray or CSR of shape (n_rows, n_features)
        The rows.
    n_neighbors : int
        Number of neighbours of each row; less than n_rows.

    Returns
    -------
    distances : ndarray of shape (n_rows, n_neighbors)
        Distances, increasing along each row.
    neighbors : ndarray of int64 of shape (n_rows, n_neighbors)
        Indices of the neighbours. A row with more copies than needed gets the copies that follow
        it, and after the last copy the first.
    """
    ranks = row_ranks(X)
    counts = np.bincount(ranks)
    if counts.max() <= LEAF:
        return _search(X, n_neighbors)
    copies, starts = np.argsort(ranks, kind="stable"), offsets_of(counts)
    own = np.arange(len(counts))[:, None]
    distances, near = np.zeros(own.shape), own
    if len(counts) > 1:
        found = _search(X[copies[starts[:-1]]], min(n_neighbors, len(counts) - 1))
        distances, near = np.hstack([distances, found[0]]), np.hstack([own, found[1]])
    # The n_neighbors + 1 nearest rows of each distinct row, starting with the row and its copies.
    ends = np.cumsum(counts[near], axis=1)
    slots = np.arange(n_neighbors + 1)
    group = np.column_stack([(ends <= slot).sum(axis=1) for slot in slots])
    chosen = np.take_along_axis(near, group, axis=1)
    before = np.take_along_axis(ends, group, axis=1) - counts[chosen]
    around = copies[starts[chosen] + slots - before]
    # Leave out the row itself; a row with many copies takes the copies that follow it.
    place = np.empty(len(ranks), np.int64)
    place[copies] = np.arange(len(ranks)) - np.repeat(starts[:-1], counts)
    keep = slots[:-1] + (slots[:-1] >= place[:, None])
    neighbors = np.take_along_axis(around[ranks], keep, axis=1)
    many = np.flatnonzero(counts[ranks] > n_neighbors)
    following = (place[many, None] + 1 + slots[:-1]) % counts[ranks[many], None]
    neighbors[many] = copies[starts[ranks[many], None] + following]
    by_group = np.take_along_axis(distances, group, axis=1)
    return np.take_along_axis(by_group[ranks], keep, axis=1), neighbors


def neighbor_table(values: Array, neighbors: Ints, width: int) -> sparse.csr_array:
    """A sparse table with the values of each row in the columns of its neighbours.

    Parameters
    ----------
    values : ndarray of shape (n_rows, n_neighbors)
        The values.
    neighbors : ndarray of int of shape (n_rows, n_neighbors)
        The column of each value.
    width : int
        Number of columns.

    Returns
    -------
    CSR of shape (n_rows, width)
    """
    n, k = values.shape
    ends = np.arange(0, n * k + 1, k)
    return sparse.csr_array((values.ravel(), neighbors.ravel(), ends), shape=(n, width))


def _search(X: Any, n_neighbors: int) -> tuple[Array, Ints]:
    search = NearestNeighbors(n_neighbors=n_neighbors).fit(X)
    return search.kneighbors()
