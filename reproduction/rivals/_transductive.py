"""TransductiveSVM (TSVM): an SVM that chooses the labels of unlabelled rows."""

from dataclasses import KW_ONLY
from typing import Any

import numpy as np

from bagwise._common.types import Ints
from bagwise.base._parameters import with_parameters
from bagwise.solvers.margin.feature_space import FeatureSpace
from bagwise.solvers.result import SolverResult
from reproduction.rivals._partly_labelled import PartlyLabelledClassifier
from reproduction.rivals.solvers.label_starts import n_expected
from reproduction.rivals.solvers.transductive import transductive_svm


@with_parameters
class TransductiveSVM(PartlyLabelledClassifier):
    r"""SVM that also chooses the labels of unlabelled rows (TSVM, Joachims 1999).

    .. math:: \min_{y_u, w, b} \tfrac12 |w|^2 + C_1 \sum_{labelled} \xi_i
        + C_2 \sum_{unlabelled} \xi_j

    where :math:`\xi = (1 - y (w \cdot \phi(x) + b))_+`, over labels of the unlabelled rows with a
    given share of positive ones. The ordinary SVM gives the first labels. Then pairs of labels are
    exchanged if this lowers the objective, while the cost of unlabelled rows grows from 1e-5 C2 to
    C2.

    Parameters
    ----------
    C1 : float, default=1.0
        Cost of a margin error of a labelled row.
    C2 : float, default=1.0
        Cost of a margin error of an unlabelled row, at the end.
    positive_share : float, array-like of shape (n_classes,) or None, default=None
        Share of the positive class (``classes_[1]``) among the unlabelled rows; for more than two
        classes, the share of each. By default the shares among the labelled rows.
    {kernel}
    {gamma}
    {degree}
    {coef0}
    max_iter : int, default=1000
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
        The objective after each SVM, at the cost of unlabelled rows of its stage, summed over the
        classes.
    n_iter_ : int
        Number of SVMs solved; the largest number over all classes.
    {n_features_in_}

    Notes
    -----
    Standardise dense features first.

    All pairs that should be exchanged are exchanged before the next SVM, not one at a time; the
    objective still falls. Unlabelled rows of both signs have the same cost; Joachims' two costs
    become equal at the end. Without unlabelled rows this is the ordinary SVM with a free
    intercept. More than two classes are handled one-vs-rest. The objective has many local minima.

    Cost: about fifty warm-started SVMs on all rows.

    References
    ----------
    Joachims. Transductive inference for text classification using support vector machines. ICML
    1999.

    Examples
    --------
    >>> from reproduction.rivals import TransductiveSVM
    >>> X = [[0.0], [0.3], [0.6], [2.0], [2.3], [2.6]]
    >>> model = TransductiveSVM(C1=10, C2=10).fit(X, ["no", -1, -1, -1, -1, "yes"])
    >>> model.transduction_.tolist()
    ['no', 'no', 'no', 'yes', 'yes', 'yes']
    """

    C1: float = 1.0
    C2: float = 1.0
    _: KW_ONLY
    positive_share: Any = None
    kernel: Any = "linear"
    gamma: Any = "scale"
    degree: float = 3
    coef0: float = 1.0
    max_iter: int = 1000
    tol: float = 1e-6
    verbose: int = 0

    def _solve(self, space: FeatureSpace, signs: Ints, share: float) -> SolverResult:
        return transductive_svm(
            space,
            signs,
            C1=self.C1,
            C2=self.C2,
            n_positive=n_expected(share, int(np.sum(signs == 0))),
            max_iter=self.max_iter,
            tol=self.tol,
        )
