"""EMDD (EM-DD): diverse density with the nearest instance as representative of its bag."""

from dataclasses import KW_ONLY
from typing import Any

from bagwise.base._parameters import COUNT, with_parameters
from bagwise.classification._point_concept import PointConceptClassifier
from bagwise.solvers.likelihood.diverse_density import diverse_density
from bagwise.solvers.result import SolverResult


@with_parameters
class EMDD(PointConceptClassifier):
    r"""The most likely point concept, a bag being its best instance (EM-DD, Zhang, Goldman 2001).

    An instance x is positive with probability :math:`p(x) = \exp(-\sum_k w_k (x_k - t_k)^2)`, and
    a bag with the probability of its nearest instance. The point t and the weights w minimise

    .. math:: -\sum_{B\,\text{positive}} \log \max_{x \in B} p(x)
        - \sum_{B\,\text{negative}} \log \bigl(1 - \max_{x \in B} p(x)\bigr)

    by alternation: choose the nearest instance of each bag, then improve t and w by L-BFGS for
    these instances, until the objective no longer falls. It starts from every instance of every
    positive bag and keeps the best result. More than two classes are handled one-vs-rest.
    Standardise the instances first.

    Parameters
    ----------
    n_start_bags : int or None, default=None
        Number of positive bags, drawn at random, whose instances are starting points; all by
        default. The paper drew 10.
    gamma : {"scale", "auto"} or float, default="scale"
        The weight of each feature at the start; "scale" is ``1 / (n_features * variance of the
        instances)``, "auto" ``1 / n_features``.
    max_rounds : int, default=50
        Maximum number of iterations from each starting point.
    max_iter : int, default=100
        Maximum number of L-BFGS steps per iteration.
    tol : float, default=1e-4
        Rounds and steps stop when they lower the objective by less than this fraction.
    {pos_label}
    random_state : int, RandomState or None, default=None
        For drawing bags to start from.
    {verbose}

    Attributes
    ----------
    {classes_}
    {pos_label_}
    concepts_ : ndarray of shape (n_concepts, n_features)
        The points; one for two classes, else one each.
    weights_ : ndarray of shape (n_concepts, n_features)
        The weights of the features.
    objective_curve_ : ndarray of shape (n_iterations,)
        The objective after each round from the best start, summed over the concepts.
    n_iter_ : int
        Number of rounds from the best start; the largest number over all concepts.
    {n_features_in_}

    See Also
    --------
    DiverseDensity : All instances of a bag count, by noisy-or.

    Notes
    -----
    The concept is chosen by its likelihood on the training bags alone. (The figures of the paper
    come from concepts chosen by their error on the test bags.) Descents run in parallel on all
    cores. Cost: starts x rounds x (instances + steps x bags) x features. Memory: one copy of the
    instances, and two of the starting points.

    References
    ----------
    Zhang, Goldman. EM-DD: an improved multiple-instance learning technique. NIPS 2001.

    Examples
    --------
    >>> from bagwise.classification import EMDD
    >>> bags = [[[0.0], [0.1]], [[0.2]], [[0.1], [3.0]], [[2.5]]]
    >>> model = EMDD().fit(bags, ["no", "no", "yes", "yes"])
    >>> model.predict([[[0.0], [2.8]]])
    array(['yes'], dtype='<U3')
    >>> model.key_instances([[[0.0], [2.8]]])
    array([1])
    """

    instance_pooling = "max"
    keeps = "one concept"

    _parameter_constraints = {"max_rounds": [COUNT]}

    n_start_bags: int | None = None
    _: KW_ONLY
    gamma: Any = "scale"
    max_rounds: int = 50
    max_iter: int = 100
    tol: float = 1e-4
    pos_label: Any = None
    random_state: Any = None
    verbose: int = 0

    def _separate(self, *problem: Any) -> SolverResult:
        return diverse_density(
            *problem, max_iter=self.max_iter, tol=self.tol, max_rounds=self.max_rounds
        )
