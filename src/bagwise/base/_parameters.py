"""Constraints and descriptions of the parameters that several estimators share.

An estimator repeats neither the constraint of such a parameter in `_parameter_constraints` nor its
description: a line ``{kernel}`` in its docstring is replaced by the entry of `kernel` in the
docstring of a base class, with the default of the estimator.
"""

import inspect
import re
import textwrap
from dataclasses import dataclass, fields
from numbers import Integral, Real
from os import PathLike
from typing import Any, TypeVar, dataclass_transform

from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS

from bagwise._common.sklearn import Interval, StrOptions

Estimator = TypeVar("Estimator")

COUNT = Interval(Integral, 1, None, closed="left")
NOT_NEGATIVE = Interval(Real, 0, None, closed="left")
POSITIVE = Interval(Real, 0, None, closed="neither")

# The name of a kernel, a function, or "precomputed" if X contains kernel values.
PRECOMPUTED_TOO = [StrOptions({*PAIRWISE_KERNEL_FUNCTIONS, "precomputed"}), callable]

CONSTRAINTS: dict[str, list[Any]] = {
    "C": [POSITIVE],
    "C1": [POSITIVE],
    "C2": [POSITIVE],
    "center": ["boolean"],
    "checkpoint": [str, PathLike, None],
    "class_weight": [StrOptions({"balanced"}), dict, None],
    "coef0": [Real],
    "degree": [NOT_NEGATIVE],
    "fit_intercept": ["boolean"],
    "gamma": [StrOptions({"scale", "auto"}), POSITIVE],
    "kernel": [StrOptions(set(PAIRWISE_KERNEL_FUNCTIONS)), callable],
    "max_iter": [COUNT],
    "metric": [str, callable],
    "n_clusters": [COUNT],
    "n_components": [None, COUNT],
    "n_init": [COUNT],
    "n_landmarks": [StrOptions({"auto"}), COUNT, None],
    "n_neighbors": [COUNT],
    "n_prototypes": [None, COUNT],
    "pos_label": [Integral, Real, str, tuple, "boolean", None],
    "random_state": ["random_state"],
    "reg": [NOT_NEGATIVE],
    "threshold": [StrOptions({"auto", "zero", "training", "out_of_fold"})],
    "tol": [POSITIVE],
    "verbose": ["verbose"],
}

ENTRY = re.compile(r"^( *)\{(\w+)\}$", flags=re.MULTILINE)


@dataclass_transform(eq_default=False)
def with_parameters(cls: type[Estimator]) -> type[Estimator]:
    """Decorate an estimator: its annotated attributes are the parameters of the constructor.

    Shared parameters receive their constraints and descriptions.

    Parameters
    ----------
    cls : type
        The class of the estimator; each annotated attribute is a parameter, except those that end
        with an underscore. Those
        of a decorated base class come first.

    Returns
    -------
    type
        The same class, with a constructor that only stores the parameters.
    """
    annotated = inspect.get_annotations(cls)
    inherited: tuple[dict[str, Any], ...] = getattr(cls, "_declared", ({}, {}))
    # Annotations of fitted attributes have no default; a required parameter has none either.
    own = {
        name: kind
        for name, kind in annotated.items()
        if name == "_" or (name[0] != "_" and (name in vars(cls) or name[-1] != "_"))
    }
    annotations = inherited[0] | own
    defaults = inherited[1] | {name: vars(cls)[name] for name in own if name in vars(cls)}
    for name, default in defaults.items():
        setattr(cls, name, default)
    cls.__annotations__ = annotations
    dataclass(eq=False, repr=False, match_args=False)(cls)
    cls.__annotations__ = annotated
    cls._declared = annotations, defaults  # type: ignore[attr-defined]
    names = sorted(field.name for field in fields(cls))  # type: ignore[arg-type]
    # Only the constructor is kept. Parameters are attributes of the instance, not of the class, and
    # Dask identifies a dataclass by its fields alone: two fits would count as the same model.
    for name in (*names, "__dataclass_fields__", "__dataclass_params__", "__replace__"):
        if name in vars(cls):
            delattr(cls, name)
    known: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        known |= vars(base).get("_parameter_constraints", {})
    constraints = {name: known[name] for name in names if name in known}
    cls._parameter_constraints = constraints  # type: ignore[attr-defined]
    describe(cls, cls)
    for base in cls.__mro__:
        for method in vars(base).values():
            if inspect.isfunction(method):
                describe(method, cls)
    return cls


def describe(target: Any, cls: type) -> None:
    """Replace the lines ``{name}`` of a docstring; under ``python -OO`` there is none.

    Parameters
    ----------
    target : class or function
        The owner of the docstring.
    cls : type
        The class whose base classes describe the parameters, and whose constructor has their
        defaults.
    """
    if target.__doc__ is None or ENTRY.search(target.__doc__) is None:
        return
    defaults = inspect.signature(cls).parameters

    def entry(found: re.Match[str]) -> str:
        indent, name = found.groups()
        kind, text = _inherited(name, cls)
        if name in defaults:
            default = f"{defaults[name].default!r}".replace("'", '"').replace("e-0", "e-")
            kind += f", default={default}"
        return textwrap.indent(f"{name} : {kind}\n{text.rstrip()}", indent)

    target.__doc__ = ENTRY.sub(entry, target.__doc__)


def _inherited(name: str, cls: type) -> tuple[str, str]:
    """Type and description of a parameter in the docstring of the nearest base class with it."""
    for base in cls.__mro__[1:]:
        text = inspect.cleandoc(vars(base).get("__doc__") or "")
        found = re.search(rf"^{name} : (.*)\n((?:    .*\n?)+)", text, flags=re.MULTILINE)
        if found:
            return found[1], found[2]
    raise KeyError(f"no base class of {cls.__name__} describes {name!r}")
