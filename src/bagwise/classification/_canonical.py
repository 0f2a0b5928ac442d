"""One order for the same bags, whatever order they came in."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bagwise.bags import Bags
from bagwise.base import InstancePredictorMixin
from bagwise.kernels.row_order import row_ranks

__all__ = ["KeysByValue", "in_canonical_order"]


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


class KeysByValue(InstancePredictorMixin):
    """Key instances of models that cannot tell some instances apart, whatever their order."""

    def key_instances(self, X: Any, label: Any = None) -> NDArray[np.int64]:
        """Find the instance that speaks most for a class in each bag.

        Of instances with equal scores the one whose features come first, compared one after the
        other, is taken.

        Parameters
        ----------
        X : Bags or anything accepted as bags
            The bags.
        label : object, default=None
            The class; by default the class predicted for the bag. With two classes there is one
            key instance by default, the one with the highest score; with ``label=classes_[0]`` it
            is the one with the lowest.

        Returns
        -------
        ndarray of shape (n_bags,)
            The row of the key instance inside its bag, 0-based.
        """
        bags = self._check_bags(X)  # type: ignore[attr-defined]
        order = np.lexsort((row_ranks(bags.instances), bags.bag_index))
        sorted_bags = bags.with_instances(bags.instances[order])
        first = bags.offsets[:-1]
        return order[first + super().key_instances(sorted_bags, label=label)] - first
