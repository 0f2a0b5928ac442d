"""UniverSVM: an SVM whose margin avoids unlabelled rows, by the concave-convex procedure."""

from dataclasses import KW_ONLY
from numbers import Real
from typing import Any

from bagwise._common.sklearn import Interval
from bagwise._common.types import Ints
from bagwise.base._parameters import with_parameters
from bagwise.solvers.margin.feature_space import FeatureSpace
from bagwise.solvers.result import SolverResult
from reproduction.rivals._partly_labelled import PartlyLabelledClassifier
from reproduction.rivals.solvers.universvm import ramp_svm


@with_parameters
class UniverSVM(PartlyLabelledClassifier):
    r"""SVM whose margin avoids unlabelled rows (the TSVM of UniverSVM, Collobert 2006).

    .. math:: \min_{w, b} \tfrac12 |w|^2 + C_1 \sum_{labelled} (1 - y_i f_i)_+
        + C_2 \sum_{unlabelled} \bigl(R_s(f_j) + R_s(-f_j)\bigr)

    with :math:`f = w \cdot \phi(x) + b` and the ramp :math:`R_s(z) = \min(1 - s, (1 - z)_+)`, such
    that the mean score of the unlabelled rows equals the mean label of the labelled ones. Each
    iteration of the concave-convex procedure is an ordinary SVM.

    Parameters
    ----------
    C1 : float, default=1.0
        Cost of a margin error of a labelled row.
    C2 : float, default=1.0
        Cost of an unlabelled row inside the margin.
    s : float, default=-0.3
        Score below which the cost of a row is constant, between -1 and 0.
    positive_share : float, array-like of shape (n_classes,) or None, default=None
        Share of the positive class (``classes_[1]``) among the unlabelled rows; for more than two
        classes, the share of each. By default the shares among the labelled rows.
    {kernel}
    {gamma}
    {degree}
    {coef0}
    max_iter : int, default=100
        Maximum number of SVMs to solve.
    tol : float, default=1e-6
        Tolerance of the margins of each SVM.
    {verbose}

    Attributes
    ----------
    {classes_}
    transduction_ : ndarray of shape (n_rows,)
        The label of each training row: as given, or as predicted.
    coef_ : ndarray of shape (n_machines, n_features)
        The weights of the features (linear kernel); one row for two classes, else one per class.
    support_ : ndarray of shape (n_support,)
        Positions of the training rows with non-zero weight (nonlinear kernels).
    support_vectors_ : ndarray or CSR of shape (n_support, n_features)
        Those rows.
    dual_coef_ : ndarray of shape (n_machines, n_support)
        The weights of the support vectors.
    {gamma_}
    intercept_ : ndarray of shape (n_machines,)
        The intercepts.
    objective_curve_ : ndarray of shape (n_iterations,)
        The objective after each SVM, summed over the classes; it never rises.
    n_iter_ : int
        Number of SVMs solved; the largest number over all classes.
    {n_features_in_}

    Notes
    -----
    Standardise dense features first.

    The procedure starts at the SVM of the labelled rows and reaches a local minimum. Without
    unlabelled rows this is the ordinary SVM with a free intercept. More than two classes are
    handled one-vs-rest.

    Cost: a few warm-started SVMs on twice the unlabelled rows.

    References
    ----------
    Collobert, Sinz, Weston, Bottou. Large scale transductive SVMs. Journal of Machine Learning
    Research 7, 2006.

    Examples
    --------
    >>> from reproduction.rivals import UniverSVM
    >>> X = [[0.0], [0.3], [0.6], [2.0], [2.3], [2.6]]
    >>> model = UniverSVM(C1=10).fit(X, ["no", -1, -1, -1, -1, "yes"])
    >>> model.transduction_.tolist()
    ['no', 'no', 'no', 'yes', 'yes', 'yes']
    """

    _parameter_constraints = {"s": [Interval(Real, -1, 0, closed="right")]}

    C1: float = 1.0
    C2: float = 1.0
    _: KW_ONLY
    s: float = -0.3
    positive_share: Any = None
    kernel: Any = "linear"
    gamma: Any = "scale"
    degree: float = 3
    coef0: float = 1.0
    max_iter: int = 100
    tol: float = 1e-6
    verbose: int = 0

    def _solve(self, space: FeatureSpace, signs: Ints, share: float) -> SolverResult:
        return ramp_svm(
            space,
            signs,
            C1=self.C1,
            C2=self.C2,
            s=self.s,
            mean_score=2 * share - 1,
            max_iter=self.max_iter,
            tol=self.tol,
        )
