"""The data section of a report: counts, sizes, labels, and possible leakage."""

from typing import Any

import numpy as np
from scipy import sparse

from bagwise._common.types import Array, Bools, Ints
from bagwise.bags import Bags
from bagwise.compute import row_blocks
from bagwise.exceptions import InputError
from bagwise.labels import Labels
from bagwise.predictions import Predictions
from bagwise.report._page import Section, Table

MOST_LABELS = 12
MOST_COMPARED = 1_000_000  # maximum number of instances in the search for copies


def summarise(bags: Bags) -> dict[str, Any]:
    """Count bags, instances, features, empty bags, missing values; list constant features.

    Parameters
    ----------
    bags : Bags
        The bags.

    Returns
    -------
    dict
        Plain values, by name.
    """
    sizes, names = bags.sizes, bags.feature_names
    if bags.is_sparse:
        values = bags.instances
        missing = int(np.isnan(values.data).sum())
        constant = (values.max(axis=0).toarray() == values.min(axis=0).toarray()).ravel()
    else:
        first, equal = bags.rows(slice(0, 1)), np.ones(bags.n_features, dtype=bool)
        gaps = np.zeros(bags.n_features, dtype=np.int64)
        for _, block in row_blocks(bags):
            gaps += np.isnan(block).sum(axis=0)
            equal &= (block == first).all(axis=0)
        missing, constant = int(gaps.sum()), equal | (gaps == bags.n_instances)
    return {
        "bags": len(bags),
        "instances": bags.n_instances,
        "features": bags.n_features,
        **({} if names is None else {"feature_names": names}),
        "smallest_bag": int(sizes.min()) if len(sizes) else 0,
        "median_bag": float(np.median(sizes)) if len(sizes) else 0.0,
        "largest_bag": int(sizes.max(initial=0)),
        "empty_bags": int((sizes == 0).sum()),
        "values": f"{'sparse ' if bags.is_sparse else ''}{bags.dtype}",
        "missing_values": missing,
        "constant_features": [
            int(j) if names is None else names[j] for j in np.flatnonzero(constant)
        ],
    }


def data_section(subject: Predictions, groups: Any, seen: Bools | None) -> Section:
    """Describe the data: counts, sizes, labels or numbers, and possible leakage.

    Parameters
    ----------
    subject : Predictions
        The bags and their labels.
    groups : array-like of shape (n_bags,) or None
        Bags that belong together, such as the slides of one patient.
    seen : ndarray of shape (n_bags,) or None
        Which bags the model was fitted on, if that is known.

    Returns
    -------
    Section
    """
    bags, known, unit = subject.bags, subject.known, subject.unit
    items = {f"{unit}s": f"{len(bags):,}"}
    if unit == "bag":
        items["instances"] = f"{bags.n_instances:,}"
        items["in a bag"] = f"{bags.sizes.min():,} to {bags.sizes.max():,}"
    items["features"] = f"{bags.n_features:,}"
    beside: list[Any] = []
    if known is not None:
        items["labels"] = f"{int((known.counts > 0).sum()):,}"
        if not known.known.all():
            items[f"{unit}s without a label"] = f"{int((~known.known).sum()):,}"
        beside.append(_label_counts(known, unit))
    if subject.known_numbers is not None:
        beside.append(_numbers(subject.known_numbers))
    group_of = None
    if groups is not None:
        if len(groups) != len(bags):
            raise InputError(f"{len(groups)} groups for {len(bags)} bags: give one each.")
        group_of = np.unique(np.asarray(groups).astype(str), return_inverse=True)[1]
    leakage = [_copies(subject, group_of)]
    if group_of is not None:
        leakage.append(_groups(known, unit, group_of, seen))
    return Section("The data", items, beside, *leakage)


def _numbers(numbers: Array) -> Table:
    known = numbers[np.isfinite(numbers)]
    facts: dict[str, Any] = {"known": len(known), "unknown": len(numbers) - len(known)}
    facts |= {"mean": known.mean(), "standard deviation": known.std()}
    facts |= {"smallest": known.min(), "median": np.median(known), "largest": known.max()}
    return Table({"": list(facts), "value": [*facts.values()]}, "The number of a bag")


def _label_counts(known: Labels, unit: str) -> Table:
    counts, total = known.counts, max(int(known.known.sum()), 1)
    order = np.argsort(-counts, kind="stable")[: min(MOST_LABELS, (counts > 0).sum())]
    columns = {
        "label": [known.names[k] for k in order],
        f"{unit}s": counts[order].tolist(),
        "share": [f"{counts[k] / total:.0%}" for k in order],
    }
    return Table(columns, "Labels" if (counts > 0).sum() <= MOST_LABELS else "Most common labels")


def _groups(known: Labels | None, unit: str, group_of: Ints, seen: Bools | None) -> str:
    """What groups of bags would bias: other labels in a group, groups on both sides of a split."""
    text = f"The {unit}s belong to {group_of.max() + 1:,} groups."
    if known is not None and not known.has_sets:
        n_mixed = _have_several(group_of, known.codes).sum()
        text += f" {n_mixed:,} of them contain {unit}s with different labels."
    if seen is not None:
        n_split = _have_several(group_of, seen.astype(int)).sum()
        text += f" {n_split:,} contain {unit}s the model was fitted on, and other {unit}s."
    return (
        f"{text} {unit.capitalize()}s of one group must not be on both sides of a split between "
        "training and test."
    )


def _copies(subject: Predictions, group_of: Ints | None) -> str:
    """Instances that occur in several bags, which would leak from training to test."""
    bags, known, unit = subject.bags, subject.known, subject.unit
    if bags.n_instances > MOST_COMPARED:
        return "There are too many instances to look for copies among them."
    number, owner = _distinct(bags), bags.bag_index
    shared = _have_several(number, owner)
    what = "instance" if unit == "bag" else "row"
    if not shared.any():
        return f"No {what} has a copy in another {unit}: no copies leak from training to test."
    text = (
        f"{shared.sum():,} distinct {what}s occur in several {unit}s "
        f"({len(np.unique(owner[shared[number]])):,} {unit}s share at least one). When such "
        f"{unit}s are split between training and test, metrics are too optimistic."
    )
    if known is not None and not known.has_sets:
        n_mixed = _have_several(number, known.codes[owner]).sum()
        text += f" {n_mixed:,} of these {what}s are in {unit}s with different labels."
    if group_of is not None:
        text += f" {_have_several(number, group_of[owner]).sum():,} are in different groups."
    return text


def _have_several(number: Ints, values: Ints) -> Bools:
    """For each number, whether it occurs with several values; -1 is unknown, and not counted."""
    pairs = np.unique(np.column_stack([number, values])[values >= 0], axis=0)
    return np.bincount(pairs[:, 0], minlength=number.max() + 1) > 1


def _distinct(bags: Bags) -> Ints:
    """A number for each instance, the same for equal ones."""
    values = bags.instances
    if sparse.issparse(values):
        ends = zip(values.indptr[:-1], values.indptr[1:], strict=True)
        parts = (values.indices[a:b].tobytes() + values.data[a:b].tobytes() for a, b in ends)
    else:
        parts = (row.tobytes() for row in values)
    return np.unique([hash(part) for part in parts], return_inverse=True)[1]
