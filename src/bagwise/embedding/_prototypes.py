"""Represent a bag by distances to training bags, or by similarities to training instances."""

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from bagwise._common.memory import require_memory
from bagwise._common.sklearn import StrOptions
from bagwise._common.types import Array, Floats
from bagwise.bags import Bags
from bagwise.base import BagEstimator, UnlabelledFit
from bagwise.base._parameters import with_parameters
from bagwise.loops.ties import row_ranks
from bagwise.pairwise import DISTANCES, alone, distances_between, kernel_width


class BagEmbedding(UnlabelledFit, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BagEstimator):
    """A transformer from bags to a 2-D array.

    A subclass defines ``_learn(bags)``, ``_embedded(bags)`` and ``_n_features_out``.
    """

    _embedded: Callable[[Bags], Floats]

    def transform(self, X: Any) -> Floats:
        """Represent each bag by a row.

        Parameters
        ----------
        {X}

        Returns
        -------
        ndarray of shape (n_bags, n_columns)
        """
        return self._evaluate(X, self._embedded)


@with_parameters
class BagDissimilarity(BagEmbedding):
    """Represent each bag by its distances to prototype bags (MInD, Cheplygina 2015).

    The result is a 2-D array with one row per bag, for any scikit-learn model.
    ``make_pipeline(BagDissimilarity(), SVC())`` is a bag classifier.

    Parameters
    ----------
    kind : {"minmin", "maxmin", "meanmin", "hausdorff"}, default="meanmin"
        The distance between bags, see :func:`bagwise.pairwise.bag_distances`.
    metric : str or callable, default="euclidean"
        The distance between instances.
    n_prototypes : int, default=None
        Number of training bags drawn at random as prototypes; all by default.
    random_state : int, RandomState or None, default=None
        Seed for drawing prototypes.

    Attributes
    ----------
    prototypes_ : Bags
        The prototype bags; column k of the result is the distance to prototype k.
    {n_features_in_}

    Notes
    -----
    Cost of `transform`: one product of the new instances with the instances of the prototypes.

    References
    ----------
    Cheplygina, Tax, Loog. Multiple instance learning with bag dissimilarities. Pattern
    Recognition 48, 2015.

    Examples
    --------
    >>> from bagwise.embedding import BagDissimilarity
    >>> bags = [[[0.0], [1.0]], [[3.0]]]
    >>> model = BagDissimilarity(kind="meanmin")
    >>> model.fit_transform(bags)
    array([[0. , 2.5],
           [2. , 0. ]])
    >>> model.get_feature_names_out().tolist()
    ['distance_0', 'distance_1']
    """

    _parameter_constraints = {"kind": [StrOptions(set(DISTANCES))]}

    kind: str = "meanmin"
    metric: Any = "euclidean"
    n_prototypes: int | None = None
    random_state: Any = None

    def _learn(self, bags: Bags) -> None:
        if self.n_prototypes is not None and self.n_prototypes < len(bags):
            rng = check_random_state(self.random_state)
            bags = bags[np.sort(rng.choice(len(bags), self.n_prototypes, replace=False))]
        self.prototypes_ = bags

    def _embedded(self, bags: Bags) -> Floats:
        return distances_between(bags, self.prototypes_, kind=self.kind, metric=self.metric)

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Names of the columns: ``distance_`` and the id of the prototype, or its number.

        Parameters
        ----------
        input_features : ignored
            Present for compatibility with pipelines.

        Returns
        -------
        ndarray of str
        """
        check_is_fitted(self)
        names = [f"distance_{name}" for name in self.prototypes_.names]
        if len(set(names)) < len(names):  # ids need not be distinct
            names = [f"{name}_{k}" for k, name in enumerate(names)]
        return np.array(names, dtype=object)


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
        self.prototypes_ = distinct_instances(bags, self.n_prototypes, self.random_state).instances

    def _embedded(self, bags: Bags) -> Floats:
        return similarity_to(alone(self.prototypes_), bags, self.gamma_)

    @property
    def _n_features_out(self) -> int:
        return self.prototypes_.shape[0]


def distinct_instances(bags: Bags, n_most: int | None, random_state: Any) -> Bags:
    """Distinct instances, each as a bag, in an order that depends on their values alone.

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
    Bags
    """
    distinct = np.unique(row_ranks(bags.instances), return_index=True)[1]
    if n_most is not None and n_most < len(distinct):
        rng = check_random_state(random_state)
        distinct = distinct[np.sort(rng.choice(len(distinct), n_most, replace=False))]
    offsets = np.arange(bags.n_instances + 1)
    return bags.rearranged(bags.instances, offsets, slice(None))[distinct]


def similarity_to(prototypes: Bags, bags: Bags, gamma: float) -> Floats:
    """Similarity of the nearest instance of each bag to each prototype.

    Parameters
    ----------
    prototypes : Bags
        Single instances.
    bags : Bags
        The bags.
    gamma : float
        Width of the similarity.

    Returns
    -------
    ndarray of shape (n_bags, n_prototypes)
    """
    n_prototypes = len(prototypes)
    require_memory(
        2 * 8.0 * n_prototypes * len(bags),
        purpose=f"the similarity of {len(bags):,} bags to {n_prototypes:,} prototypes",
        remedy="set n_prototypes, or use fewer bags at a time",
    )
    # Computed from prototypes to bags: then only the nearest instance of each bag is recomputed in
    # full precision.
    out = np.ascontiguousarray(distances_between(prototypes, bags, kind="minmin").T)
    np.square(out, out=out)
    out *= -gamma
    return np.exp(out, out=out)
