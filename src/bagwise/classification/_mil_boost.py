"""MILBoost: boosted trees on instances whose noisy-or is the probability of the bag."""

from dataclasses import KW_ONLY
from functools import partial
from numbers import Integral, Real
from typing import Any

import numpy as np

from bagwise import loops
from bagwise._common.memory import as_float64
from bagwise._common.sklearn import Interval
from bagwise._common.types import Array
from bagwise.bags import Bags
from bagwise.base import BagEstimator, OneVsRestMixin, one_vs_rest_probabilities
from bagwise.base._parameters import COUNT, NOT_NEGATIVE, with_parameters
from bagwise.labels import Labels
from bagwise.solvers.likelihood import mil_boost
from bagwise.solvers.result import SolverResult


@with_parameters
class MILBoost(OneVsRestMixin, BagEstimator):
    r"""Boosted trees on instances, fitted to the noisy-or of their bag (MILBoost, Viola 2005).

    A sum of trees F gives each instance the probability :math:`p(x) = 1 / (1 + e^{-F(x)})`, and
    the bag B the probability :math:`P_B = 1 - \prod_{x \in B} (1 - p(x))`. Trees are added to lower

    .. math:: -\sum_{B\,\text{positive}} \log P_B - \sum_{B\,\text{negative}} \log (1 - P_B)

    each the one that agrees best with the negative gradient, :math:`p (1 - P_B) / P_B` in a
    positive bag and :math:`-p` in a negative one, with a step chosen by line search. More than two
    classes are handled one-vs-rest.

    Parameters
    ----------
    n_estimators : int, default=100
        Number of trees per class.
    max_depth : int, default=1
        Depth of the trees; 1 for stumps. At most 12.
    learning_rate : float, default=0.5
        The share of the best step that each tree takes.
    tol : float, default=1e-6
        Boosting ends early when no tree agrees with the gradient by more than this, per bag.
    {pos_label}

    Attributes
    ----------
    {classes_}
    {pos_label_}
    start_ : ndarray of shape (n_machines,)
        Log-odds of every instance before the first tree; one model for two classes, else one per
        class.
    features_, thresholds_ : list of ndarray of shape (n_trees, 2 ** max_depth - 1)
        The splits of the trees of each model, in the order of a heap: the children of node v are
        2v + 1 and 2v + 2, the left one for values up to the threshold.
    leaves_ : list of ndarray of shape (n_trees, 2 ** max_depth)
        The values of the leaves, which are added to the log-odds.
    objective_curve_ : ndarray of shape (n_iterations,)
        The objective after each tree, summed over the models.
    n_iter_ : int
        Number of trees; the largest number over all models.
    {n_features_in_}

    Notes
    -----
    The value of a leaf is the mean sign of its instances, weighted by the gradient, between -1 and
    1; the paper's classifiers return the sign alone. The first score is the constant that makes
    the bags most likely; from zero, noisy-or would call every large bag positive. Monotone
    transformations of a feature change only the thresholds: no standardisation is needed.

    The default learning rate and depth were chosen on Fox. Cost: the features are sorted once;
    then trees x depth x instances x features. Memory: one and a half copies of the instances.

    References
    ----------
    Viola, Platt, Zhang. Multiple instance boosting for object detection. NIPS 2005.

    Examples
    --------
    >>> from bagwise.classification import MILBoost
    >>> bags = [[[0.0], [0.1]], [[0.2]], [[0.1], [3.0]], [[2.5]]]
    >>> model = MILBoost().fit(bags, ["no", "no", "yes", "yes"])
    >>> model.predict([[[0.0], [2.8]]])
    array(['yes'], dtype='<U3')
    >>> model.key_instances([[[0.0], [2.8]]])
    array([1])
    """

    instance_pooling = "noisy-or"
    _may_be_infinite = ("thresholds_",)  # inf: the node is not split
    keeps = "standard"
    _probabilities = staticmethod(one_vs_rest_probabilities)
    _accepts_sparse = False
    _keys_by_value = True  # instances in the same leaves have equal scores
    _value_range = (0.0, np.inf)  # trees compare values and never multiply them
    _in_canonical_order = True
    _advice = "raise n_estimators"

    _parameter_constraints = {
        "n_estimators": [COUNT],
        "max_depth": [Interval(Integral, 1, 12, closed="both")],
        "learning_rate": [Interval(Real, 0, 1, closed="right")],
        "tol": [NOT_NEGATIVE],
    }

    n_estimators: int = 100
    _: KW_ONLY
    max_depth: int = 1
    learning_rate: float = 0.5
    tol: float = 1e-6
    pos_label: Any = None

    def _solve(self, bags: Bags, labels: Labels, weight: Any, rng: Any) -> list[SolverResult]:
        rows = as_float64(bags.instances)
        results = self._one_vs_rest(
            labels,
            lambda signs: mil_boost(
                rows,
                bags.offsets,
                signs > 0,
                n_estimators=self.n_estimators,
                max_depth=self.max_depth,
                learning_rate=self.learning_rate,
                tol=self.tol,
                track=partial(self._track, task="tree"),
            ),
            task=None,
        )
        self.start_ = np.array([result.solution[0] for result in results])
        self.features_, self.thresholds_, self.leaves_ = (
            [result.solution[part] for result in results] for part in (1, 2, 3)
        )
        return results

    def _keep_progress(self, *progress: Any) -> None:
        super()._keep_progress(*progress)
        self.n_iter_ = max(map(len, self.leaves_))  # 0 if not even the first tree helps

    def _score(self, bags: Bags) -> Array:
        """Log-odds that each instance is positive, by the trees of each class."""
        rows = np.ascontiguousarray(bags.instances, np.float64)
        trees = zip(self.features_, self.thresholds_, self.leaves_, strict=True)
        return self.start_ + np.column_stack(
            [loops.boosted_trees.predict_trees(rows, *parts) for parts in trees]
        )
