"""Spectral clustering with bag constraints (Pei and Fern 2014), Algorithm 1 after the eigenvectors.

`bag_constraints` builds the matrix, and `block_eigenvectors` computes its eigenvectors; this module
embeds training and new instances in their space, clusters them, and estimates the classes of the
clusters.
"""

from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.utils.extmath import safe_sparse_dot

from bagwise._common.types import Array, Bools, Floats, Ints
from bagwise.solvers.spectral.bag_constraints import ConstrainedSimilarity

KMEANS_SAMPLE = 10_000  # rows of the sample for choosing among several k-means starts


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
