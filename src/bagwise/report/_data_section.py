"""The data section of a report: counts, sizes, labels, and possible leakage."""

import hashlib
from typing import Any

import numpy as np
from scipy import sparse

from bagwise._common.types import Bools
from bagwise.bags import Bags
from bagwise.exceptions import InputError
from bagwise.labels import Labels
from bagwise.report._charts import histogram
from bagwise.report._page import Numbers, Section, SideBySide, Table
from bagwise.report._subject import Subject

MOST_COMPARED = 1_000_000  # maximum number of instances in the search for copies


def data_section(subject: Subject, groups: Any, seen: Bools | None) -> Section:
    """Describe the data: counts, sizes, labels, and possible leakage.

    Parameters
    ----------
    subject : Subject
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
    items = [("bags", f"{len(bags):,}"), ("instances", f"{bags.n_instances:,}")]
    items = [("rows", f"{len(bags):,}")] if unit == "row" else items
    items.append(("features", f"{bags.n_features:,}"))
    if known is not None:
        items.append(("labels", f"{int((known.counts > 0).sum()):,}"))
        if not known.known.all():
            items.append((f"{unit}s without a label", f"{int((~known.known).sum()):,}"))
    beside: list[Any] = []
    if unit == "bag" and bags.sizes.max() > 1:
        caption = f"Sizes of the {len(bags):,} bags."
        beside.append(histogram(bags.sizes, "instances in a bag", "bags", caption))
    if known is not None:
        beside.append(_label_counts(known, unit))
    leakage = _leakage(subject, groups, seen)
    return Section("The data", Numbers(items), SideBySide(beside), *leakage)


def _label_counts(known: Labels, unit: str) -> Table:
    counts, total = known.counts, max(int(known.known.sum()), 1)
    order = np.argsort(-counts, kind="stable")
    order = order[counts[order] > 0]
    columns = {
        "label": [known.names[k] for k in order[:12]],
        f"{unit}s": counts[order[:12]].tolist(),
        "share": [f"{counts[k] / total:.0%}" for k in order[:12]],
    }
    more = f"; the 12 most common of {len(order)}" if len(order) > 12 else ""
    return Table(columns, f"Labels{more}")


def _leakage(subject: Subject, groups: Any, seen: Bools | None) -> list[Any]:
    """Report what would bias metrics: copies in several bags, groups on both sides of a split."""
    bags, known, unit = subject.bags, subject.known, subject.unit
    parts: list[Any] = []
    group_of = None if groups is None else np.asarray(groups).astype(str)
    if group_of is not None and len(group_of) != len(bags):
        raise InputError(f"{len(group_of)} groups for {len(bags)} bags: give one each.")
    if bags.n_instances > MOST_COMPARED:
        parts.append("There are too many instances to look for copies among them.")
    else:
        parts += _copies(subject, group_of)
    if group_of is not None:
        distinct, place = np.unique(group_of, return_inverse=True)
        mixed = ""
        if known is not None and not known.has_sets:
            mixed_count = sum(
                len(np.unique(labels[labels >= 0])) > 1
                for labels in (known.codes[place == g] for g in range(len(distinct)))
            )
            mixed = f" {mixed_count:,} of them contain {unit}s with different labels."
        if seen is not None:
            both = np.intersect1d(place[seen], place[~seen])
            mixed += f" {len(both):,} contain {unit}s the model was fitted on, and other {unit}s."
        parts.append(
            f"The {unit}s belong to {len(distinct):,} groups.{mixed} {unit.capitalize()}s of one "
            "group must not be on both sides of a split between training and test."
        )
    return parts


def _copies(subject: Subject, group_of: Any) -> list[Any]:
    bags, known, unit, names = subject.bags, subject.known, subject.unit, subject.bag_names
    holders: dict[bytes, list[int]] = {}
    for digest, i in zip(_digests(bags), bags.bag_index.tolist(), strict=True):
        found = holders.setdefault(digest, [])
        if not found or found[-1] != i:
            found.append(i)
    shared = [found for found in holders.values() if len(found) > 1]
    what = "instance" if unit == "bag" else "row"
    if not shared:
        also = f"No {what} occurs in several bags" if unit == "bag" else "No row occurs twice"
        return [f"{also}: no copies leak from training to test."]
    concerned = {i for found in shared for i in found}
    text = (
        f"{len(shared):,} distinct {what}s occur in several {unit}s ({len(concerned):,} {unit}s "
        f"share at least one). When such {unit}s are split between training and test, metrics are "
        "too optimistic."
    )
    codes = None if known is None or known.has_sets else known.codes
    if codes is not None:
        across = sum(len({codes[i] for i in found} - {-1}) > 1 for found in shared)
        text += f" {across:,} of these {what}s are in {unit}s with different labels."
    if group_of is not None:
        across = sum(len({group_of[i] for i in found}) > 1 for found in shared)
        text += f" {across:,} are in different groups."
    shared.sort(key=len, reverse=True)
    table = Table(
        {
            f"first {unit}": [names[found[0]] for found in shared[:5]],
            f"{unit}s": [len(found) for found in shared[:5]],
            "others": [", ".join(names[i] for i in found[1:5]) for found in shared[:5]],
        },
        f"The {what}s with the most copies",
        bags=[found[0] for found in shared[:5]],
    )
    return [text, table]


def _digests(bags: Bags) -> list[bytes]:
    """A hash of each instance."""
    values = bags.instances
    if sparse.issparse(values):
        parts = (
            values.indices[a:b].tobytes() + values.data[a:b].tobytes()
            for a, b in zip(values.indptr[:-1], values.indptr[1:], strict=True)
        )
    else:
        parts = (np.ascontiguousarray(row).tobytes() for row in values)
    return [hashlib.blake2b(part, digest_size=16).digest() for part in parts]
