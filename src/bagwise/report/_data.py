"""The data section of a report: counts, sizes, labels, and possible leakage."""

import hashlib
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
from bagwise.report._plots import histogram

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
        spread = values.max(axis=0).toarray() - values.min(axis=0).toarray()
        constant = np.flatnonzero(spread.ravel() == 0)
    else:
        first = bags.rows(slice(0, 1))
        missing, equal, empty = 0, np.ones(bags.n_features, bool), np.ones(bags.n_features, bool)
        for _, block in row_blocks(bags):
            gaps = np.isnan(block) if block.dtype.kind == "f" else np.zeros(block.shape, bool)
            missing += int(gaps.sum())
            equal &= (block == first).all(axis=0)
            empty &= gaps.all(axis=0)
        constant = np.flatnonzero(equal | empty)
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
        "constant_features": [int(j) if names is None else names[j] for j in constant],
    }


def data_section(subject: Predictions, groups: Any, seen: Bools | None) -> Section:
    """Describe the data: counts, sizes, labels, and possible leakage.

    Parameters
    ----------
    subject : Predictions
        The bags and their labels.
    groups : array-like of shape (n_bags,) or None
        Bags that belong together, such as those of one patient.
    seen : ndarray of shape (n_bags,) or None
        Which bags the model was fitted on, if that is known.

    Returns
    -------
    Section
    """
    bags, known, unit = subject.bags, subject.known, subject.unit
    items = {f"{unit}s": f"{len(bags):,}"}
    items |= {"instances": f"{bags.n_instances:,}"} if unit == "bag" else {}
    items["features"] = f"{bags.n_features:,}"
    beside: list[Any] = []
    if unit == "bag" and bags.sizes.max() > 1:
        caption = f"Sizes of the {len(bags):,} bags."
        beside.append(histogram(bags.sizes, "instances in a bag", "bags", caption))
    if known is not None:
        items["labels"] = f"{int((known.counts > 0).sum()):,}"
        if not known.known.all():
            items[f"{unit}s without a label"] = f"{int((~known.known).sum()):,}"
        beside.append(_label_counts(known, unit))
    group_of = None if groups is None else np.asarray(groups).astype(str)
    if group_of is not None and len(group_of) != len(bags):
        raise InputError(f"{len(group_of)} groups for {len(bags)} bags: give one each.")
    leakage = [_copies(subject, group_of)]
    if group_of is not None:
        leakage.append(_groups(known, unit, group_of, seen))
    return Section("The data", items, beside, *leakage)


def target_section(subject: Predictions) -> Section | None:
    """Summarise the distribution of the target of a regressor."""
    if subject.known_numbers is None:
        return None
    known = subject.known_numbers[np.isfinite(subject.known_numbers)]
    n_unknown = len(subject.known_numbers) - len(known)
    facts: dict[str, Any] = {"known": len(known), "unknown": n_unknown}
    facts |= {"mean": known.mean(), "standard deviation": known.std()}
    facts |= {"smallest": known.min(), "median": np.median(known), "largest": known.max()}
    return Section("The numbers", Table({"": list(facts), "value": [*facts.values()]}, "Target"))


def _label_counts(known: Labels, unit: str) -> Table:
    counts, total = known.counts, max(int(known.known.sum()), 1)
    order = np.argsort(-counts, kind="stable")[: min(MOST_LABELS, (counts > 0).sum())]
    columns = {
        "label": [known.names[k] for k in order],
        f"{unit}s": counts[order].tolist(),
        "share": [f"{counts[k] / total:.0%}" for k in order],
    }
    return Table(columns, "Labels" if (counts > 0).sum() <= MOST_LABELS else "Most common labels")


def _groups(known: Labels | None, unit: str, group_of: Any, seen: Bools | None) -> str:
    """What groups of bags would bias: other labels in a group, groups on both sides of a split."""
    distinct, place = np.unique(group_of, return_inverse=True)
    text = f"The {unit}s belong to {len(distinct):,} groups."
    if known is not None and not known.has_sets:
        pairs = np.unique(np.column_stack([place, known.codes])[known.known], axis=0)
        mixed = int((np.bincount(pairs[:, 0]) > 1).sum())
        text += f" {mixed:,} of them contain {unit}s with different labels."
    if seen is not None:
        both = np.intersect1d(place[seen], place[~seen])
        text += f" {len(both):,} contain {unit}s the model was fitted on, and other {unit}s."
    return text + (
        f" {unit.capitalize()}s of one group must not be on both sides of a split between training "
        "and test."
    )


def _copies(subject: Predictions, group_of: Any) -> str:
    """Instances that occur in several bags, which would leak from training to test."""
    bags, known, unit = subject.bags, subject.known, subject.unit
    if bags.n_instances > MOST_COMPARED:
        return "There are too many instances to look for copies among them."
    pairs = np.unique(np.column_stack([_distinct(bags), bags.bag_index]), axis=0)
    holders = np.split(pairs[:, 1], np.flatnonzero(np.diff(pairs[:, 0])) + 1)
    shared = [found for found in holders if len(found) > 1]
    what = "instance" if unit == "bag" else "row"
    if not shared:
        return f"No {what} has a copy in another {unit}: no copies leak from training to test."

    def across(values: Array) -> int:
        return sum(len({*values[found].tolist()} - {-1}) > 1 for found in shared)

    text = (
        f"{len(shared):,} distinct {what}s occur in several {unit}s "
        f"({len(np.unique(np.concatenate(shared))):,} {unit}s share at least one). When such "
        f"{unit}s are split between training and test, metrics are too optimistic."
    )
    if known is not None and not known.has_sets:
        text += f" {across(known.codes):,} of these {what}s are in {unit}s with different labels."
    if group_of is not None:
        text += f" {across(group_of):,} are in different groups."
    return text


def _distinct(bags: Bags) -> Ints:
    """A number for each instance, the same for equal ones."""
    values = bags.instances
    if sparse.issparse(values):
        ends = zip(values.indptr[:-1], values.indptr[1:], strict=True)
        parts = (values.indices[a:b].tobytes() + values.data[a:b].tobytes() for a, b in ends)
    else:
        parts = (np.ascontiguousarray(row).tobytes() for row in values)
    number: dict[bytes, int] = {}
    digests = (hashlib.blake2b(part, digest_size=16).digest() for part in parts)
    return np.array([number.setdefault(digest, len(number)) for digest in digests])
