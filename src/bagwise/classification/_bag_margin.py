"""BagMarginSVM (MI-SVM): a positive bag is represented by its best instance."""

from dataclasses import KW_ONLY
from typing import Any

from bagwise._common.sklearn import StrOptions
from bagwise.base._parameters import with_parameters
from bagwise.classification._one_vs_rest import OneVsRestSVM
from bagwise.solvers.margin.misvm import bag_margin
from bagwise.solvers.margin.one_sided import primal_dual_witnesses
from bagwise.solvers.result import SolverResult


@with_parameters
class BagMarginSVM(OneVsRestSVM):
    r"""SVM on bags, each scored by its best instance (MI-SVM, Andrews 2003).

    With :math:`y_i = \pm 1` the label of bag i,

    .. math:: \min_{w, b} \tfrac12 |w|^2
        + C \sum_i \bigl(1 - y_i \max_j (w \cdot x_{ij} + b)\bigr)_+

    The first witness of each positive bag is its mean. Solve the SVM, take the best instance as the
    new witness, and repeat until a selection of witnesses recurs. With ``start="primal_dual"`` the
    first witnesses are the best instances by :class:`PrimalDualMISVM` with the standard assumption,
    which minimises the same objective. More than two classes are handled one-vs-rest. Standardise
    the instances first.

    Parameters
    ----------
    C : float, default=1.0
        Cost of a margin error, per bag; not divided by the number of bags.
    negatives : {"bag", "instance"}, default="bag"
        Margin errors of a negative bag: one per bag, that of its highest instance (the problem
        above), or one per instance.
    start : {"mean", "primal_dual"}, default="mean"
        The first witnesses: the means of the bags, or the best instances by the primal-dual method.
        The latter often gives a lower objective at large C, and takes about twice as long. With a
        kernel the number of instances is limited by memory (the kernel matrix and its
        eigenvectors), unless `n_landmarks` is used.
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
        The objective after each round, summed over the SVMs.
    n_iter_ : int
        Number of rounds; the largest number over all SVMs.
    {n_features_in_}

    Notes
    -----
    Neither half of an iteration raises the objective. A selection of witnesses recurs after a few
    iterations, at the latest in a cycle of equal objectives; the best SVM is kept. The intercept is
    free, as in LIBSVM (LIBLINEAR would penalise it). The mean of a bag is taken in the feature
    space of the kernel; with the linear kernel that is the paper's. If the instances of a bag have
    equal scores (e.g. w = 0, when the means lie among the negatives), the difference of the class
    means chooses the witness.

    Cost of a round: a few dozen systems as large as the smaller of the number of features and the
    number of witnesses and negative instances inside the margin. Memory: two copies of the
    instances; with a kernel, its matrix for up to 3,000 instances, else 300 Nystroem features.

    References
    ----------
    Andrews, Tsochantaridis, Hofmann. Support vector machines for multiple-instance learning.
    NIPS 2002 (2003).

    Examples
    --------
    >>> from bagwise.classification import BagMarginSVM
    >>> bags = [[[0.0], [0.1]], [[0.2]], [[0.1], [3.0]], [[2.5]]]
    >>> model = BagMarginSVM().fit(bags, ["no", "no", "yes", "yes"])
    >>> model.predict([[[0.0], [2.8]]])
    array(['yes'], dtype='<U3')
    >>> model.key_instances([[[0.0], [2.8]]])
    array([1])
    """

    _parameter_constraints = {
        "negatives": [StrOptions({"bag", "instance"})],
        "start": [StrOptions({"mean", "primal_dual"})],
    }

    C: float = 1.0
    _: KW_ONLY
    negatives: str = "bag"
    start: str = "mean"
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
        witnesses = None
        if self.start == "primal_dual":
            witnesses = primal_dual_witnesses(*problem, C=self.C)
        return bag_margin(
            *problem,
            slack_per_bag=self.negatives == "bag",
            max_iter=self.max_iter,
            tol=self.tol,
            witnesses=witnesses,
        )
