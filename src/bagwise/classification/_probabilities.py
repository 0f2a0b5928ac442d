"""From the log-odds of models learned one class against the rest to probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit, softmax

__all__ = ["of_log_odds"]


def of_log_odds(scores: NDArray[Any]) -> NDArray[Any]:
    """Probabilities of the classes.

    Parameters
    ----------
    scores : ndarray of shape (n,) or (n, n_classes)
        Log-odds of the positive class, or of each class against the rest.

    Returns
    -------
    ndarray of shape (n, 2) or (n, n_classes)
        Rows sum to 1: for one score per class the probabilities are divided by their sum.
    """
    if scores.ndim == 1:
        return np.column_stack([expit(-scores), expit(scores)])
    return softmax(log_expit(scores), axis=1)
