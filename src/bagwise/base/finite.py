"""A net under every estimator: what it learns and answers is finite, or an `InputError` says why.

The checks of the input refuse most values with which arithmetic fails. Extreme parameters, or
features of very different scale, can still lead to overflow or to a singular matrix inside a
method; here that ends in one kind of error, with the remedy, instead of NaN or a message of a
dependency about arrays that the user has never seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from inspect import getattr_static
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.metaestimators import available_if

from bagwise._validation import check_bags
from bagwise._validation.values import extremes
from bagwise.exceptions import BagwiseError, InputError, NotEnoughMemoryError

__all__ = ["check_answers", "checked_fit"]

ANSWERS = (
    "annotate",
    "annotate_proba",
    "decision_function",
    "inverse_transform",
    "key_instances",
    "log_likelihood",
    "predict",
    "predict_instances",
    "predict_proba",
    "predict_proba_instances",
    "score_instances",
    "transform",
)
# How scikit-learn and scipy refuse arrays that are not finite.
REFUSALS = ("contains NaN", "contains infinity", "infs or NaNs", "must be finite", "non-finite")


# What numpy does about overflow and the like inside a method: the result is checked instead. The
# tests let it warn, which fails them.
FLOATING_POINT = {"over": "ignore", "divide": "ignore", "invalid": "ignore"}


def checked_fit(fit: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``fit``: every fitted number is finite, or the estimator is not fitted.

    An estimator names in ``_may_be_infinite`` the attributes (and methods) where infinity has a
    meaning; NaN has none.

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
        with _numerical_errors(self, X):
            fit(self, *args, **kwargs)
        fitted = [name for name in vars(self) if name.endswith("_") and name[0] != "_"]
        for name in fitted:
            if not _is_finite(vars(self)[name], infinite=name in self._may_be_infinite):
                for each in fitted:
                    delattr(self, each)
                raise _error(self, X, f"{name} is not finite")
        return self

    return checked


def check_answers(cls: type[Any]) -> None:
    """Wrap the methods of a class that answer about bags or rows: their numbers are finite.

    Parameters
    ----------
    cls : class
        An estimator; its methods are replaced.
    """
    for name in ANSWERS:
        method = getattr_static(cls, name, None)
        inner = getattr(method, "fn", method)  # of a method that is available under a condition
        if inner is None or getattr(inner, "answers_are_checked", False):
            continue
        checked = _checked_answer(inner)
        if method is not inner:
            checked = available_if(method.check)(checked)
        setattr(cls, name, checked)
        if hasattr(checked, "__set_name__"):
            checked.__set_name__(cls, name)


def _checked_answer(method: Callable[..., Any]) -> Any:
    @wraps(method)
    def checked(self: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
        with _numerical_errors(self, X):
            answer = method(self, X, *args, **kwargs)
        name = method.__name__
        if not _is_finite(answer, infinite=name in self._may_be_infinite):
            raise _error(self, X, f"{name} is not finite")
        return answer

    checked.answers_are_checked = True  # type: ignore[attr-defined]
    return checked


@contextmanager
def _numerical_errors(estimator: Any, X: Any) -> Iterator[None]:
    """Turn failures of arithmetic and of memory into errors about the input."""
    try:
        with np.errstate(**FLOATING_POINT):  # type: ignore[arg-type]
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


def _is_finite(value: Any, *, infinite: bool) -> bool:
    """Whether all numbers are finite, or `infinite` but not NaN."""
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
    name = type(estimator).__name__
    changed = _changed_numbers(estimator)
    return InputError(
        f"{name} cannot compute with these values ({cause.strip().rstrip('.')}).{_widest(X)} Scale "
        "the features first, for example with InstanceTransformer(StandardScaler()) in a pipeline"
        + (f", and choose less extreme parameters than {changed}." if changed else ".")
    )


def _changed_numbers(estimator: Any) -> str:
    """The numeric parameters that are not at their default, as text."""
    given = estimator.get_params(deep=False)
    plain = type(estimator)().get_params(deep=False)
    changed = {
        key: value
        for key, value in given.items()
        if isinstance(value, int | float)
        and not isinstance(value, bool)
        and key not in ("random_state", "verbose")
        and value != plain.get(key)
    }
    return ", ".join(f"{key}={value!r}" for key, value in changed.items())


def _widest(X: Any) -> str:
    """Name the feature with the largest magnitude, where X can be read here."""
    try:
        bags = check_bags(None, X, reset=True, allow_nan=True)
    except BagwiseError:
        return ""
    rows = bags.instances
    if not isinstance(rows, np.ndarray) and not sparse.issparse(rows):
        return ""
    low, high = (np.asarray(_dense(edge(axis=0))).ravel() for edge in (rows.min, rows.max))
    j = int(np.argmax(np.maximum(np.abs(low), np.abs(high))))
    names = bags.feature_names
    feature = f"feature {j}" if names is None else f"feature {j} ({names[j]!r})"
    return f" The largest magnitudes are in {feature}, from {low[j]:.3g} to {high[j]:.3g}."


def _dense(vector: Any) -> Any:
    return vector.toarray() if sparse.issparse(vector) else vector
