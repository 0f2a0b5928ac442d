"""What a fitted estimator holds, as the estimator declares it.

An estimator returns its declaration from ``_fitted_state``: a dict from the name of each fitted
attribute to its kind, for example ``{"coef_": Floats("n_machines", "n_features_in_")}``.
`bagwise.base._state_checks` compares a model with its declaration; `bagwise.persistence` does so
before a loaded model is used, because compiled loops index arrays without bounds checks.

An axis is a whole number, None (any length), or a name. Three names are known from the model:
``n_features_in_``, ``n_classes`` (the length of ``classes_``) and ``n_machines`` (one machine for
two classes or for none, else one per class). Any other name takes its length from the first array
that has such an axis, and all others must agree. ``"name + 1"`` is one longer than ``"name"``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from bagwise.bags import Bags

Axis = int | str | None  # the length of an axis, or its name

# Products of two such weights, and of a weight with data in range, are finite.
LARGEST = 1e150


class MismatchError(ValueError):
    """A fitted attribute is not what its estimator declares."""


class Sizes:
    """Lengths of named axes: known from the model, or taken from the first array that has one.

    Parameters
    ----------
    known : mapping
        Lengths by name.
    parent : Sizes, default=None
        Where names are looked up first. A name that `parent` does not know belongs to this one.
    """

    def __init__(self, known: Mapping[str, int] | None = None, parent: Sizes | None = None) -> None:
        self._known = dict(known or {})
        self._parent = parent
        self._items: dict[int, Sizes] = {}

    def get(self, name: str) -> int | None:
        """Return the length of a named axis, None where it is not known yet."""
        if name in self._known:
            return self._known[name]
        return None if self._parent is None else self._parent.get(name)

    def expect(self, axis: Axis, length: int, name: str) -> None:
        """Compare the length of an axis with the known one, or set it."""
        if axis is None:
            return
        expected: int | None
        if isinstance(axis, str):
            symbol, _, more = axis.partition(" + ")
            expected = self.get(symbol)
            if expected is None:
                self._known[symbol] = length - int(more or 0)
                return
            expected += int(more or 0)
        else:
            expected = axis
        if length != expected:
            meaning = f" ({axis})" if isinstance(axis, str) else ""
            raise MismatchError(
                f"{name} has an axis of {length} entries: expected {expected}{meaning}"
            )

    def item(self, i: int) -> Sizes:
        """Return the sizes at place i of a list: there, unknown names are known to i alone."""
        return self._items.setdefault(i, Sizes(parent=self))


class Kind:
    """A kind of fitted attribute.

    Parameters
    ----------
    optional : bool, default=False
        Whether a fitted model may lack the attribute.
    """

    may_be_infinite = False  # whether infinite numbers are meant to occur

    def __init__(self, *, optional: bool = False) -> None:
        self.optional = optional

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
    """An attribute that is only shown, never computed with."""

    def check(self, value: Any, sizes: Sizes, name: str) -> None:
        """Accept every value."""


class Array(Kind):
    """An array.

    Parameters
    ----------
    *shape : int, str or None
        Its axes.
    optional : bool, default=False
        Whether a fitted model may lack it.
    """

    noun = "values"

    def __init__(self, *shape: Axis, optional: bool = False) -> None:
        super().__init__(optional=optional)
        self.shape = shape

    def accepts(self, dtype: np.dtype[Any]) -> bool:
        """Whether arrays of this type are accepted."""
        raise NotImplementedError

    def check(self, value: Any, sizes: Sizes, name: str) -> None:
        """Compare type, axes, then values."""
        is_plain = isinstance(value, np.ndarray) and not isinstance(value, np.ma.MaskedArray)
        if not is_plain or not value.dtype.isnative or not self.accepts(value.dtype):
            raise MismatchError(f"{name} is {_described(value)}: expected an array of {self.noun}")
        _check_axes(value.shape, self.shape, sizes, name)
        self.check_values(value, sizes, name)

    def check_values(self, value: NDArray[Any], sizes: Sizes, name: str) -> None:
        """Compare the values, of an array that is otherwise right."""


class Values(Array):
    """An array of numbers or texts of which nothing but the shape matters."""

    noun = "numbers or texts"

    def accepts(self, dtype: np.dtype[Any]) -> bool:
        """Accept numbers, truth values, texts and objects."""
        return dtype.kind in "biufUO"


class Floats(Array):
    """An array of numbers in single or double precision.

    Parameters
    ----------
    *shape : int, str or None
        Its axes.
    low, high : float, default=-1e150, 1e150
        The least and the largest value; infinite where infinite values are meant to occur.
    any_value : bool, default=False
        Whether NaN may occur too: a curve that is only shown.
    optional : bool, default=False
        Whether a fitted model may lack it.
    """

    noun = "floating-point numbers"

    def __init__(
        self,
        *shape: Axis,
        low: float = -LARGEST,
        high: float = LARGEST,
        any_value: bool = False,
        optional: bool = False,
    ) -> None:
        super().__init__(*shape, optional=optional)
        self.low, self.high, self.any_value = low, high, any_value
        self.may_be_infinite = bool(np.isinf(low) or np.isinf(high))

    def accepts(self, dtype: np.dtype[Any]) -> bool:
        """Accept the types compiled code is written for."""
        return dtype in (np.float32, np.float64)

    def check_values(self, value: NDArray[Any], sizes: Sizes, name: str) -> None:
        """Look for NaN, infinities and values out of range."""
        if not self.any_value:
            _check_range(value, self.low, self.high, name)


class Integers(Array):
    """An array of whole numbers.

    Parameters
    ----------
    *shape : int, str or None
        Its axes.
    low : int, default=None
        The least value.
    below : int or str, default=None
        What every value is below: a number or the name of an axis, for indices.
    optional : bool, default=False
        Whether a fitted model may lack it.
    """

    noun = "whole numbers"

    def __init__(
        self, *shape: Axis, low: int | None = None, below: Axis = None, optional: bool = False
    ) -> None:
        super().__init__(*shape, optional=optional)
        self.low, self.below = low, below

    def accepts(self, dtype: np.dtype[Any]) -> bool:
        """Accept signed and unsigned integers."""
        return dtype.kind in "iu"

    def check_values(self, value: NDArray[Any], sizes: Sizes, name: str) -> None:
        """Look for indices out of range."""
        if value.size == 0:
            return
        least, most = int(value.min()), int(value.max())
        if self.low is not None and least < self.low:
            raise MismatchError(f"{name} holds {least}: expected at least {self.low}")
        below = sizes.get(self.below) if isinstance(self.below, str) else self.below
        if below is not None and most >= below:
            raise MismatchError(f"{name} holds {most}: expected less than {below}")


class Classes(Array):
    """The classes: distinct labels.

    Parameters
    ----------
    at_least : int, default=1
        How many there are at least.
    optional : bool, default=False
        Whether a fitted model may lack them.
    """

    noun = "labels"

    def __init__(self, *, at_least: int = 1, optional: bool = False) -> None:
        super().__init__("n_classes", optional=optional)
        self.at_least = at_least

    def accepts(self, dtype: np.dtype[Any]) -> bool:
        """Accept numbers, truth values, texts and objects."""
        return dtype.kind in "biufUO"

    def check_values(self, value: NDArray[Any], sizes: Sizes, name: str) -> None:
        """Look for labels that occur twice, or equal nothing."""
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


class Names(Array):
    """Names of features."""

    noun = "names"

    def accepts(self, dtype: np.dtype[Any]) -> bool:
        """Accept what scikit-learn keeps names in."""
        return dtype.kind == "O"

    def check_values(self, value: NDArray[Any], sizes: Sizes, name: str) -> None:
        """Look for names that are not texts."""
        strange = [item for item in value.tolist() if not isinstance(item, str)]
        if strange:
            raise MismatchError(f"{name} holds {_described(strange[0])}: expected texts")


class Table(Floats):
    """Rows of features, dense or CSR: prototypes, support vectors."""

    noun = "numbers, dense or CSR"

    def accepts(self, dtype: np.dtype[Any]) -> bool:
        """Accept all numbers that instances may be."""
        return dtype.kind in "biu" or dtype in (np.float32, np.float64)

    def check(self, value: Any, sizes: Sizes, name: str) -> None:
        """Compare type, axes, the indices of sparse rows, then values."""
        if not sparse.issparse(value):
            return super().check(value, sizes, name)
        check_sparse(value, name)
        if value.format != "csr" or not self.accepts(value.dtype):
            raise MismatchError(f"{name} is {_described(value)}: expected an array of {self.noun}")
        _check_axes(value.shape, self.shape, sizes, name)
        return self.check_values(value.data, sizes, name)

    def check_values(self, value: NDArray[Any], sizes: Sizes, name: str) -> None:
        """Look for NaN and infinities."""
        if value.dtype.kind == "f":
            super().check_values(value, sizes, name)


class BagsOf(Table):
    """Bags with the features of the model, kept from training.

    Parameters
    ----------
    n_bags : int, str or None
        How many.
    n_instances : int, str or None, default=None
        How many instances they have together.
    optional : bool, default=False
        Whether a fitted model may lack them.
    """

    def __init__(self, n_bags: Axis, *, n_instances: Axis = None, optional: bool = False) -> None:
        super().__init__(n_instances, "n_features_in_", optional=optional)
        self.n_bags = n_bags

    def check(self, value: Any, sizes: Sizes, name: str) -> None:
        """Compare the number of bags, then the table of instances."""
        if type(value) is not Bags:
            raise MismatchError(f"{name} is {_described(value)}: expected Bags")
        sizes.expect(self.n_bags, len(value), name)
        if len(value) and value.sizes.min() == 0:
            raise MismatchError(f"{name} holds an empty bag")
        super().check(value.instances, sizes, f"the instances of {name}")


class Number(Kind):
    """One number.

    Parameters
    ----------
    low, high : float, default=-1e150, 1e150
        The least and the largest value.
    any_value : bool, default=False
        Whether infinities and NaN may occur: a number that is only shown.
    optional : bool, default=False
        Whether a fitted model may lack it.
    """

    def __init__(
        self,
        *,
        low: float = -LARGEST,
        high: float = LARGEST,
        any_value: bool = False,
        optional: bool = False,
    ) -> None:
        super().__init__(optional=optional)
        self.low, self.high, self.any_value = low, high, any_value

    def check(self, value: Any, sizes: Sizes, name: str) -> None:
        """Compare type and range."""
        if not isinstance(value, Real) or isinstance(value, bool):
            raise MismatchError(f"{name} is {_described(value)}: expected a number")
        if not self.any_value:
            _check_range(np.array([value], dtype=np.float64), self.low, self.high, name)


class Whole(Kind):
    """One whole number.

    Parameters
    ----------
    low : int, default=0
        The least value.
    below : int or str, default=None
        What it is below: a number or the name of an axis.
    optional : bool, default=False
        Whether a fitted model may lack it.
    """

    def __init__(self, *, low: int = 0, below: Axis = None, optional: bool = False) -> None:
        super().__init__(optional=optional)
        self.low, self.below = low, below

    def check(self, value: Any, sizes: Sizes, name: str) -> None:
        """Compare type and range."""
        if not isinstance(value, Integral) or isinstance(value, bool):
            raise MismatchError(f"{name} is {_described(value)}: expected a whole number")
        if not -(2**63) <= int(value) < 2**63:
            raise MismatchError(f"{name} is out of range")
        Integers(low=self.low, below=self.below).check_values(np.array(int(value)), sizes, name)


class Text(Kind):
    """A text.

    Parameters
    ----------
    options : set of str
        What it may be.
    optional : bool, default=False
        Whether a fitted model may lack it.
    """

    def __init__(self, options: set[str], *, optional: bool = False) -> None:
        super().__init__(optional=optional)
        self.options = options

    def check(self, value: Any, sizes: Sizes, name: str) -> None:
        """Compare with the options."""
        if not isinstance(value, str) or value not in self.options:
            expected = ", ".join(map(repr, sorted(self.options)))
            raise MismatchError(f"{name} is {_described(value)}: expected one of {expected}")


class OrNone(Kind):
    """A kind, or None.

    Parameters
    ----------
    kind : Kind
        What it is where it is not None.
    """

    def __init__(self, kind: Kind) -> None:
        super().__init__(optional=kind.optional)
        self.kind = kind

    def check(self, value: Any, sizes: Sizes, name: str) -> None:
        """Check what is not None."""
        if value is not None:
            self.kind.check(value, sizes, name)


class ListOf(Kind):
    """A list; axes whose names are unknown outside may differ from place to place.

    Parameters
    ----------
    kind : Kind or sequence of Kind
        What each item is.
    length : int, str or None, default=None
        How many items there are.
    """

    def __init__(self, kind: Kind | Sequence[Kind], length: Axis = None) -> None:
        super().__init__()
        self.kind = kind
        self.may_be_infinite = isinstance(kind, Kind) and kind.may_be_infinite
        self.length = length if isinstance(kind, Kind) else len(kind)

    def check(self, value: Any, sizes: Sizes, name: str) -> None:
        """Compare the length, then each item."""
        if not isinstance(value, list):
            raise MismatchError(f"{name} is {_described(value)}: expected a list")
        sizes.expect(self.length, len(value), name)
        for i, item in enumerate(value):
            kind = self.kind if isinstance(self.kind, Kind) else self.kind[i]
            kind.check(item, sizes.item(i), f"{name}[{i}]")


class TupleOf(Kind):
    """A tuple.

    Parameters
    ----------
    *kinds : Kind
        What its items are.
    """

    def __init__(self, *kinds: Kind) -> None:
        super().__init__()
        self.kinds = kinds

    def check(self, value: Any, sizes: Sizes, name: str) -> None:
        """Compare the length, then each item."""
        if not isinstance(value, tuple) or len(value) != len(self.kinds):
            raise MismatchError(f"{name} is {_described(value)}: expected {len(self.kinds)} items")
        for i, (item, kind) in enumerate(zip(value, self.kinds, strict=True)):
            kind.check(item, sizes, f"{name}[{i}]")


class Model(Kind):
    """A fitted estimator inside the model. What it holds is compared with its own declaration.

    Parameters
    ----------
    *methods : str
        What it must offer.
    n_features : int or str, default="n_features_in_"
        How many features it was fitted on.
    n_classes : int or str, default=None
        How many classes it knows.
    """

    def __init__(
        self, *methods: str, n_features: Axis = "n_features_in_", n_classes: Axis = None
    ) -> None:
        super().__init__()
        self.methods, self.n_features, self.n_classes = methods, n_features, n_classes

    def check(self, value: Any, sizes: Sizes, name: str) -> None:
        """Compare methods, features and classes."""
        if not hasattr(value, "get_params") or isinstance(value, type):
            raise MismatchError(f"{name} is {_described(value)}: expected an estimator")
        try:
            check_is_fitted(value)
        except (NotFittedError, TypeError) as error:
            raise MismatchError(f"{name} is not fitted") from error
        for method in self.methods:
            if not callable(getattr(value, method, None)):
                raise MismatchError(f"{name} is {_described(value)}, which has no {method}")
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
    """Raise `MismatchError` for a sparse array whose indices lead outside it.

    Parameters
    ----------
    value : sparse array or matrix
        As it came from a file.
    name : str
        What it is called.
    """
    try:
        if value.format in ("csr", "csc", "bsr"):
            value.check_format(full_check=True)
            return
        if value.format == "coo":
            for indices, length in zip(value.coords, value.shape, strict=True):
                Integers("n", low=0, below=int(length)).check(indices, Sizes(), name)
            return
    except (ValueError, TypeError, AttributeError, IndexError) as error:
        raise MismatchError(f"the indices of {name} are damaged ({error})") from error
    raise MismatchError(f"{name} is a sparse array of the format {value.format!r}")


def _check_axes(shape: tuple[int, ...], axes: Sequence[Axis], sizes: Sizes, name: str) -> None:
    if len(shape) != len(axes):
        raise MismatchError(f"{name} has the shape {shape}: expected {len(axes)} axes")
    for axis, length in zip(axes, shape, strict=True):
        sizes.expect(axis, length, name)


def _check_range(value: NDArray[Any], low: float, high: float, name: str) -> None:
    if value.size == 0:
        return
    least, most = float(value.min()), float(value.max())
    if np.isnan(least):
        raise MismatchError(f"{name} holds NaN")
    if least < low or most > high:
        out = least if least < low else most
        raise MismatchError(f"{name} holds {out:g}: expected values from {low:g} to {high:g}")


def _described(value: Any) -> str:
    if isinstance(value, np.ndarray) or sparse.issparse(value):
        return f"{type(value).__name__} of {value.dtype} and shape {value.shape}"
    return type(value).__name__
