"""The labels that came with the bags of a report, beside those the model knows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bagwise._validation import check_label_sets, check_length
from bagwise.report._subject import Subject

__all__ = ["KnownLabels", "read_labels", "set_text"]


@dataclass(frozen=True)
class KnownLabels:
    """The labels that came with the bags.

    Attributes
    ----------
    names : list of str
        The classes of the model, then labels it does not know.
    codes : ndarray of shape (n_bags,) or None
        Places in `names`, -1 where nothing is known; None for label sets.
    sets : ndarray of shape (n_bags, n_names) or None
        Zeros and ones, a row of -1 where nothing is known; None for one label per bag.
    """

    names: list[str]
    codes: NDArray[np.int64] | None = None
    sets: NDArray[np.int8] | None = None

    @property
    def known(self) -> NDArray[np.bool_]:
        """Which bags have a label (set)."""
        if self.codes is not None:
            return self.codes >= 0
        assert self.sets is not None
        return np.all(self.sets >= 0, axis=1)

    @property
    def texts(self) -> list[str | None]:
        """The label, or the labels, of each bag for a reader; None where nothing is known."""
        if self.codes is not None:
            return [None if code < 0 else self.names[code] for code in self.codes]
        assert self.sets is not None
        rows = zip(self.sets, self.known, strict=True)
        return [set_text(row, self.names) if known else None for row, known in rows]

    @property
    def counts(self) -> NDArray[np.int64]:
        """In how many bags each label is."""
        if self.codes is not None:
            return np.bincount(self.codes[self.codes >= 0], minlength=len(self.names))
        assert self.sets is not None
        return (self.sets == 1).sum(axis=0)

    def without(self, bags: NDArray[np.bool_]) -> KnownLabels:
        """The same, nothing being known of some bags."""
        codes = None if self.codes is None else np.where(bags, -1, self.codes)
        sets = None if self.sets is None else np.where(bags[:, None], -1, self.sets)
        return KnownLabels(self.names, codes, sets)

    def as_sets(self) -> NDArray[np.int8]:
        """Zeros and ones also where a bag has one label."""
        if self.sets is not None:
            return self.sets
        assert self.codes is not None
        sets = (self.codes[:, None] == np.arange(len(self.names))).astype(np.int8)
        sets[self.codes < 0] = -1
        return sets


def set_text(row: NDArray[Any], names: Sequence[str]) -> str:
    """The labels of a set, separated by semicolons."""
    return "; ".join(names[k] for k in np.flatnonzero(row == 1).tolist())


def read_labels(y: Any, subject: Subject) -> KnownLabels | None:
    """Read the labels of the bags, for a reader and beside those of the model.

    Parameters
    ----------
    y : None, one label per bag, 0/1 array, or list of sets
        What is known. Of a bag of which nothing is known: None, -1 (where that is no class of the
        model), a row of -1.
    subject : Subject
        The model and the bags.

    Returns
    -------
    KnownLabels or None
        None where nothing is known of any bag.
    """
    if y is None or all(label is None for label in y):
        return None
    check_length(y, subject.bags)
    values = y.ravel() if getattr(y, "ndim", 1) == 2 and y.shape[1] == 1 else y
    is_flat = getattr(values, "ndim", 1) == 1
    if is_flat and not any(isinstance(label, set | frozenset | list | tuple) for label in values):
        known = _single_labels(values, subject)
        return known if known.known.any() else None
    sets = check_label_sets(y, subject.bags)
    own = subject.classes
    if not isinstance(y, list | tuple) and len(own) == sets.indicator.shape[1]:
        return KnownLabels(subject.names, sets=sets.indicator)  # columns are the model's classes
    columns, names = _columns(sets.classes.tolist(), subject)
    indicator = np.zeros((len(subject.bags), len(names)), dtype=np.int8)
    indicator[:, columns] = sets.indicator
    indicator[~sets.known] = -1
    return KnownLabels(names, sets=indicator) if sets.known.any() else None


def _single_labels(y: Any, subject: Subject) -> KnownLabels:
    plain = np.asarray(y, dtype=object).tolist() if not hasattr(y, "tolist") else y.tolist()
    own = subject.classes
    missing = [_is_missing(label) or (label == -1 and -1 not in own) for label in plain]
    present = [label for label, gone in zip(plain, missing, strict=True) if not gone]
    distinct = list(dict.fromkeys(present))
    if not own:
        distinct = sorted(distinct, key=lambda label: (str(type(label)), label))
    columns, names = _columns(distinct, subject)
    place = dict(zip(distinct, columns, strict=True))
    codes = [-1 if gone else place[label] for label, gone in zip(plain, missing, strict=True)]
    return KnownLabels(names, codes=np.array(codes, dtype=np.int64))


def _columns(labels: list[Any], subject: Subject) -> tuple[list[int], list[str]]:
    """The place of each label among the names of the model, new ones after them."""
    own = {label: k for k, label in enumerate(subject.classes)}
    named = {name: k for k, name in enumerate(subject.names)}
    names, columns = list(subject.names), []
    for label in labels:
        place = own.get(label, named.get(str(label)))
        if place is None:
            place = len(names)
            names.append(str(label))
        columns.append(place)
    return columns, names


def _is_missing(label: Any) -> bool:
    return label is None or (isinstance(label, float) and np.isnan(label))
