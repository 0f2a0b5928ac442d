"""Columns of bags, such as age and site, as numbers."""

from typing import Any

import numpy as np

from bagwise._common.types import Array, Floats
from bagwise.bags import Bags
from bagwise.base._parameters import with_parameters
from bagwise.compute import is_here
from bagwise.embedding._prototypes import BagEmbedding
from bagwise.exceptions import InputError
from bagwise.labels import is_missing

USED_COLUMNS = [str, tuple, list, None]  # the constraint of `use_columns`


@with_parameters
class BagColumns(BagEmbedding):
    """Represent each bag by its columns: numbers standardised, other values as indicators.

    Missing numbers are the mean; a value that did not occur in the fit has only zeros.

    Parameters
    ----------
    names : sequence of str, default=()
        The columns of `Bags.columns`.

    Attributes
    ----------
    means_, scales_ : list of float
        Mean and standard deviation of each column of numbers; 0 and 1 for the others.
    values_ : list of lists of str
        The values of each other column, as strings; empty for numbers.
    {n_features_in_}
    """

    _runs_elsewhere = ("cluster", "device")

    names: Any = ()

    def _learn(self, bags: Bags) -> None:
        self.means_, self.scales_, self.values_ = [], [], []
        for name in check_names(self.names):
            numbers, texts = _parsed(bags.column(name))
            known = numbers[np.isfinite(numbers)] if numbers is not None else np.zeros(1)
            if not len(known):
                raise InputError(f"the column {name!r} has no value: leave it out of use_columns.")
            self.means_.append(float(known.mean()))
            self.scales_.append(float(known.std()) or 1.0)
            self.values_.append(
                [] if texts is None else sorted({t for t in texts if t is not None})
            )

    def _embedded(self, bags: Bags) -> Floats:
        parts = []
        facts = zip(check_names(self.names), self.means_, self.scales_, self.values_, strict=True)
        for name, mean, scale, values in facts:
            numbers, texts = _parsed(bags.column(name))
            if values:
                found = np.array(texts if texts is not None else map(str, bags.column(name)))
                parts.append((found[:, None] == np.array(values, dtype=object)).astype(np.float64))
            elif numbers is None:
                raise InputError(f"the column {name!r} had numbers in the fit: give numbers.")
            else:
                numbers = np.where(np.isfinite(numbers), numbers, mean)
                parts.append(((numbers - mean) / scale)[:, None])
        return np.concatenate(parts, axis=1)

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Names of the columns: that of the column of bags, and its value."""
        names = [
            name if not values else f"{name}_{value}"
            for name, values in zip(check_names(self.names), self.values_, strict=True)
            for value in values or [""]
        ]
        return np.array(names, dtype=object)


def fitted_columns(names: Any, bags: Bags) -> BagColumns | None:
    """The columns of bags that a model uses, fitted to its training bags; None if there are none.

    Parameters
    ----------
    names : str, sequence of str or None
        Their names.
    bags : Bags
        The training bags.

    Returns
    -------
    BagColumns or None
    """
    return None if names is None else BagColumns(check_names(names)).fit(bags)


def check_names(names: Any) -> list[str]:
    """The names in ``use_columns``, one or several."""
    found = [names] if isinstance(names, str) else list(names)
    if not found or len(set(found)) < len(found):
        raise InputError(f"use_columns is {names!r}: expected names of columns, each once.")
    return found


def _parsed(values: Array) -> tuple[Floats | None, list[str | None] | None]:
    """The numbers of a column, or None and its values as strings; None if missing."""
    if values.dtype.kind in "biuf":
        return values.astype(np.float64), None
    return None, [None if is_missing(value) else str(value) for value in values.tolist()]


def with_column_features(bags: Bags, columns: BagColumns | None) -> Bags:
    """Add columns of bags to the features of each of their instances.

    Parameters
    ----------
    bags : Bags
        The bags.
    columns : BagColumns or None
        The fitted columns; None to change nothing.

    Returns
    -------
    Bags
    """
    if columns is None:
        return bags
    if not is_here(bags) or bags.is_mapped or bags.is_sparse:
        raise InputError("use_columns needs dense instances in memory: leave it out, or load them.")
    own = columns.transform(bags)[bags.bag_index].astype(bags.dtype)
    return bags.with_instances(np.concatenate([bags.instances, own], axis=1))
