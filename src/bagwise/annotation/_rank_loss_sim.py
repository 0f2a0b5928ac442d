"""RankLossSIM: support instance machines that rank the labels of a bag."""

from dataclasses import KW_ONLY
from functools import partial

from numpy.random import RandomState
from sklearn.utils.extmath import safe_sparse_dot

from bagwise._common.types import Array, Floats
from bagwise.annotation._annotator import ThresholdAnnotator
from bagwise.bags import Bags
from bagwise.base import BagEstimator
from bagwise.base._parameters import NOT_NEGATIVE, POSITIVE, with_parameters
from bagwise.labels import Labels
from bagwise.solvers.annotation.rank_loss import rank_loss_sim
from bagwise.solvers.result import SolverResult


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
    fit_intercept : bool, default=True
        Whether to centre the instances and to add a constant feature.
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
    may raise the objective; the fit then stops. Bags whose label set is unknown, empty, or contains
    all labels are not used.

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
    fit_intercept: bool = True
    max_iter: int = 20
    tol: float = 1e-3
    verbose: int = 0

    def _solve(self, bags: Bags, labels: Labels, weight: Floats, rng: RandomState) -> SolverResult:
        result = rank_loss_sim(
            bags.instances,
            bags.offsets,
            labels.indicator,
            reg=self.reg,
            fit_intercept=self.fit_intercept,
            max_iter=self.max_iter,
            tol=self.tol,
            track=partial(self._track, task="round"),
        )
        self.coef_, self.intercept_ = result.solution
        self._choose_threshold(bags, labels)
        return result

    def _score(self, bags: Bags) -> Array:
        return safe_sparse_dot(bags.instances, self.coef_.T, dense_output=True) + self.intercept_
