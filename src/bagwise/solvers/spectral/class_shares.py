"""Shares of the classes in each cluster, from the label sets of bags.

An instance of cluster k belongs to class c with probability theta_kc, and its class is one of the
labels of its bag. The likelihood

    sum_p log sum_{c in Y_p} theta_{k(p), c}

is concave in theta; EM maximises it.
"""

import numpy as np

from bagwise._common.types import Bools, Floats, Ints


def class_shares(
    clusters: Ints, candidates: Bools, n_clusters: int, *, max_iter: int = 100, tol: float = 1e-3
) -> Floats:
    """Estimate the shares of the classes in each cluster by maximum likelihood.

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
    n_classes = candidates.shape[1]
    instance, label = np.nonzero(candidates)
    cell = clusters[instance] * n_classes + label
    # Start and number of the entries of each instance that has candidates.
    _, place, length = np.unique(instance, return_index=True, return_counts=True)
    shares = np.full(n_clusters * n_classes, 1.0)
    for _ in range(max_iter):
        weight = shares[cell]
        total = np.add.reduceat(weight, place) if len(place) else weight
        posterior = weight / np.repeat(total, length)
        new = np.bincount(cell, weights=posterior, minlength=n_clusters * n_classes)
        rows = new.reshape(n_clusters, n_classes)
        new = (rows / np.maximum(rows.sum(axis=1, keepdims=True), 1e-300)).ravel()
        change, shares = np.abs(new - shares).max(initial=0.0), new
        if change <= tol:
            break
    return shares.reshape(n_clusters, n_classes)
