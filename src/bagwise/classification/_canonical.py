"""One order for the same bags, whatever order they came in."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bagwise.bags import Bags

__all__ = ["in_canonical_order", "instance_order", "row_ranks"]


def in_canonical_order(
    bags: Bags, codes: NDArray[np.int64]
) -> tuple[Bags, NDArray[np.int64], NDArray[np.intp]]:
    """Sort the instances inside each bag and the bags, by their values.

    A search from many starts ends, by rounding alone, in another place when its sums run in
    another order; a tie is won by who comes first. After this neither depends on the user's order.

    Parameters
    ----------
    bags : Bags
        The bags.
    codes : ndarray of shape (n_bags,)
        The class of each bag; decides between equal bags.

    Returns
    -------
    bags : Bags
        The same bags, sorted.
    codes : ndarray of shape (n_bags,)
        Their classes.
    order : ndarray of shape (n_bags,)
        Where each came from.
    """
    ranks = row_ranks(bags.instances)
    inside = np.lexsort((ranks, bags.bag_index))
    keys = [
        (*rank.tolist(), int(code))
        for rank, code in zip(bags.split(ranks[inside]), codes, strict=True)
    ]
    order = np.array(sorted(range(len(bags)), key=keys.__getitem__), dtype=np.intp)
    by_bag = bags.split(inside)
    rows = np.concatenate([by_bag[i] for i in order])
    offsets = np.concatenate([[0], np.cumsum(bags.sizes[order])])
    return Bags(bags.instances[rows], offsets), codes[order], order


def instance_order(bags: Bags) -> NDArray[np.intp]:
    """The order that sorts the instances of each bag by their values.

    Parameters
    ----------
    bags : Bags
        The bags.

    Returns
    -------
    ndarray of shape (n_instances,)
        ``bags.instances[order]`` has the same bags, each sorted.
    """
    return np.lexsort((row_ranks(bags.instances), bags.bag_index))


def row_ranks(instances: Any) -> NDArray[np.intp]:
    """Number the distinct rows of a table in an order that depends on their values alone.

    Parameters
    ----------
    instances : ndarray or CSR of shape (n_instances, n_features)
        The table.

    Returns
    -------
    ndarray of shape (n_instances,)
        Equal rows have equal numbers, from 0 without gaps.
    """
    if not sparse.issparse(instances):
        return np.unique(instances, axis=0, return_inverse=True)[1].reshape(-1)
    table = sparse.csr_array(instances, copy=True)
    table.sum_duplicates()
    table.eliminate_zeros()
    spans = zip(table.indptr[:-1], table.indptr[1:], strict=True)
    rows = [table.indices[a:b].tobytes() + table.data[a:b].tobytes() for a, b in spans]
    return np.unique(np.array(rows, dtype=object), return_inverse=True)[1].reshape(-1)
