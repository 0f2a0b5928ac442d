"""M3MIML and RankLossSIM: annotators that separate labels by margins."""

from dataclasses import KW_ONLY, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.random import RandomState
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.extmath import safe_sparse_dot

from bagwise._common.types import Array, Bools, Floats, Ints
from bagwise.annotation._annotator import AnnotatorMixin, ThresholdAnnotator
from bagwise.bags import Bags
from bagwise.base import BagEstimator
from bagwise.base._kernel_machine import KernelMachine
from bagwise.base._parameters import NOT_NEGATIVE, POSITIVE, with_parameters
from bagwise.compute.arrays import dense
from bagwise.exceptions import warn_user
from bagwise.labels import Labels
from bagwise.solvers.annotation.rank_loss import rank_loss_sim
from bagwise.solvers.margin.feature_space import FeatureSpace
from bagwise.solvers.margin.max_margin import bag_problem, max_margin
from bagwise.solvers.result import SolverResult

TIE = 100.0  # scores this near, in units of tol, count as equal
TILT = 10.0  # the largest score, in units of tol, of the model that breaks ties


@with_parameters
class M3MIML(AnnotatorMixin, KernelMachine):
    r"""A maximum-margin model per label; a bag has the score of its best instance (Zhang 2008).

    .. math:: \min_{W, b} \tfrac12 \sum_l |w_l|^2 + C \sum_i \sum_l \xi_{il}

    such that bags with label l have a mean score of at least :math:`1 - \xi_{il}`, and all
    instances of other bags at most :math:`-1 + \xi_{il}`. The mean replaces the largest score, so
    that the problem is convex. Standardise the instances first.

    Parameters
    ----------
    C : float, default=1.0
        Cost of a margin error, per bag and label.
    kernel : str or callable, default="linear"
        The kernel between instances, by scikit-learn's names.
    gamma : {"scale", "auto"} or float, default="scale"
        Kernel width.
    {degree}
    {coef0}
    tol : float, default=1e-6
        Tolerance of the margins.
    {verbose}

    Attributes
    ----------
    {classes_}
    {label_kind_}
    coef_ : ndarray of shape (n_classes, n_features)
        The weights of the features (linear kernel).
    support_ : ndarray of shape (n_support,)
        Instances with non-zero weight, among the bags with known label sets (other kernels).
    support_vectors_ : ndarray or CSR of shape (n_support, n_features)
        Those instances.
    dual_coef_ : ndarray of shape (n_classes, n_support)
        Their weights.
    {gamma_}
    intercept_ : ndarray of shape (n_classes,)
        The intercepts; 1 for a label that all training bags have, -inf for one that none has.
    objective_curve_ : ndarray of shape (n_iterations,)
        The objective after each proximal step, summed over the labels.
    n_iter_ : int
        Number of proximal steps; the largest number over all labels.
    {n_features_in_}

    Notes
    -----
    Cost: as for one round of :class:`bagwise.classification.BagMarginSVM`, per label.

    For a label of few bags w = 0 may be optimal. The bags then get nearly equal scores for this
    label; instances are ranked by the difference of the class means. If this is so for all labels,
    the fit warns.

    References
    ----------
    Zhang, Zhou. M3MIML: a maximum margin method for multi-instance multi-label learning. ICDM
    2008.

    Examples
    --------
    >>> from bagwise.annotation import M3MIML
    >>> bags = [[[0.0], [3.1]], [[0.2], [0.1]], [[2.9], [3.0]], [[3.2]]]
    >>> label_sets = [{"wren", "robin"}, {"wren"}, {"robin"}, {"robin"}]
    >>> model = M3MIML().fit(bags, label_sets)
    >>> model.annotate([[[0.0], [2.9]]], [{"robin", "wren"}])
    array(['wren', 'robin'], dtype='<U5')
    """

    instance_pooling = "max"
    _may_be_infinite = ("intercept_",)  # -inf: a class that no training bag has
    keeps = "one concept"
    _advice = "scale the instances, or lower C"

    C: float = 1.0
    _: KW_ONLY
    kernel: Any = "linear"
    gamma: Any = "scale"
    degree: float = 3
    coef0: float = 1.0
    tol: float = 1e-6
    verbose: int = 0

    def _solve(
        self, bags: Bags, labels: Labels, weight: Floats, rng: RandomState
    ) -> list[SolverResult]:
        carried = labels.indicator == 1
        space = self._space(bags.instances.astype(np.float64, copy=False))
        coef = np.zeros((len(labels.classes), bags.n_instances))
        # A label of all bags needs no weights: an intercept of 1 meets every margin. A label of
        # no bag is never predicted.
        intercept = np.where(carried.all(axis=0), 1.0, -np.inf)
        varied = np.flatnonzero(carried.any(axis=0) & ~carried.all(axis=0))
        results = [
            _of_label(space, bags.offsets, carried[:, label], C=self.C, tol=self.tol)
            for label in self._track(varied, "label")
        ]
        for label, result in zip(varied, results, strict=True):
            coef[label], intercept[label] = result.solution[:2]
        if results and not any(result.solution[2] for result in results):
            warn_user(
                "M3MIML learned nothing, and all bags get nearly the same scores: raise C.",
                ConvergenceWarning,
            )
        self._keep(space, coef, intercept)
        return results


