"""Conformal prediction from held-out scores: p-values, sets of classes, intervals of numbers.

A p-value compares a bag with n others that are exchangeable with it (Vovk, Gammerman and Shafer,
Algorithmic Learning in a Random World, 2005):

    p = (1 + #{i : a_i >= a}) / (n + 1),    where a larger score a means a stranger bag.
"""

import numpy as np

from bagwise._common.types import Array, Bools, Floats

TINY = 1e-9  # relative; 1 - 0.9 is not 0.1


def p_values(scores: Floats, calibration: Floats) -> Floats:
    """Compare scores with the scores of n exchangeable bags.

    Parameters
    ----------
    scores : ndarray of any shape
        How strange the new bags are.
    calibration : ndarray of shape (n,)
        How strange the others are.

    Returns
    -------
    ndarray of the shape of `scores`
        From 1 / (n + 1) to 1.
    """
    smaller = np.searchsorted(np.sort(calibration), scores, side="left")
    return (1 + len(calibration) - smaller) / (len(calibration) + 1)


def label_p_values(
    scores: Floats,
    calibration: Floats,
    present: Bools,
    *,
    by_class: bool = False,
    groups: tuple[Array, Array] | None = None,
) -> Floats:
    """The p-value of each class for each bag.

    Parameters
    ----------
    scores : ndarray of shape (n_new, n_classes)
        How strange each class would be for the new bags.
    calibration : ndarray of shape (n, n_classes)
        The same for bags of known classes, by models that were not fitted on them.
    present : ndarray of bool of shape (n, n_classes)
        The classes of these bags.
    by_class : bool, default=False
        Whether a class is compared with its own bags only.
    groups : tuple of two arrays of shape (n_new,) and (n,), default=None
        Compare bags within their groups only.

    Returns
    -------
    ndarray of shape (n_new, n_classes)
    """
    found = np.empty(scores.shape)
    columns = [slice(k, k + 1) for k in range(scores.shape[1])] if by_class else [slice(None)]
    parts = [(slice(None), slice(None))]
    if groups is not None:
        parts = [(groups[0] == group, groups[1] == group) for group in np.unique(groups[0])]
    for new, known in parts:
        for k in columns:
            own = calibration[known][:, k][present[known][:, k]]
            found[new, k] = p_values(scores[new][:, k], own)
    return found


def interval_radius(errors: Floats, coverage: float) -> float:
    """The size of the error that a new bag exceeds with probability 1 - coverage.

    Parameters
    ----------
    errors : ndarray of shape (n,)
        Absolute errors of predictions for held-out bags.
    coverage : float
        Between 0 and 1.

    Returns
    -------
    float
        Infinity if there are too few errors: fewer than coverage / (1 - coverage).
    """
    rank = int(np.ceil((len(errors) + 1) * coverage * (1 - TINY)))
    return float(np.sort(errors)[rank - 1]) if rank <= len(errors) else np.inf
