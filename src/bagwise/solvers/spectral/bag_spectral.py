"""Spectral clustering with bag constraints (Pei and Fern 2014), Algorithm 1 after the eigenvectors.

The matrix whose eigenvectors are taken is made in `bag_constraints`, the eigenvectors in
`block_eigenvectors`; here the instances are placed in their space and clustered, new ones too.
"""

from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.utils.extmath import safe_sparse_dot

from bagwise._types import Array, Floats, Ints
from bagwise.compiled.threads import interruptible
from bagwise.solvers.spectral.bag_constraints import ConstrainedSimilarity

KMEANS_SAMPLE = 10_000  # rows on which the best of several k-means starts is found


def embed(vectors: Floats, values: Floats, *, weighted: bool) -> Floats:
    """Place the instances in the space of the eigenvectors, on the unit sphere (steps 4 and 5).

    Parameters
    ----------
    vectors : ndarray of shape (n_instances, n_vectors)
        The leading eigenvectors.
    values : ndarray of shape (n_vectors,)
        Their eigenvalues.
    weighted : bool
        Whether each counts with the root of its eigenvalue.

    Returns
    -------
    ndarray of shape (n_instances, n_vectors)
    """
    weights = np.sqrt(_floored(values)) if weighted else np.ones(len(values))
    return unit_rows(vectors * weights.astype(vectors.dtype))


def extension(
    operator: ConstrainedSimilarity, vectors: Floats, values: Floats, *, weighted: bool
) -> Floats:
    """Prepare the Nyström extension: what the similarities of a new instance are multiplied by.

    An eigenvector at x is sum_p w(x, p) v_p / (lambda sqrt(d_x d_p)); d_x is the same for all
    eigenvectors, and falls out when the row is given length 1.

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
    """Cluster the embedding (step 6); of many rows, the best start is found on a sample.

    Parameters
    ----------
    embedding : ndarray of shape (n_instances, n_vectors)
        The rows.
    n_clusters : int
        The number of clusters.
    n_init : int
        The number of starts.
    rng : RandomState
        Where randomness comes from.

    Returns
    -------
    clusters : ndarray of shape (n_instances,)
        The cluster of each.
    centers : ndarray of shape (n_clusters, n_vectors)
        The centres.
    """
    n, size = len(embedding), max(KMEANS_SAMPLE, 50 * n_clusters)
    model = KMeans(n_clusters, n_init=n_init, random_state=rng)
    if n > size:
        sample = np.sort(rng.choice(n, size, replace=False))
        centers = interruptible(model.fit, embedding[sample]).cluster_centers_
        model = KMeans(n_clusters, init=centers, n_init=1)
    interruptible(model.fit, embedding)
    return model.labels_.astype(np.int64), model.cluster_centers_


def nearest_center(similarities: Any, at_anchors: Array, centers: Array) -> Ints:
    """Place new instances by the Nyström extension, and find the nearest centre of each.

    Parameters
    ----------
    similarities : ndarray or CSR of shape (n_new, n_anchors)
        Similarities of new instances to the anchors; each row up to a factor.
    at_anchors : ndarray of shape (n_anchors, n_vectors)
        What `extension` prepared.
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
    """Eigenvalues, of a hundredth of the largest at least: small and negative ones are noise."""
    return np.maximum(values, 0.01 * values[0]) if values[0] > 0 else np.ones_like(values)


def unit_rows(rows: Array) -> Array:
    """Give rows length 1; rows of zeros stay.

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
