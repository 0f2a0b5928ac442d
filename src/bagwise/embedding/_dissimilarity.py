"""BagDissimilarity (MInD): represent a bag by its distances to the training bags."""

from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from bagwise._common.sklearn import StrOptions
from bagwise._common.types import Array, Floats
from bagwise.bags import Bags
from bagwise.base._parameters import with_parameters
from bagwise.embedding._base import BagEmbedding
from bagwise.pairwise import DISTANCES, distances_between


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
    Cost of `transform`: one product of the new instances with those of the prototypes.

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
