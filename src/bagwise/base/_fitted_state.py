"""Declarations of the fitted attributes of estimators.

An estimator returns its declaration from ``_fitted_state``: a dict from the name of each fitted
attribute to its kind, for example ``{"coef_": Floats("n_machines", "n_features_in_")}``.
`bagwise.persistence` checks a loaded model against its declaration before the model is used,
because compiled loops index arrays without bounds checks.

An axis is a whole number, None (any length), or a name. Three names are known from the model:
``n_features_in_``, ``n_classes`` (the length of ``classes_``) and ``n_machines`` (the number of
binary models: one for two classes or without classes, else one per class). Any other name takes its
length from the first array that has such an axis, and all others must agree. ``"name + 1"`` is one
longer than ``"name"``.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from numbers import Integral, Real
from typing import Any, NoReturn

import numpy as np
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from bagwise.bags import Bags

Axis = int | str | None  # the length of an axis, or its name

# Products of two such weights, and of a weight with data in range, are finite.
LARGEST = 1e150


class MismatchError(ValueError):
    """A fitted attribute does not match the declaration of its estimator."""


class Sizes:
    """Lengths of named axes: known from the model, or taken from the first array that has one.

    Parameters
    ----------
    known : mapping, default=None
        Lengths by name; lengths that are found are added.
    """

    def __init__(self, known: MutableMapping[str, int] | None = None) -> None:
        self.known = {} if known is None else known
        self._items: dict[int, Sizes] = {}

    def expect(self, axis: Axis, length: int, name: str) -> None:
        """Compare the length of an axis with the known one, or set it."""
        expected = length if axis is None else axis
        if isinstance(expected, str):
            symbol, _, more = expected.partition(" + ")
            expected = self.known.setdefault(symbol, length - int(more or 0)) + int(more or 0)
        if length != expected:
            meaning = f" ({axis})" if isinstance(axis, str) else ""
            raise MismatchError(
                f"{name} has an axis of {length} entries: expected {expected}{meaning}"
            )

    def item(self, i: int) -> Sizes:
        """Return the sizes for item i of a list: lengths found there are local to the item."""
        return self._items.setdefault(i, Sizes(ChainMap({}, self.known)))


class Kind:
    """Kind of a fitted attribute.

    Parameters
    ----------
    *shape : int, str or None
        The axes of an array.
    low, high : float, default=None
        The smallest and the largest value; infinite if infinite values are allowed. By default
        those of the class.
    below : int or str, default=None
        Exclusive upper bound of every index: a number or the name of an axis.
    any_value : bool, default=False
        Whether all values, including NaN, are allowed: for numbers that are only displayed.
    optional : bool, default=False
        Whether a fitted model may lack the attribute.
    """

    low: float = -LARGEST
    high: float = LARGEST

    def __init__(
        self,
        *shape: Axis,
        low: float | None = None,
        high: float | None = None,
        below: Axis = None,
        any_value: bool = False,
        optional: bool = False,
    ) -> None:
        self.low = self.low if low is None else low
        self.high = self.high if high is None else high
        self.shape, self.below, self.any_value, self.optional = shape, below, any_value, optional

    @property
    def may_be_infinite(self) -> bool:
        """Whether infinite values are allowed."""
        return bool(np.isinf(self.low) or np.isinf(self.high))

    def check(self, value: Any, sizes: Sizes, name: str) -> None:
        """Raise `MismatchError` unless `value` is of this kind.

        Parameters
        ----------
        value : object
            The attribute.
        sizes : Sizes
            Lengths of axes.
        name : str
            The name of the attribute, for the message.
        """
        raise NotImplementedError


FittedState = dict[str, Kind]


class Anything(Kind):
    """An attribute that is only displayed, never used in a computation."""

    def check(self, value: Any, sizes: Sizes, name: str) -> None:
        """Accept every value."""


class Values(Kind):
    """An array of numbers or texts; only its type and shape are checked."""

    noun = "numbers or texts"

    def accepts(self, dtype: np.dtype[Any]) -> bool:
        """Whether arrays of this type are accepted: numbers, truth values, texts and objects."""
        return dtype.kind in "biufUO"

    def check(self, value: Any, sizes: Sizes, name: str) -> None:
        """Check the type, the axes, then the values."""
        is_plain = isinstance(value, np.ndarray) and not isinstance(value, np.ma.MaskedArray)
        if not is_plain or not value.dtype.isnative:
            _refuse(value, name, f"an array of {self.noun}")
        self.check_array(value, value, sizes, name)

    def check_array(self, array: Any, values: Any, sizes: Sizes, name: str) -> None:
        """Check an array; `values` are all its values, or those that a CSR stores."""
        if not self.accepts(array.dtype):
            _refuse(array, name, f"an array of {self.noun}")
        if len(array.shape) != len(self.shape):
            raise MismatchError(
                f"{name} has the shape {array.shape}: expected {len(self.shape)} axes"
            )
        for axis, length in zip(self.shape, array.shape, strict=True):
            sizes.expect(axis, length, name)
        if values.size:
            self.check_values(values, sizes, name)

    def check_values(self, value: Any, sizes: Sizes, name: str) -> None:
        """Check the values of an array whose type and axes are right."""


class Floats(Values):
    """An array of numbers in single or double precision."""

    noun = "floating-point numbers"

    def accepts(self, dtype: np.dtype[Any]) -> bool:
        """Accept the types compiled code is written for."""
        return dtype in (np.float32, np.float64)

    def check_values(self, value: Any, sizes: Sizes, name: str) -> None:
        """Reject NaN, infinities and values out of range."""
        least, most = float(value.min()), float(value.max())
        if self.any_value or self.low <= least <= most <= self.high:
            return
        if np.isnan(least):
            raise MismatchError(f"{name} holds NaN")
        out = least if least < self.low else most
        raise MismatchError(
            f"{name} holds {out:g}: expected values from {self.low:g} to {self.high:g}"
        )


class Integers(Values):
    """An array of whole numbers."""

    noun = "whole numbers"

    def accepts(self, dtype: np.dtype[Any]) -> bool:
        """Accept signed and unsigned integers."""
        return dtype.kind in "iu"

    def check_values(self, value: Any, sizes: Sizes, name: str) -> None:
        """Reject indices out of range."""
        least, most = int(value.min()), int(value.max())
        if least < self.low:
            raise MismatchError(f"{name} holds {least}: expected at least {self.low}")
        below = sizes.known.get(self.below) if isinstance(self.below, str) else self.below
        if below is not None and most >= below:
            raise MismatchError(f"{name} holds {most}: expected less than {below}")


class Classes(Values):
    """The classes: distinct labels.

    Parameters
    ----------
    at_least : int, default=1
        Minimum number of labels.
    """

    noun = "labels"

    def __init__(self, *, at_least: int = 1) -> None:
        super().__init__("n_classes")
        self.at_least = at_least

    def check(self, value: Any, sizes: Sizes, name: str) -> None:
        """Check the type and the axis; reject duplicate labels and NaN."""
        super().check(value, sizes, name)
        listed = value.tolist()
        try:
            distinct = len({label for label in listed if label == label})
        except TypeError as error:
            raise MismatchError(
                f"{name} holds labels that cannot be told apart ({error})"
            ) from error
        if distinct != len(listed):
            raise MismatchError(
                f"{name} holds {len(listed)} labels, of which {distinct} are distinct"
            )
        if distinct < self.at_least:
            raise MismatchError(
                f"{name} holds {distinct} labels: expected at least {self.at_least}"
            )


class Names(Values):
    """Names of features."""

    noun = "names"

    def accepts(self, dtype: np.dtype[Any]) -> bool:
        """Accept object arrays, in which scikit-learn stores names."""
        return dtype.kind == "O"

    def check_values(self, value: Any, sizes: Sizes, name: str) -> None:
        """Reject names that are not texts."""
        strange = [item for item in value.tolist() if not isinstance(item, str)]
        if strange:
            raise MismatchError(f"{name} holds {_described(strange[0])}: expected texts")


class Table(Floats):
    """Rows of features, dense or CSR: prototypes, support vectors."""

    noun = "numbers, dense or CSR"

    def accepts(self, dtype: np.dtype[Any]) -> bool:
        """Accept all types that instances may have."""
        return dtype.kind in "biu" or super().accepts(dtype)

    def check(self, value: Any, sizes: Sizes, name: str) -> None:
        """Check the type, the axes, the indices of sparse rows, then the values."""
        if not sparse.issparse(value):
            return super().check(value, sizes, name)
        check_sparse(value, name)
        if value.format != "csr":
            _refuse(value, name, f"an array of {self.noun}")
        return self.check_array(value, value.data, sizes, name)


class BagsOf(Table):
    """Bags with the features of the model, kept from training.

    Parameters
    ----------
    n_bags : int, str or None
        Number of bags.
    n_instances : int, str or None, default=None
        Number of instances of all bags.
    """

    def __init__(self, n_bags: Axis, *, n_instances: Axis = None) -> None:
        super().__init__(n_instances, "n_features_in_")
        self.n_bags = n_bags

    def check(self, value: Any, sizes: Sizes, name: str) -> None:
        """Check the number of bags, then the table of instances."""
        if type(value) is not Bags:
            _refuse(value, name, "Bags")
        sizes.expect(self.n_bags, len(value), name)
        if len(value) and value.sizes.min() == 0:
            raise MismatchError(f"{name} holds an empty bag")
        super().check(value.instances, sizes, f"the instances of {name}")


class Number(Floats):
    """One number."""

    def check(self, value: Any, sizes: Sizes, name: str) -> None:
        """Check the type and the range."""
        if not isinstance(value, Real) or isinstance(value, bool):
            _refuse(value, name, "a number")
        self.check_values(np.array(value, dtype=np.float64), sizes, name)


class Whole(Integers):
    """One whole number, not negative by default."""

    low = 0

    def check(self, value: Any, sizes: Sizes, name: str) -> None:
        """Check the type and the range."""
        if not isinstance(value, Integral) or isinstance(value, bool):
            _refuse(value, name, "a whole number")
        if not -(2**63) <= int(value) < 2**63:
            raise MismatchError(f"{name} is out of range")
        self.check_values(np.array(int(value)), sizes, name)


class Text(Kind):
    """A text.

    Parameters
    ----------
    options : set of str
        The allowed texts.
    optional : bool, default=False
        Whether a fitted model may lack the attribute.
    """

    def __init__(self, options: set[str], *, optional: bool = False) -> None:
        super().__init__(optional=optional)
        self.options = options

    def check(self, value: Any, sizes: Sizes, name: str) -> None:
        """Check that the value is one of the options."""
        if not isinstance(value, str) or value not in self.options:
            _refuse(value, name, f"one of {', '.join(map(repr, sorted(self.options)))}")


class OneOf(Kind):
    """One of the classes, or None.

    Parameters
    ----------
    classes : array-like
        The classes of the model.
    optional : bool, default=False
        Whether a fitted model may lack the attribute.
    """

    def __init__(self, classes: Any, *, optional: bool = False) -> None:
        super().__init__(optional=optional)
        self.classes = np.asarray(classes).tolist()

    def check(self, value: Any, sizes: Sizes, name: str) -> None:
        """Check that the value is None or one of the classes."""
        same = [type(value) is type(label) and value == label for label in self.classes]
        if value is not None and not any(same):
            _refuse(value, name, "one of the classes, or None")


class OrNone(Kind):
    """An attribute of a given kind, or None.

    Parameters
    ----------
    kind : Kind
        The kind of the attribute if it is not None.
    """

    def __init__(self, kind: Kind) -> None:
        super().__init__(optional=kind.optional)
        self.kind = kind

    def check(self, value: Any, sizes: Sizes, name: str) -> None:
        """Check the value unless it is None."""
        if value is not None:
            self.kind.check(value, sizes, name)


class ListOf(Kind):
    """A list; axes with names that are unknown outside may differ between items.

    Parameters
    ----------
    kind : Kind or sequence of Kind
        The kind of all items, or of each item.
    length : int, str or None, default=None
        Number of items.
    """

    def __init__(self, kind: Kind | Sequence[Kind], length: Axis = None) -> None:
        super().__init__()
        self.kind = kind
        self.length = length if isinstance(kind, Kind) else len(kind)

    @property
    def may_be_infinite(self) -> bool:
        """Whether infinite values are allowed in the items."""
        return isinstance(self.kind, Kind) and self.kind.may_be_infinite

    def check(self, value: Any, sizes: Sizes, name: str) -> None:
        """Check the length, then each item."""
        if not isinstance(value, list):
            _refuse(value, name, "a list")
        sizes.expect(self.length, len(value), name)
        for i, item in enumerate(value):
            kind = self.kind if isinstance(self.kind, Kind) else self.kind[i]
            kind.check(item, sizes.item(i), f"{name}[{i}]")


class TupleOf(Kind):
    """A tuple.

    Parameters
    ----------
    *kinds : Kind
        The kinds of the items.
    """

    def __init__(self, *kinds: Kind) -> None:
        super().__init__()
        self.kinds = kinds

    def check(self, value: Any, sizes: Sizes, name: str) -> None:
        """Check the length, then each item."""
        if not isinstance(value, tuple) or len(value) != len(self.kinds):
            _refuse(value, name, f"{len(self.kinds)} items")
        for i, (item, kind) in enumerate(zip(value, self.kinds, strict=True)):
            kind.check(item, sizes, f"{name}[{i}]")


class Model(Kind):
    """A fitted estimator inside the model. Its attributes are checked by its own declaration.

    Parameters
    ----------
    method : str
        A method that it must have.
    n_features : int or str, default="n_features_in_"
        Number of features it was fitted on.
    n_classes : int or str, default=None
        Number of its classes.
    """

    def __init__(
        self, method: str, *, n_features: Axis = "n_features_in_", n_classes: Axis = None
    ) -> None:
        super().__init__()
        self.method, self.n_features, self.n_classes = method, n_features, n_classes

    def check(self, value: Any, sizes: Sizes, name: str) -> None:
        """Check the method, the number of features and the number of classes."""
        if not hasattr(value, "get_params") or isinstance(value, type):
            _refuse(value, name, "an estimator")
        try:
            check_is_fitted(value)
        except (NotFittedError, TypeError) as error:
            raise MismatchError(f"{name} is not fitted") from error
        if not callable(getattr(value, self.method, None)):
            raise MismatchError(f"{name} is {_described(value)}, which has no {self.method}")
        n_features = getattr(value, "n_features_in_", None)
        if n_features is not None:
            Whole(low=1).check(n_features, sizes, f"n_features_in_ of {name}")
            sizes.expect(self.n_features, int(n_features), f"n_features_in_ of {name}")
        if self.n_classes is not None:
            classes = getattr(value, "classes_", None)
            if not isinstance(classes, np.ndarray) or classes.ndim != 1:
                raise MismatchError(f"{name} has no classes")
            sizes.expect(self.n_classes, len(classes), f"classes_ of {name}")


def check_sparse(value: Any, name: str) -> None:
    """Raise `MismatchError` for a sparse array with indices out of range.

    Parameters
    ----------
    value : sparse array
        The array.
    name : str
        The name of the array, for the message.
    """
    if value.format not in ("csr", "csc", "bsr", "coo"):
        raise MismatchError(f"{name} is a sparse array of the format {value.format!r}")
    try:
        if value.format != "coo":
            value.check_format(full_check=True)
            return
        for indices, length in zip(value.coords, value.shape, strict=True):
            Integers("n", low=0, below=int(length)).check(indices, Sizes(), name)
    except (ValueError, TypeError, AttributeError, IndexError) as error:
        raise MismatchError(f"the indices of {name} are damaged ({error})") from error


def fitted_state_problem(
    model: Any, declare: Callable[[Any], FittedState] | None = None
) -> str | None:
    """Check a model against its declaration.

    Parameters
    ----------
    model : estimator
        An estimator, fitted or not.
    declare : callable, default=None
        Returns the declaration of a model; by default its ``_fitted_state`` is called.

    Returns
    -------
    str or None
        The first mismatch; None if there is none, or if the model is not fitted.
    """
    if not has_fitted_attributes(model):
        return None
    try:
        declared = model._fitted_state() if declare is None else declare(model)
    # A declaration reads parameters and other attributes; in a file these can be any objects.
    except Exception as error:
        return f"its parameters do not match its fitted attributes ({error})"
    return compare_state(vars(model), declared)


def has_fitted_attributes(model: Any) -> bool:
    """Whether a model has any fitted attribute.

    Parameters
    ----------
    model : estimator
        An estimator of bagwise or scikit-learn.

    Returns
    -------
    bool
    """
    return any(name.endswith("_") and not name.startswith("__") for name in vars(model))


def compare_state(held: Mapping[str, Any], declared: FittedState) -> str | None:
    """Check attributes against their declaration.

    Parameters
    ----------
    held : mapping
        Attributes by name; those that are not declared are ignored.
    declared : dict from str to Kind
        The declaration.

    Returns
    -------
    str or None
        The first mismatch; None if there is none.
    """
    try:
        sizes = _sizes_of(held, declared)
        for name, kind in declared.items():
            if name in held:
                kind.check(held[name], sizes, name)
            elif not kind.optional:
                raise MismatchError(f"{name} is missing")
    except MismatchError as error:
        return str(error)
    return None


def _sizes_of(held: Mapping[str, Any], declared: FittedState) -> Sizes:
    known = {"n_machines": 1}
    if "n_features_in_" in declared:
        n_features = held.get("n_features_in_")
        declared["n_features_in_"].check(n_features, Sizes(), "n_features_in_")
        known["n_features_in_"] = int(n_features)  # type: ignore[arg-type]
    classes = held.get("classes_")
    if "classes_" in declared and classes is not None:
        declared["classes_"].check(classes, Sizes(), "classes_")
        known["n_classes"] = n_classes = len(classes)
        known["n_machines"] = 1 if n_classes == 2 else n_classes
    return Sizes(known)


def _refuse(value: Any, name: str, expected: str) -> NoReturn:
    raise MismatchError(f"{name} is {_described(value)}: expected {expected}")


def _described(value: Any) -> str:
    if isinstance(value, np.ndarray) or sparse.issparse(value):
        return f"{type(value).__name__} of {value.dtype} and shape {value.shape}"
    return type(value).__name__