def _of_label(
    space: FeatureSpace, offsets: Ints, carried: Bools, *, C: float, tol: float
) -> SolverResult:
    """Fit the classifier of one label.

    Parameters
    ----------
    space : FeatureSpace
        The instances.
    offsets : ndarray of shape (n_bags + 1,)
        Where each bag begins.
    carried : ndarray of bool of shape (n_bags,)
        Which bags carry the label; both kinds must occur.
    C : float
        Cost of a unit of slack, per bag.
    tol : float
        Tolerance of the margins.

    Returns
    -------
    SolverResult
        ``solution`` is (coef of instances, intercept, whether w is not 0).
    """
    costs = np.full(len(carried), C)
    problem = bag_problem(offsets, carried, costs, slack_per_bag=True)
    machine = max_margin(space, problem, tol=tol)
    learned = np.ptp(machine.scores) >= TIE * tol
    if not learned:
        # w = 0 up to the error of the solver. Instances are ranked by the model of vanishing C
        # instead, the difference of the class means.
        weights = problem.mean_difference()
        largest = float(np.abs(space.scores(weights)).max())
        coef = weights * (TILT * tol / max(largest, np.finfo(float).tiny))
        b = TIE * tol * round(float(machine.intercept) / (TIE * tol))
        machine = replace(machine, coef=coef, intercept=b)
    result = machine.result()
    return replace(result, solution=(*result.solution, np.array(learned)))


@with_parameters
class RankLossSIM(ThresholdAnnotator, BagEstimator):
    r"""Linear scores of instances that rank the labels of each bag (rank-loss SIM, Briggs 2012).

    .. math:: \min_W \tfrac{\lambda}{2} |W|^2 + \frac1N \sum_X \frac{1}{|Y| |\bar Y|}
        \sum_{p \in Y, q \notin Y} (1 - F_p(X) + F_q(X))_+ , \qquad
        F_j(X) = \sum_i a_{ij} w_j \cdot x_i

    where :math:`a_{ij}` is the softmax of :math:`w_j \cdot x_i` over the instances of the bag. The
    weights a are fixed while W is solved for, then updated. Standardise the instances first.

    Parameters
    ----------
    reg : float, default=1e-3
        Lambda.
    max_iter : int, default=20
        Maximum number of iterations.
    tol : float, default=1e-3
        Relative decrease of the objective per round below which the fit stops.
    {verbose}

    Attributes
    ----------
    {classes_}
    {label_kind_}
    coef_ : ndarray of shape (n_classes, n_features)
        W.
    intercept_ : ndarray of shape (n_classes,)
        The weight of the constant feature, less the scores of the mean instance: it applies to
        instances that are not centred.
    threshold_ : float
        The bag score above which a label is predicted, if the model was fitted on label sets: the
        one with the fewest wrong labels on the training bags.
    objective_curve_ : ndarray of shape (n_iterations,)
        The objective after each round; the best round is kept.
    n_iter_ : int
        Number of rounds.
    {n_features_in_}

    Notes
    -----
    Each round solves a convex problem by L-BFGS, with a smoothed hinge loss. Updating the weights
    may raise the objective; the fit then stops. Sparse instances are made dense. Bags whose label
    set is unknown, empty, or contains all labels are not used.

    References
    ----------
    Briggs, Fern, Raich. Rank-loss support instance machines for MIML instance annotation. KDD
    2012.

    Examples
    --------
    >>> from bagwise.annotation import RankLossSIM
    >>> bags = [[[0.0], [3.1]], [[0.2], [0.1]], [[2.9], [3.0]], [[3.2]]]
    >>> label_sets = [{"wren", "robin"}, {"wren"}, {"robin"}, {"robin"}]
    >>> model = RankLossSIM().fit(bags, label_sets)
    >>> model.annotate([[[0.0], [2.9]]], [{"robin", "wren"}])
    array(['wren', 'robin'], dtype='<U5')
    """

    instance_pooling = "softmax"
    _advice = "raise max_iter or tol"

    _parameter_constraints = {"reg": [POSITIVE], "tol": [NOT_NEGATIVE]}

    reg: float = 1e-3
    _: KW_ONLY
    max_iter: int = 20
    tol: float = 1e-3
    verbose: int = 0

    def _solve(self, bags: Bags, labels: Labels, weight: Floats, rng: RandomState) -> SolverResult:
        result = rank_loss_sim(
            dense(bags.instances).astype(np.float64),
            bags.offsets,
            labels.indicator,
            reg=self.reg,
            max_iter=self.max_iter,
            tol=self.tol,
            track=partial(self._track, task="round"),
        )
        self.coef_, self.intercept_ = result.solution
        self._choose_threshold(bags, labels)
        return result

    def _score(self, bags: Bags) -> Array:
        return safe_sparse_dot(bags.instances, self.coef_.T, dense_output=True) + self.intercept_
