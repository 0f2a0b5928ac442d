r"""k-means in the feature space of a kernel.

.. math:: \min \sum_i |\phi(x_i) - m_{k(i)}|^2, \qquad
    |\phi(x) - m_k|^2 = K(x, x) - \frac2{n_k} \sum_{j \in k} K(x, x_j)
    + \frac1{n_k^2} \sum_{i, j \in k} K(x_i, x_j)

Lloyd's algorithm alternates between the means of the clusters and the nearest mean of each row.
Neither half increases the sum of squares.
"""

import numpy as np
from sklearn.utils.extmath import row_norms

from bagwise import loops
from bagwise._common.types import Floats, Ints
from bagwise.solvers.margin.feature_space import FeatureSpace, LinearFeatures
from bagwise.solvers.result import SolverResult
from reproduction.rivals.solvers.label_starts import aligned_labels

STEP = 256  # rows per kernel block, when only the diagonal is needed


def squared_lengths(space: FeatureSpace) -> Floats:
    """K(x, x) of all rows.

    Parameters
    ----------
    space : LinearFeatures or KernelFeatures
        The rows.

    Returns
    -------
    ndarray of shape (n_rows,)
    """
    if isinstance(space, LinearFeatures):
        return row_norms(space.rows, squared=True)
    rows = space.rows
    blocks = [rows[start : start + STEP] for start in range(0, rows.shape[0], STEP)]
    return np.concatenate([np.diagonal(space.kernel(block, block)) for block in blocks])


def first_labels(
    space: FeatureSpace, lengths: Floats, n_clusters: int, init: str, rng: np.random.RandomState
) -> Ints:
    """Initial labels.

    Parameters
    ----------
    space : FeatureSpace
        The rows.
    lengths : ndarray of shape (n_rows,)
        K(x, x).
    n_clusters : int
        Number of labels.
    init : {"k-means++", "random", "alignment"}
        Nearest of rows drawn far from each other; balanced random labels; the best aligned with
        the kernel of twenty random labellings.
    rng : RandomState
        For the draws.

    Returns
    -------
    ndarray of int of shape (n_rows,)
    """
    n = len(lengths)
    if init == "alignment":
        return aligned_labels(space, n, n_clusters, rng)
    if init == "random":
        return rng.permutation(np.arange(n) % n_clusters)
    distances = np.full((n, n_clusters), np.inf)
    chosen = int(rng.randint(n))
    for k in range(n_clusters):
        alone = np.zeros(n)
        alone[chosen] = 1.0
        distances[:, k] = np.maximum(lengths + lengths[chosen] - 2 * space.scores(alone), 0.0)
        distances[chosen, k] = 0.0
        nearest = distances.min(axis=1)
        total = float(nearest.sum())
        chances = nearest / total if total > 0 else None
        chosen = int(rng.choice(n, p=chances))
    return loops.ties.settled(distances, axis=1).argmin(axis=1)


def kernel_kmeans(
    space: FeatureSpace, lengths: Floats, labels: Ints, n_clusters: int, max_iter: int
) -> SolverResult:
    """Run Lloyd's algorithm from given labels.

    Parameters
    ----------
    space : FeatureSpace
        The rows.
    lengths : ndarray of shape (n_rows,)
        K(x, x).
    labels : ndarray of int of shape (n_rows,)
        Initial labels, 0, ..., n_clusters - 1.
    n_clusters : int
        Number of clusters, at most n_rows.
    max_iter : int
        Maximum number of iterations.

    Returns
    -------
    SolverResult
        ``solution`` is (labels, coef, intercept): the cluster of a row x is the argmax of
        ``coef @ K(rows, x) + intercept``. The curve is the sum of squares of the labels before
        each round.
    """
    everybody = np.arange(len(lengths))
    curve: list[float] = []
    converged = False
    while not converged and len(curve) < max_iter:
        labels = _occupied(labels, n_clusters, lengths)
        means = (labels == np.arange(n_clusters)[:, None]).astype(np.float64)
        means /= means.sum(axis=1, keepdims=True)
        products = np.stack([space.scores(mean) for mean in means])  # (n_clusters, n_rows)
        squares = np.einsum("kn,kn->k", means, products)
        closeness = 2 * products - squares[:, None]
        curve.append(float(lengths.sum() - closeness[labels, everybody].sum()))
        best = loops.ties.settled(closeness, axis=0).argmax(axis=0)
        # Rows with equal distances keep their cluster, so that rounding does not move them.
        gain = closeness[best, everybody] - closeness[labels, everybody]
        new = np.where(gain > 1e-9 * (1 + np.abs(lengths)), best, labels)
        converged = np.array_equal(new, labels)
        if not converged and len(curve) < max_iter:
            labels = new
    return SolverResult((labels, 2 * means, -squares), curve, converged)


def _occupied(labels: Ints, n_clusters: int, lengths: Floats) -> Ints:
    """Move a row of a larger cluster to each empty one, the rows of largest norm first."""
    labels = labels.copy()
    for k in np.setdiff1d(np.arange(n_clusters), labels):
        sizes = np.bincount(labels, minlength=n_clusters)
        movable = np.flatnonzero(sizes[labels] > 1)
        labels[movable[np.argmax(loops.ties.settled(lengths[movable]))]] = k
    return labels
