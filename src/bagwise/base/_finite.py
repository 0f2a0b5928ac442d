"""Conversion of numerical failures into an `InputError` that names the cause and the remedy.

Validation rejects most values with which arithmetic fails. Extreme parameters, or features of very
different scale, can still lead to overflow or to a singular matrix inside a method. The user then
gets an error about features and parameters instead of NaN or an error about an internal array.
"""

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, NoReturn

import numpy as np
from scipy import sparse
from sklearn.utils.sparsefuncs import min_max_axis

from bagwise._common.types import Array
from bagwise.compute.arrays import extremes
from bagwise.exceptions import BagwiseError, InputError, NotEnoughMemoryError
from bagwise.loops.threads import SMALL

# Parts of the messages with which scikit-learn and scipy reject arrays that are not finite.
REFUSALS = ("contains NaN", "contains infinity", "infs or NaNs", "must be finite", "non-finite")

# numpy does not warn about overflow inside a method, because the result is checked. The tests
# enable these warnings, which fail them.
FLOATING_POINT: dict[str, Any] = {"over": "ignore", "divide": "ignore", "invalid": "ignore"}


def checked_fit(fit: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``fit``: it starts without fitted attributes, and a failure restores the earlier ones.

    A fitted number that is not finite is a failure.

    Infinity is accepted in the attributes that the class lists in ``_may_be_infinite``; NaN is
    not.

    Parameters
    ----------
    fit : callable
        The ``fit`` of an estimator.

    Returns
    -------
    callable
    """

    @wraps(fit)
    def checked(self: Any, *args: Any, **kwargs: Any) -> Any:
        earlier = vars(self).copy()
        if fit.__name__ == "fit" and not getattr(self, "warm_start", False):
            forget_fit(self)
        try:
            with np.errstate(**FLOATING_POINT):
                fit(self, *args, **kwargs)
            name = not_finite(vars(self), self._may_be_infinite, only_fitted=True)
            if name is not None:
                raise FloatingPointError(f"{name} is not finite")
        except BaseException as error:
            forget_fit(self)
            vars(self).update(earlier)
            raise_translated(self, error)
        return self

    return checked


def forget_fit(model: Any) -> None:
    """Delete the fitted attributes of a model, whose names end with an underscore."""
    for name in [*vars(model)]:
        if name.endswith("_") and not name.startswith("_"):
            delattr(model, name)


def quietly(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function without numpy's warnings about overflow; the result is checked later."""
    with np.errstate(**FLOATING_POINT):
        return function(*args, **kwargs)


def raise_translated(estimator: Any, error: BaseException) -> NoReturn:
    """Raise an arithmetic or memory error as an error about the input, any other error as it is.

    Parameters
    ----------
    estimator : estimator
        Named in the error, with its parameters that are not at their default.
    error : exception
        The error.
    """
    if isinstance(error, BagwiseError):
        raise error
    if isinstance(error, MemoryError):
        raise NotEnoughMemoryError(
            f"{type(estimator).__name__} ran out of memory ({error}): use fewer or smaller bags."
        ) from error
    if isinstance(error, ArithmeticError | np.linalg.LinAlgError):
        raise _error(estimator, str(error)) from error
    if isinstance(error, ValueError) and any(words in str(error) for words in REFUSALS):
        raise _error(estimator, "an intermediate result is not finite") from error
    raise error


def require_finite(value: Any, name: str, *, infinite: bool = False) -> Any:
    """Return `value`; raise `FloatingPointError` if one of its numbers is not finite.

    Parameters
    ----------
    value : object
        An array, a number, or a list or tuple of them; anything else is accepted.
    name : str
        Name of the value in the message.
    infinite : bool, default=False
        Whether infinity is accepted, but not NaN.

    Returns
    -------
    object
    """
    if not_finite({name: value}, (name,) if infinite else ()) is not None:
        raise FloatingPointError(f"{name} is not finite")
    return value


def not_finite(
    values: dict[Any, Any], may_be_infinite: Iterable[Any], *, only_fitted: bool = False
) -> str | None:
    """The name of the first value with numbers that are not finite; None if there is none.

    Parameters
    ----------
    values : dict of str to object
        Values by name, as for `require_finite`.
    may_be_infinite : iterable of str
        Names of the values that may be infinite, but not NaN.
    only_fitted : bool, default=False
        Whether to check only names that end with an underscore.

    Returns
    -------
    str or None
    """
    for name, value in values.items():
        if only_fitted and (not name.endswith("_") or name.startswith("_")):
            continue
        if isinstance(value, list | tuple):
            each = dict(enumerate(value))
            if not_finite(each, each if name in may_be_infinite else ()) is not None:
                return name
            continue
        numbers = value.data if sparse.issparse(value) else value
        if isinstance(numbers, np.ndarray) and numbers.dtype.kind == "f":
            if numbers.size > SMALL:
                numbers = np.array(extremes(numbers))  # without a temporary array of this size
        elif not isinstance(numbers, float | np.floating):
            continue
        is_fine = ~np.isnan(numbers) if name in may_be_infinite else np.isfinite(numbers)
        if not is_fine.all():
            return name
    return None


def _error(estimator: Any, cause: str) -> InputError:
    return InputError(
        f"{estimator!r} cannot compute with these values ({cause.strip().rstrip('.')}): scale the "
        "features, as by InstanceTransformer(StandardScaler()), or use less extreme parameters."
    )


def column_range(rows: Any) -> tuple[Array, Array]:
    """Smallest and largest value of each column, of a dense or sparse table."""
    return min_max_axis(rows, axis=0) if sparse.issparse(rows) else (rows.min(0), rows.max(0))
