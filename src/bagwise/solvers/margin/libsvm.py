"""LIBSVM with a limit on its steps, and an error if its solution is not finite."""

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from bagwise.exceptions import InputError

# LIBSVM's default limit, ten million steps, takes minutes if features are of order one million.
LEAST_STEPS, STEPS_PER_ROW = 100_000, 100


def fit_libsvm(model: Any, table: Any, y: Any, weights: Any = None) -> bool:
    """Fit an `SVC` or `SVR` of scikit-learn with a limit on its steps.

    Parameters
    ----------
    model : SVC or SVR
        The model; its `max_iter` is set.
    table : ndarray or CSR of shape (n_rows, n_columns)
        The rows, or the kernel between them.
    y : ndarray of shape (n_rows,)
        The targets.
    weights : ndarray of shape (n_rows,), default=None
        Factors of the cost of each row.

    Returns
    -------
    bool
        Whether the tolerance of the model was reached.
    """
    model.random_state = 0  # LIBSVM draws nothing; None would advance NumPy's global state
    model.set_params(max_iter=LEAST_STEPS + STEPS_PER_ROW * table.shape[0])
    try:
        with warnings.catch_warnings(), np.errstate(over="ignore", invalid="ignore"):
            warnings.simplefilter("ignore", ConvergenceWarning)
            return bool(model.fit(table, y, weights).fit_status_ == 0)
    except ValueError as error:  # coefficients that are not finite, or values that are too large
        raise InputError(
            f"LIBSVM cannot represent the solution (C={model.C:.3g}, largest value "
            f"{abs(table).max():.3g}): scale the features, and choose C nearer to 1."
        ) from error
