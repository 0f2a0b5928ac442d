"""An order of bags and instances that does not depend on the order of the input."""

from typing import Any

import numpy as np

from bagwise._common.types import Ints
from bagwise.bags import Bags, offsets_of, taken
from bagwise.compute import take_rows
from bagwise.compute.mapped import release_pages
from bagwise.labels import Labels
from bagwise.loops.ties import row_ranks


def order_within_bags(bags: Bags) -> Ints:
    """Sort the instances of each bag by their features.

    Parameters
    ----------
    bags : Bags
        The bags.

    Returns
    -------
    ndarray of shape (n_instances,)
        Row numbers, bag by bag.
    """
    return np.lexsort((_ranks(bags), bags.bag_index))


def in_canonical_order(bags: Bags, labels: Any, *per_bag: Any) -> tuple[Any, ...]:
    """Sort the bags, and the instances inside each bag, by their values.

    Through rounding, the result of a search with many starts depends on the order of summation, and
    the first of equal candidates wins. After sorting, neither depends on the order of the input.

    Parameters
    ----------
    bags : Bags
        The bags. Instances in a file are written to another file.
    labels : Labels or ndarray of shape (n_bags,)
        Their labels, or targets, which break ties between equal bags.
    *per_bag : ndarray of shape (n_bags,) or None
        Other arrays to sort like the bags.

    Returns
    -------
    bags : Bags
        The same bags, sorted, without ids and feature names.
    labels : Labels or ndarray
        Their labels.
    *per_bag : ndarray of shape (n_bags,) or None
        The other arrays.
    """
    if not isinstance(labels, Labels):
        codes = np.unique(labels, return_inverse=True)[1]
    elif labels.has_sets:
        codes = np.unique(labels.indicator, axis=0, return_inverse=True)[1].reshape(-1)
    else:
        codes = labels.codes
    ranks = _ranks(bags)
    inside = np.lexsort((ranks, bags.bag_index))
    keys = [
        (*rank.tolist(), int(code))
        for rank, code in zip(bags.split(ranks[inside]), codes, strict=True)
    ]
    order = np.array(sorted(range(len(bags)), key=keys.__getitem__), dtype=np.intp)
    by_bag = bags.split(inside)
    rows = np.concatenate([by_bag[i] for i in order])
    ordered = bags.rearranged(take_rows(bags, rows), offsets_of(bags.sizes[order]), rows)
    if bags._columns:
        ordered = ordered.with_columns(taken(bags.columns, order), groups=bags.group_name)
    others = (None if values is None else values[order] for values in per_bag)
    return ordered, labels[order], *others


def _ranks(bags: Bags) -> Ints:
    """Ranks of the instances by their values."""
    ranks = row_ranks(bags.instances)
    release_pages(bags.source)
    return ranks
