"""A number per bag instead of a label: the type of the labels in a file, and the target."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bagwise._common.types import Floats
from bagwise.auto._methods import Method
from bagwise.cli.options import Columns, Task
from bagwise.cli.output import note
from bagwise.exceptions import InputError, LabelError
from bagwise.extras import import_extra
from bagwise.labels import Labels

_MANY, _FEW = 10, 5  # numbers of distinct values, not all integers
_MANY_WHOLE = 20  # number of distinct integers


def make_for_task(method: Method, parameters: dict[str, Any], task: str | None) -> Any:
    """Make the estimator before the file is read, so that errors are found early.

    Such errors are wrong parameters, and a method whose package is missing. If the task is not
    known, parameters may be those of the classifier or of the regressor.
    """
    if method.needs is not None:
        import_extra(method.needs, extra=method.needs)
    if task == "regression":
        return method.for_numbers().make(parameters)
    try:
        return method.make(parameters)
    except InputError:
        if task == "classification" or method.regressor is None:
            raise
        return method.for_numbers().make(parameters)


def numbers_of(labels: Labels, task: str | None, *, name: str | None = None) -> Floats | None:
    """The target of a regression, a number per bag; print a note if it was detected.

    Parameters
    ----------
    labels : Labels
        The labels of the file, all of them known.
    task : {"regression", "classification"} or None
        The value of ``--task``; None to detect the task.
    name : str or None, default=None
        The label column.

    Returns
    -------
    ndarray of shape (n_bags,) or None
        None if labels are to be predicted.
    """
    column = f"column {name or 'label'}"
    if labels.has_sets:
        if task == "regression":
            raise LabelError("--task regression needs numbers: these bags have label sets.")
        return None
    values = _as_numbers(labels)
    if task == "regression":
        if values is None:
            some = ", ".join(labels.names[:3])
            raise LabelError(f"--task regression needs numbers: the {column} holds {some}.")
        return values[labels.codes]
    if task == "classification" or values is None:
        return None
    n_values, n_bags = len(values), len(labels)
    whole = bool(np.all(values == np.trunc(values)))
    many = n_values > max(_MANY_WHOLE, n_bags / 4)
    if not whole:
        many = n_values >= _MANY or (n_values >= _FEW and n_values > n_bags / 2)
    if many:
        note(
            f"{column}: {n_values} different numbers, from {values.min():g} to {values.max():g}: "
            "predicting a number per bag (--task classification for labels)."
        )
        return values[labels.codes]
    if n_values > _MANY_WHOLE:
        note(f"{column}: {n_values} numbers, taken as labels (--task regression for numbers).")
    return None


class Target(NamedTuple):
    """The prediction target of a model.

    Attributes
    ----------
    y : ndarray
        Labels, label sets, or numbers.
    is_number : bool
        Whether a number per bag is predicted.
    coded : bool
        Whether two labels are learned as 0 and 1.
    classes : list
        The labels as they are in the file; empty for numbers.
    """

    y: Any
    is_number: bool
    coded: bool
    classes: list[Any]

    @property
    def task(self) -> str:
        """The name of the task, as in ``--task``."""
        return "regression" if self.is_number else "classification"


def target_of(labels: Labels, task: Task, columns: Columns, *, coded: bool = False) -> Target:
    """Make the prediction target from the labels of a file.

    Parameters
    ----------
    labels : Labels
        Result of `read_labelled`.
    task : Task
        What to learn.
    columns : Columns
        The names of the columns.
    coded : bool, default=False
        Whether two labels are always coded as 0 and 1.

    Returns
    -------
    Target
    """
    from bagwise.cli.reading import has_chosen_order

    numbers = None
    if task.positive is None:
        numbers = numbers_of(labels, task.task, name=columns.label)
    if numbers is not None:
        return Target(numbers, True, False, [])
    two = len(labels.classes) == 2 and not labels.has_sets
    # A model sorts its classes, and takes the last of two as the positive one.
    coded = has_chosen_order(labels, task.positive) or (coded and two)
    return Target(labels.codes if coded else labels.values, False, coded, labels.classes.tolist())


def known_numbers(labels: Labels | None) -> Floats | None:
    """The numbers of bags, NaN if a bag has none; None if there are no labels at all.

    Parameters
    ----------
    labels : Labels or None
        The labels of a file.

    Returns
    -------
    ndarray of shape (n_bags,) or None
    """
    if labels is None:
        return None
    values = _as_numbers(labels)
    if values is None:
        some = ", ".join(labels.names[:3])
        raise LabelError(f"the model predicts numbers, and the label column holds {some}.")
    return np.append(values, np.nan)[labels.codes]  # code -1 selects the last


def _as_numbers(labels: Labels) -> Floats | None:
    """The classes as finite numbers; None if one of them is not a number."""
    if labels.classes.dtype.kind == "b":
        return None
    try:
        values = np.array([float(label) for label in labels.classes.tolist()])
    except (TypeError, ValueError):
        return None
    return values if np.isfinite(values).all() else None
