"""Join the bags of a file that belong together, such as the slides of a patient."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bagwise._common.types import Array, Ints
from bagwise.bags import Bags, group_rows
from bagwise.exceptions import LabelError
from bagwise.io._contents import Contents
from bagwise.io._memory import Workspace
from bagwise.labels import Labels

PART = "slide"  # column of the ids before merging, if the file has none


def merge_contents(contents: Contents, by: Array, column: str, part: str | None) -> Contents:
    """Merge the bags of a file, and reorder labels and other data accordingly.

    A merged bag has the common label of its parts; unknown labels are ignored. Its label set is the
    union of the sets of its parts, unknown if one of them is unknown.

    Parameters
    ----------
    contents : Contents
        Bags, labels, coordinates and further columns.
    by : ndarray of shape (n_bags,)
        The merged bag that each bag becomes part of.
    column : str
        The name of the column `by`, for messages.
    part : str or None
        The column with the ids of `contents.bags`, if the file has one.

    Returns
    -------
    Contents
        With the former id of each instance in ``columns[part]``.
    """
    bags, labels, sets = contents.bags, contents.labels, contents.label_sets
    order, offsets, ids = group_rows(by)
    members = np.split(order, offsets[1:-1])
    rows = bags.with_instances(np.arange(bags.n_instances)[:, None]).merge(by).instances.ravel()
    names = [f"{column} {name}" for name in ids.tolist()]
    found = replace(contents, bags=_merged(bags, by, rows), wholes=None)
    found.patch_sizes = found.slide_sizes = None
    if labels is not None:
        found.labels = labels[_agreed(labels.texts, members, names, "labels")]
    if sets is not None:
        unions = [_union(sets.indicator[some]) for some in members]
        found.label_sets = Labels("sets", sets.classes, indicator=unions, names=sets.names)
    if contents.groups is not None:
        texts = [str(group) for group in contents.groups.tolist()]
        found.groups = contents.groups[_agreed(texts, members, names, "groups")]
    if contents.instance_labels is not None:
        found.instance_labels = contents.instance_labels[rows]
    if contents.coords is not None:
        found.coords = contents.coords[rows]
    names_of_bags = bags.names[bags.bag_index]
    if contents.clips is not None:
        found.clips = contents.clips.take(rows, names_of_bags.tolist())
    found.columns = {name: [v[row] for row in rows] for name, v in contents.columns.items()}
    found.columns[part or PART] = names_of_bags[rows].tolist()
    return found


def _merged(bags: Bags, by: Array, rows: Ints) -> Bags:
    """The merged bags; memory-mapped instances are copied to another file, not to memory."""
    in_order = bool(np.all(np.diff(rows) == 1))
    if in_order or not bags.is_mapped:
        return bags.merge(by)
    merged = bags.with_instances(rows[:, None]).merge(by)
    table = Workspace(limit=0).copy(bags.instances, rows=rows)
    return merged.with_instances(table, feature_names=bags.feature_names)


def _agreed(
    texts: Sequence[str | None], members: Sequence[Ints], names: Sequence[str], what: str
) -> Ints:
    """For each merged bag, a part with the common label (or group) of all known parts."""
    chosen = []
    for some, name in zip(members, names, strict=True):
        known = [i for i in some.tolist() if texts[i] is not None] or some.tolist()[:1]
        other = next((i for i in known if texts[i] != texts[known[0]]), None)
        if other is not None:
            raise LabelError(
                f"the bags of {name} have different {what}, {texts[known[0]]!r} and "
                f"{texts[other]!r}: merge= needs bags that agree. Give all of them "
                f"the same {what[:-1]}."
            )
        chosen.append(known[0])
    return np.array(chosen, dtype=np.int64)


def _union(indicator: Array) -> Array:
    """The union of label sets; unknown if one of them is."""
    return np.where((indicator < 0).any(), -1, indicator.max(axis=0))
