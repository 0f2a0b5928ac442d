"""Check that costs of an SVM stay within the range of floating-point numbers."""

from typing import Any

import numpy as np
from scipy import sparse

from bagwise.exceptions import InputError

SMALLEST, LARGEST = 1e-100, 1e100  # cost, and its product with squared lengths


def check_costs(squared_length: float, **costs: float | None) -> None:
    """Reject costs for which multipliers, scores or their products would overflow.

    A multiplier is at most C and a score about C times the squared length of a row; the objective
    multiplies both.

    Parameters
    ----------
    squared_length : float
        Mean squared length of the rows.
    **costs : float or None
        The costs by parameter name.
    """
    for name, cost in costs.items():
        if cost is not None and not SMALLEST <= cost <= LARGEST:
            raise InputError(
                f"{name}={cost:.3g} is beyond the supported range ({SMALLEST:.0e} to "
                f"{LARGEST:.0e}): choose {name} nearer to 1."
            )
        if cost is not None and cost * squared_length > LARGEST:
            raise InputError(
                f"{name}={cost:.3g} with rows of a mean squared length of {squared_length:.3g} is "
                "beyond the range of floating-point numbers: scale the features "
                f"(StandardScaler), or lower {name}."
            )


def mean_square(rows: Any) -> float:
    """Mean squared length of rows.

    Parameters
    ----------
    rows : ndarray or CSR of shape (n_rows, n_features)
        The rows.

    Returns
    -------
    float
    """
    values = rows.data if sparse.issparse(rows) else rows
    with np.errstate(over="ignore"):
        return float(np.vdot(values, values)) / rows.shape[0]
