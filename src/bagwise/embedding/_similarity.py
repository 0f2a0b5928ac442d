"""InstanceSimilarity: represent a bag by its similarities to training instances."""

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from bagwise._common.memory import require_memory
from bagwise._common.types import Floats
from bagwise.bags import Bags
from bagwise.base._parameters import with_parameters
from bagwise.embedding._base import BagEmbedding
from bagwise.loops.ties import row_ranks
from bagwise.pairwise import distances_between, kernel_width


@with_parameters
class InstanceSimilarity(BagEmbedding):
    r"""Represent each bag by its similarities to training instances (the embedding of MILES, 2006).

    The similarity of bag B to the prototype instance z is the similarity of its nearest instance,
    :math:`\max_{x \in B} \exp(-\gamma |x - z|^2)`. The result is a 2-D array with one row per
    bag and one column per prototype.

    Parameters
    ----------
    gamma : {"scale", "auto"} or float, default="scale"
        Width of the similarity; "scale" is ``1 / (n_features * variance of the instances)``,
        "auto" ``1 / n_features``. The paper writes :math:`1 / \sigma^2`.
    n_prototypes : int, default=None
        Number of distinct training instances drawn at random as prototypes; all by default.
    random_state : int, RandomState or None, default=None
        Seed for drawing prototypes.

    Attributes
    ----------
    prototypes_ : ndarray or CSR of shape (n_prototypes, n_features)
        Distinct training instances, in an order that depends on their values alone.
    gamma_ : float
        The width used.
    {n_features_in_}

    Notes
    -----
    Cost of `transform`: one product of the new instances with the prototypes. Memory: the result.

    References
    ----------
    Chen, Bi, Wang. MILES: multiple-instance learning via embedded instance selection. IEEE
    Transactions on Pattern Analysis and Machine Intelligence 28, 2006.

    Examples
    --------
    >>> from bagwise.embedding import InstanceSimilarity
    >>> bags = [[[0.0], [1.0]], [[3.0]]]
    >>> InstanceSimilarity(gamma=0.1).fit_transform(bags).round(2)
    array([[1.  , 1.  , 0.67],
           [0.41, 0.67, 1.  ]])
    """

    gamma: Any = "scale"
    n_prototypes: int | None = None
    random_state: Any = None

    def _learn(self, bags: Bags) -> None:
        self.gamma_ = kernel_width(self.gamma, bags)
        self.prototypes_ = distinct_instances(bags, self.n_prototypes, self.random_state)

    def _embedded(self, bags: Bags) -> Floats:
        return similarity_to(self.prototypes_, bags, self.gamma_)

    @property
    def _n_features_out(self) -> int:
        return self.prototypes_.shape[0]


def distinct_instances(bags: Bags, n_most: int | None, random_state: Any) -> Any:
    """Distinct instances of bags, in an order that depends on their values alone.

    Parameters
    ----------
    bags : Bags
        The bags.
    n_most : int or None
        Draw this many at random if there are more.
    random_state : int, RandomState or None
        Seed for drawing.

    Returns
    -------
    ndarray or CSR of shape (n_distinct, n_features)
    """
    distinct = np.unique(row_ranks(bags.instances), return_index=True)[1]
    if n_most is not None and n_most < len(distinct):
        rng = check_random_state(random_state)
        distinct = distinct[np.sort(rng.choice(len(distinct), n_most, replace=False))]
    return bags.instances[distinct]


def similarity_to(prototypes: Any, bags: Bags, gamma: float) -> Floats:
    """Similarity of the nearest instance of each bag to each prototype.

    Parameters
    ----------
    prototypes : ndarray or CSR of shape (n_prototypes, n_features)
        Instances.
    bags : Bags
        The bags.
    gamma : float
        Width of the similarity.

    Returns
    -------
    ndarray of shape (n_bags, n_prototypes)
    """
    n_prototypes = prototypes.shape[0]
    require_memory(
        2 * 8.0 * n_prototypes * len(bags),
        purpose=f"the similarity of {len(bags):,} bags to {n_prototypes:,} prototypes",
        remedy="set n_prototypes, or use fewer bags at a time",
    )
    alone = Bags(prototypes, np.arange(n_prototypes + 1))
    # Computed from prototypes to bags: then only the nearest instance of each bag is recomputed in
    # full precision.
    out = np.ascontiguousarray(distances_between(alone, bags, kind="minmin").T)
    np.square(out, out=out)
    out *= -gamma
    return np.exp(out, out=out)
