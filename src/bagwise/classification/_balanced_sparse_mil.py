"""BalancedSparseMIL (sbMIL): an SVM on instance labels inferred by sMIL."""

from dataclasses import KW_ONLY
from numbers import Real
from typing import Any

from bagwise._common.sklearn import Interval, StrOptions
from bagwise.base._parameters import POSITIVE, with_parameters
from bagwise.classification._one_vs_rest import OneVsRestSVM
from bagwise.solvers.margin.smil import balanced_sparse_mil
from bagwise.solvers.result import SolverResult


@with_parameters
class BalancedSparseMIL(OneVsRestSVM):
    r"""SVM on the top instances of positive bags, ranked by sMIL (sbMIL, Bunescu and Mooney 2007).

    Rank the instances of positive bags by `SparseMIL`, label the top share `eta` of them positive
    and all others negative, and train an ordinary SVM on all instances,

    .. math:: \min_{w, b} \tfrac12 |w|^2
        + C \sum_{ij} \bigl(1 - t_{ij} (w \cdot x_{ij} + b)\bigr)_+

    More than two classes are handled one-vs-rest. Standardise the instances first.

    Parameters
    ----------
    C : float, default=1.0
        Cost of a margin error, in both steps; not divided by the number of instances.
    eta : float, default=0.3
        Expected share of positives among the instances of positive bags. The number of instances
        labelled positive is at least the number of positive bags.
    negative_weight : float or "auto", default="auto"
        Parameter of `SparseMIL`, which ranks the instances: the cost of an instance of a negative
        bag, as a multiple of C. "auto" is ``n_positive_bags / n_negative_instances``; the paper
        uses 1.
    {pos_label}
    {threshold}
    {kernel_and_parameters}
    {n_landmarks}
    {svm_class_weight}
    {svm_tol}
    {svm_random_state}
    {verbose}

    Attributes
    ----------
    {classes_}
    {pos_label_}
    {svm_of_instances_}
    objective_curve_ : ndarray of shape (n_iterations,)
        The objective above after each step of the solver, summed over the SVMs.
    n_iter_ : int
        Number of steps; the largest number over all SVMs.
    {n_features_in_}

    Notes
    -----
    `eta` matters: choose it by cross-validation, or from what is known of the bags. The intercept
    is free.

    Cost: two SVMs, each a few dozen systems as large as the smaller of the number of features and
    the number of points inside the margin. Memory: two copies of the instances; with a kernel, its
    matrix for up to 3,000 instances, else 300 Nystroem features.

    References
    ----------
    Bunescu, Mooney. Multiple instance learning for sparse positive bags. ICML 2007.

    Examples
    --------
    >>> from bagwise.classification import BalancedSparseMIL
    >>> bags = [[[0.0], [0.1]], [[0.2]], [[0.1], [3.0]], [[2.5]]]
    >>> model = BalancedSparseMIL().fit(bags, ["no", "no", "yes", "yes"])
    >>> model.predict([[[0.0], [2.8]]])
    array(['yes'], dtype='<U3')
    >>> model.key_instances([[[0.0], [2.8]]])
    array([1])
    """

    _parameter_constraints = {
        "eta": [Interval(Real, 0, 1, closed="both")],
        "negative_weight": [StrOptions({"auto"}), POSITIVE],
    }

    C: float = 1.0
    _: KW_ONLY
    eta: float = 0.3
    negative_weight: Any = "auto"
    pos_label: Any = None
    threshold: str = "auto"
    kernel: Any = "rbf"
    gamma: Any = "scale"
    degree: float = 3
    coef0: float = 1.0
    n_landmarks: Any = "auto"
    class_weight: Any = None
    tol: float = 1e-8
    random_state: Any = 0
    verbose: int = 0

    def _separate(self, *problem: Any) -> SolverResult:
        return balanced_sparse_mil(
            *problem, eta=self.eta, negative_weight=self.negative_weight, tol=self.tol
        )
