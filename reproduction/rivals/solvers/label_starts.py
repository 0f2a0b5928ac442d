"""Initial labels: balanced by scores, or the best of several random labellings."""

import numpy as np

from bagwise import loops
from bagwise._common.types import Floats, Ints
from bagwise.solvers.margin.feature_space import FeatureSpace


def n_expected(share: float, n: int) -> int:
    """Round ``share * n`` to a number of rows that leaves at least one of each sign, if possible.

    Parameters
    ----------
    share : float
        Share of the rows, between 0 and 1.
    n : int
        The number of rows.

    Returns
    -------
    int
    """
    return int(np.clip(np.floor(share * n + 0.5), min(1, n - 1), max(n - 1, 1)))


def balanced_labels(scores: Floats, n_positive: int) -> Ints:
    """Label the highest scores 1 and the others -1; among scores equal up to rounding, the first.

    Parameters
    ----------
    scores : ndarray of shape (n,)
        Scores of rows.
    n_positive : int
        Number of positive labels.

    Returns
    -------
    ndarray of int of shape (n,)

    Examples
    --------
    >>> import numpy as np
    >>> from reproduction.rivals.solvers.label_starts import balanced_labels
    >>> balanced_labels(np.array([0.1, 3.0, -2.0]), 2)
    array([ 1,  1, -1])
    """
    labels = np.full(len(scores), -1)
    labels[np.argsort(-loops.ties.settled(scores), kind="stable")[:n_positive]] = 1
    return labels


def aligned_labels(
    space: FeatureSpace, n: int, n_clusters: int, rng: np.random.RandomState, draws: int = 20
) -> Ints:
    """Draw random balanced labels; return those best aligned with the kernel.

    Parameters
    ----------
    space : FeatureSpace
        The rows.
    n : int
        Number of rows.
    n_clusters : int
        Number of labels.
    rng : RandomState
        Random generator for the draws.
    draws : int, default=20
        Number of draws.

    Returns
    -------
    ndarray of int of shape (n,)
        Labels 0, ..., n_clusters - 1.

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
        if value > best + 1e-9 * abs(value):  # keep the first of draws equal up to rounding
            best, labels = value, drawn
    return labels
