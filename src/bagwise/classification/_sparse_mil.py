"""SparseMIL (sMIL): an SVM that expects one positive instance in each positive bag."""

from dataclasses import KW_ONLY
from typing import Any

from bagwise._common.sklearn import StrOptions
from bagwise.base._parameters import POSITIVE, with_parameters
from bagwise.classification._one_vs_rest import OneVsRestSVM
from bagwise.solvers.margin.smil import sparse_mil
from bagwise.solvers.result import SolverResult


@with_parameters
class SparseMIL(OneVsRestSVM):
    r"""SVM that expects few positive instances in a positive bag (sMIL, Bunescu and Mooney 2007).

    If one of the n instances of a positive bag B scores 1 and the others -1, their mean is
    :math:`2 / n - 1`. This is the margin of the mean; that of an instance of a negative bag is -1:

    .. math:: \min_{w, b, \xi \ge 0} \tfrac12 |w|^2 + C \sum_B \xi_B + r C \sum_x \xi_x \quad
        \text{s.t.}\quad w \cdot \frac{\phi(B)}{|B|} + b \ge \frac{2}{|B|} - 1 - \xi_B, \quad
        w \cdot \phi(x) + b \le -1 + \xi_x

    with r the `negative_weight`. The problem is convex and has no local minima. More than two
    classes are handled one-vs-rest. Standardise the instances first.

    Parameters
    ----------
    C : float, default=1.0
        Cost of a margin error of a positive bag; not divided by the number of bags.
    negative_weight : float or "auto", default="auto"
        Cost of a margin error of an instance of a negative bag, as a multiple of C. "auto" balances
        both sides: ``n_positive_bags / n_negative_instances``. The paper uses 1.
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
    The intercept is free. Small positive bags matter most. If all are large, the margins are near
    -1: scores rank the bags well but few are positive, hence the threshold. `BalancedSparseMIL` is
    meant for bags with more positives.

    Cost: a few dozen systems as large as the smaller of the number of features and the number of
    points inside the margin. Memory: two copies of the instances; with a kernel, its matrix for up
    to 3,000 instances, else 300 Nystroem features.

    References
    ----------
    Bunescu, Mooney. Multiple instance learning for sparse positive bags. ICML 2007.

    Examples
    --------
    >>> from bagwise.classification import SparseMIL
    >>> bags = [[[0.0], [0.1]], [[0.2]], [[0.1], [3.0]], [[2.5]]]
    >>> model = SparseMIL().fit(bags, ["no", "no", "yes", "yes"])
    >>> model.predict([[[0.0], [2.8]]])
    array(['yes'], dtype='<U3')
    >>> model.key_instances([[[0.0], [2.8]]])
    array([1])
    """

    _parameter_constraints = {"negative_weight": [StrOptions({"auto"}), POSITIVE]}

    C: float = 1.0
    _: KW_ONLY
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
        return sparse_mil(*problem, negative_weight=self.negative_weight, tol=self.tol)
