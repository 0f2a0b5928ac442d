"""The option ``--corrections``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from bagwise.cli.output import note
from bagwise.exceptions import InputError

if TYPE_CHECKING:
    from bagwise.apps.review._known import Known


def read_known(path: Path | None, estimator: Any, method: str) -> Known | None:
    """Read the file of ``--corrections``; raise an error if the method cannot use it.

    Parameters
    ----------
    path : Path or None
        The value of ``--corrections``.
    estimator : estimator
        The estimator to fit.
    method : str
        The name of the method, for messages.

    Returns
    -------
    Known or None
    """
    if path is None:
        return None
    from sklearn.utils.validation import has_fit_parameter

    from bagwise.apps.review._known import read_known

    if not has_fit_parameter(estimator, "instance_labels"):
        raise InputError(
            f"{method} cannot keep labels of instances fixed: use --corrections with -m orlr."
        )
    return read_known(path, note)
