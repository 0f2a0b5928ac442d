"""Labels to begin with: those that keep a balance, and the best of random ones."""

import numpy as np

from bagwise import compiled
from bagwise._types import Floats, Ints
from bagwise.solvers.margin.feature_space import FeatureSpace


def n_expected(share: float, n: int) -> int:
    """How many of `n` rows a share makes, to the nearest; at least one of each sign if it can be.

    Parameters
    ----------
    share : float
        Between 0 and 1.
    n : int
        The number of rows.

    Returns
    -------
    int
    """
    return int(np.clip(np.floor(share * n + 0.5), min(1, n - 1), max(n - 1, 1)))


def balanced_labels(scores: Floats, n_positive: int) -> Ints:
    """Call the highest scores 1, the others -1; of scores equal up to rounding, the first.

    Parameters
    ----------
    scores : ndarray of shape (n,)
        Scores of rows.
    n_positive : int
        How many are positive.

    Returns
    -------
    ndarray of int of shape (n,)

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.solvers.wellsvm.label_starts import balanced_labels
    >>> balanced_labels(np.array([0.1, 3.0, -2.0]), 2)
    array([ 1,  1, -1])
    """
    labels = np.full(len(scores), -1)
    labels[np.argsort(-compiled.ties.settled(scores), kind="stable")[:n_positive]] = 1
    return labels


def aligned_labels(
    space: FeatureSpace, n: int, n_clusters: int, rng: np.random.RandomState, draws: int = 20
) -> Ints:
    """Of random balanced labels, those whose indicator kernel is aligned best with the kernel.

    Parameters
    ----------
    space : FeatureSpace
        The rows.
    n : int
        Their number.
    n_clusters : int
        How many labels.
    rng : RandomState
        For the draws.
    draws : int, default=20
        How many are drawn.

    Returns
    -------
    ndarray of int of shape (n,)
        0, ..., n_clusters - 1.

    Notes
    -----
    The alignment of K with the centred indicators of balanced labels is, up to a constant, the sum
    over clusters of u' K u; the norm of the indicator kernel is the same for all draws.
    """
    best, labels = -np.inf, np.zeros(n, dtype=np.int64)
    for _ in range(draws):
        drawn = rng.permutation(np.arange(n) % n_clusters)
        value = 0.0
        for k in range(n_clusters):
            u = (drawn == k) - float(np.mean(drawn == k))
            value += float(u @ space.scores(u))
        if value > best + 1e-9 * abs(value):  # of draws equal up to rounding, the first
            best, labels = value, drawn
    return labels
