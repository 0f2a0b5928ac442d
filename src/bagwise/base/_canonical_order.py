"""Orders that depend on the values of instances alone, not on the order in which they came."""

import numpy as np

from bagwise._types import Ints
from bagwise.bags import Bags, offsets_of
from bagwise.compiled.row_order import row_ranks
from bagwise.labels import Labels


def order_within_bags(bags: Bags) -> Ints:
    """Order the instances of each bag by their features, compared one after the other.

    Parameters
    ----------
    bags : Bags
        The bags.

    Returns
    -------
    ndarray of shape (n_instances,)
        Row numbers; those of a bag stay together.
    """
    return np.lexsort((row_ranks(bags.instances), bags.bag_index))


def in_canonical_order(bags: Bags, labels: Labels) -> tuple[Bags, Labels]:
    """Sort the instances inside each bag and the bags, by their values.

    The result of a search from many starts depends, by rounding alone, on the order of its sums,
    and the first of equal candidates wins. After this neither depends on the user's order.

    Parameters
    ----------
    bags : Bags
        The bags.
    labels : Labels
        Their labels, which decide between equal bags.

    Returns
    -------
    bags : Bags
        The same bags, sorted.
    labels : Labels
        Their labels.
    """
    if labels.has_sets:
        codes = np.unique(labels.indicator, axis=0, return_inverse=True)[1].reshape(-1)
    else:
        codes = labels.codes
    ranks = row_ranks(bags.instances)
    inside = np.lexsort((ranks, bags.bag_index))
    keys = [
        (*rank.tolist(), int(code))
        for rank, code in zip(bags.split(ranks[inside]), codes, strict=True)
    ]
    order = np.array(sorted(range(len(bags)), key=keys.__getitem__), dtype=np.intp)
    by_bag = bags.split(inside)
    rows = np.concatenate([by_bag[i] for i in order])
    offsets = offsets_of(bags.sizes[order])
    return Bags(bags.instances[rows], offsets), labels[order]
