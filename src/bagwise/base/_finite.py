"""Conversion of numerical failures into an `InputError` that names the cause and the remedy.

Validation rejects most values with which arithmetic fails. Extreme parameters, or features of very
different scale, can still lead to overflow or to a singular matrix inside a method. The user then
gets an error about features and parameters instead of NaN or an error about an internal array.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.sparsefuncs import min_max_axis

from bagwise._common.types import Array
from bagwise.bags import Bags
from bagwise.compute import is_here
from bagwise.compute.arrays import extremes
from bagwise.exceptions import BagwiseError, InputError, NotEnoughMemoryError
from bagwise.validation import check_bags

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
        X = args[0] if args else kwargs.get("X")
        with numerical_errors(self, X):
            earlier = fitted_attributes(self)
            if fit.__name__ == "fit" and not getattr(self, "warm_start", False):
                forget(self, earlier)
            try:
                quietly(fit, self, *args, **kwargs)
                for name, value in fitted_attributes(self).items():
                    require_finite(value, name, infinite=name in self._may_be_infinite)
            except BaseException:
                forget(self, fitted_attributes(self))
                vars(self).update(earlier)
                raise
        return self

    return checked


def fitted_attributes(model: Any) -> dict[str, Any]:
    """Attributes of a model whose names end with an underscore."""
    return {n: v for n, v in vars(model).items() if n.endswith("_") and not n.startswith("_")}


def forget(model: Any, names: Iterable[str]) -> None:
    """Delete attributes of a model."""
    for name in names:
        delattr(model, name)


def quietly(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function without numpy's warnings about overflow; the result is checked later."""
    with np.errstate(**FLOATING_POINT):
        return function(*args, **kwargs)


@contextmanager
def numerical_errors(estimator: Any, X: Any) -> Iterator[None]:
    """Turn arithmetic and memory errors into errors about the input.

    Parameters
    ----------
    estimator : estimator
        Named in the error, with its parameters that are not at their default.
    X : object
        The input as the user passed it.
    """
    try:
        yield
    except BagwiseError:
        raise
    except MemoryError as error:
        raise NotEnoughMemoryError(
            f"{type(estimator).__name__} ran out of memory ({error}): use fewer or smaller bags."
        ) from error
    except (ArithmeticError, np.linalg.LinAlgError) as error:
        raise _error(estimator, X, str(error)) from error
    except ValueError as error:
        if any(words in str(error) for words in REFUSALS):
            raise _error(estimator, X, "an intermediate result is not finite") from error
        raise


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
    if not _is_finite(value, infinite=infinite):
        raise FloatingPointError(f"{name} is not finite")
    return value


def _is_finite(value: Any, *, infinite: bool) -> bool:
    if isinstance(value, list | tuple):
        return all(_is_finite(each, infinite=infinite) for each in value)
    if sparse.issparse(value):
        value = value.data
    if isinstance(value, np.ndarray) and value.ndim and value.dtype.kind == "f":
        value = np.array(extremes(value))
    elif not isinstance(value, float | np.floating):
        return True
    return not np.isnan(value).any() if infinite else bool(np.isfinite(value).all())


def _error(estimator: Any, X: Any, cause: str) -> InputError:
    return InputError(
        f"{estimator!r} cannot compute with these values ({cause.strip().rstrip('.')})."
        f"{_widest(X)} Scale the features first, for example with "
        "InstanceTransformer(StandardScaler()) in a pipeline, or choose less extreme parameters."
    )


def _widest(X: Any) -> str:
    """Name the feature with the largest magnitude, if X can be read in this process."""
    if isinstance(X, Bags) and not is_here(X):
        return ""
    bags = check_bags(None, X, reset=True)  # an error that names the bag, if X is at fault
    low, high = column_range(bags.instances)
    j = int(np.argmax(np.maximum(np.abs(low), np.abs(high))))
    names = bags.feature_names
    feature = f"feature {j}" if names is None else f"feature {j} ({names[j]!r})"
    return f" The largest magnitudes are in {feature}, from {low[j]:.3g} to {high[j]:.3g}."


def column_range(rows: Any) -> tuple[Array, Array]:
    """Smallest and largest value of each column, of a dense or sparse table."""
    return min_max_axis(rows, axis=0) if sparse.issparse(rows) else (rows.min(0), rows.max(0))
