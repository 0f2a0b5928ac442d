"""The bags of a binary problem, as the multi-instance SVMs receive them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bagwise._common.types import Bools, Floats, Ints
from bagwise.bags import offsets_of
from bagwise.solvers.margin.feature_space import FeatureSpace


class LabelledBags(NamedTuple):
    """Bags of two classes, and their costs.

    Attributes
    ----------
    space : FeatureSpace
        The instances.
    offsets : ndarray of shape (n_bags + 1,)
        Where each bag begins.
    positive : ndarray of bool of shape (n_bags,)
        Which bags are positive; both kinds must occur.
    costs : ndarray of shape (n_bags,)
        C of each bag, or of each of its instances.
    """

    space: FeatureSpace
    offsets: Ints
    positive: Bools
    costs: Floats

    @property
    def sizes(self) -> Ints:
        """Number of instances of each bag."""
        return np.diff(self.offsets)

    @property
    def bag_index(self) -> Ints:
        """The bag of each instance."""
        return np.repeat(np.arange(len(self.positive)), self.sizes)

    def take(self, chosen: Bools) -> LabelledBags:
        """Some of the bags; their kernel matrix is not computed again."""
        space = self.space.take(np.flatnonzero(chosen[self.bag_index]))
        starts = offsets_of(self.sizes[chosen])
        return LabelledBags(space, starts, self.positive[chosen], self.costs[chosen])
