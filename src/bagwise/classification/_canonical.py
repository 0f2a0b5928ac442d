"""Key instances that do not depend on the order of the instances."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bagwise.base import InstancePredictorMixin
from bagwise.compiled.row_order import row_ranks

__all__ = ["KeysByValue"]


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
