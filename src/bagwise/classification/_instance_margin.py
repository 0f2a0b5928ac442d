"""InstanceMarginSVM (mi-SVM): an SVM on instances, whose labels in positive bags are inferred."""

from dataclasses import KW_ONLY
from typing import Any

from bagwise.base._parameters import with_parameters
from bagwise.classification._one_vs_rest import OneVsRestSVM
from bagwise.solvers.margin.misvm import instance_margin
from bagwise.solvers.result import SolverResult


@with_parameters
class InstanceMarginSVM(OneVsRestSVM):
    r"""SVM on instances whose labels in positive bags are learned too (mi-SVM, Andrews 2003).

    Instances of negative bags are negative; of a positive bag at least one is positive:

    .. math:: \min_{w, b} \min_{t} \tfrac12 |w|^2
        + C \sum_{ij} \bigl(1 - t_{ij} (w \cdot x_{ij} + b)\bigr)_+

    over labels :math:`t_{ij} = \pm 1` that agree with the bags. Solve the SVM, label each instance
    by the sign of its score (the best of a positive bag always positive), and repeat until the
    labels recur. More than two classes are handled one-vs-rest. Standardise the instances first.

    Parameters
    ----------
    C : float, default=1.0
        Cost of a margin error, per instance; not divided by the number of instances.
    {pos_label}
    {threshold}
    {kernel_and_parameters}
    {n_landmarks}
    {svm_class_weight}
    max_iter : int, default=100
        Maximum number of iterations of the alternation.
    {svm_tol}
    {svm_random_state}
    {verbose}

    Attributes
    ----------
    {classes_}
    {pos_label_}
    {svm_of_instances_}
    objective_curve_ : ndarray of shape (n_iterations,)
        The objective above after each round, summed over the SVMs.
    n_iter_ : int
        Number of rounds; the largest number over all SVMs.
    {n_features_in_}

    Notes
    -----
    Neither half of an iteration raises the objective. Labels recur after a few iterations, at the
    latest in a cycle of equal objectives; the best SVM is kept. The intercept is free, as in LIBSVM
    (LIBLINEAR would penalise it).

    Every instance has a margin cost, so large bags count more than small ones. To predict labels of
    bags, `BagMarginSVM` is usually the better choice; to predict labels of instances, this class.

    Cost of a round: a few dozen systems as large as the smaller of the number of features and the
    number of instances inside the margin. Memory: two copies of the instances; with a
    kernel, its matrix for up to 3,000 instances, else 300 Nystroem features.

    References
    ----------
    Andrews, Tsochantaridis, Hofmann. Support vector machines for multiple-instance learning.
    NIPS 2002 (2003).

    Examples
    --------
    >>> from bagwise.classification import InstanceMarginSVM
    >>> bags = [[[0.0], [0.1]], [[0.2]], [[0.1], [3.0]], [[2.5]]]
    >>> model = InstanceMarginSVM().fit(bags, ["no", "no", "yes", "yes"])
    >>> model.predict([[[0.0], [2.8]]])
    array(['yes'], dtype='<U3')
    >>> model.key_instances([[[0.0], [2.8]]])
    array([1])
    """

    C: float = 1.0
    _: KW_ONLY
    pos_label: Any = None
    threshold: str = "auto"
    kernel: Any = "rbf"
    gamma: Any = "scale"
    degree: float = 3
    coef0: float = 1.0
    n_landmarks: Any = "auto"
    class_weight: Any = None
    max_iter: int = 100
    tol: float = 1e-8
    random_state: Any = 0
    verbose: int = 0

    def _separate(self, *problem: Any) -> SolverResult:
        return instance_margin(*problem, max_iter=self.max_iter, tol=self.tol)
