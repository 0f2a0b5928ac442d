"""SetKernelRegressor: kernel ridge regression or support vector regression on a bag kernel."""

import numpy as np
from sklearn.svm import SVR

from bagwise._common.sklearn import StrOptions
from bagwise._common.types import Floats
from bagwise.base import BagEstimator, BagRegressorMixin
from bagwise.base._parameters import NOT_NEGATIVE, with_parameters
from bagwise.base._set_kernel import LARGEST_GRAM, SetKernelMixin
from bagwise.exceptions import InputError
from bagwise.solvers.bag_tables import fit_libsvm, kernel_ridge, ridge


@with_parameters
class SetKernelRegressor(SetKernelMixin, BagRegressorMixin, BagEstimator):  # type: ignore[override]
    r"""Predict a numeric target per bag by kernel regression with the set kernel (NSK) or minimax.

    With :math:`K(A, B) = \sum_{a, b} k(a, b) / \sqrt{K(A, A) K(B, B)}`, the function f of bags and
    the intercept b minimise

    .. math:: |f|^2 + C \sum_i \bigl(z_i - f(B_i) - b\bigr)^2

    (kernel ridge regression), where the targets :math:`z_i` are standardised. With
    ``loss="epsilon_insensitive"`` it is support vector regression: errors count linearly, and
    errors below `epsilon` are ignored. The prediction is the mean of scores of the instances.
    Standardise the instances first.

    Parameters
    ----------
    C : float, default=10.0
        Weight of the errors on the training bags.
    loss : {"squared", "epsilon_insensitive"}, default="squared"
        Kernel ridge regression, or support vector regression, which is more robust to a few wrong
        targets.
    epsilon : float, default=0.1
        Largest error without a cost, in standard deviations of the targets; for
        "epsilon_insensitive" only.
    bag_kernel : {"nsk", "minimax"}, default="nsk"
        The kernel between bags. Minimax compares the smallest and largest values of each feature,
        and has no instance scores.
    kernel : str or callable, default="rbf"
        The kernel between instances (for minimax: between the minimax vectors), by scikit-learn's
        names ("rbf", "linear", "poly", "chi2", ...) or a function of two vectors.
    gamma : {"scale", "auto"} or float, default="scale"
        Kernel width; "scale" is ``1 / (n_features * variance)``, "auto" ``1 / n_features``, of the
        instances (for minimax: of the minimax vectors).
    normalization : {"feature", "average"} or None, default="feature"
        For NSK: unit length in feature space, mean instead of sum, or the plain sum.
    n_landmarks : int, "auto" or None, default="auto"
        Number of Nystroem features that approximate the kernel, as in `SetKernelSVM`.
    tol : float, default=1e-6
        Tolerance of the solver of support vector regression.
    random_state : int, RandomState or None, default=0
        For the Nystroem approximation.

    Attributes
    ----------
    support_bags_ : Bags
        Training bags with non-zero weight.
    dual_coef_ : ndarray of shape (1, n_support_bags)
        Their weights.
    nystroem_ : Nystroem
        The approximation of the kernel, if there is one, instead of the two attributes above.
    coef_ : ndarray of shape (1, n_landmarks)
        The weights of the Nystroem features.
    intercept_ : ndarray of shape (1,)
        The intercept.
    gamma_ : float
        The kernel width used.
    {n_features_in_}

    See Also
    --------
    bagwise.auto.AutoBagRegressor : Combines several regressors.
    bagwise.classification.SetKernelSVM : The classifier.

    Notes
    -----
    Cost: the kernel of all pairs of instances, computed in blocks and not stored; memory for
    n_bags x n_bags numbers. With landmarks the cost is linear in the instances. Any scikit-learn
    regressor after an embedding is also a regressor of bags:
    ``make_pipeline(BagStatistics(), GradientBoostingRegressor())``.

    References
    ----------
    Gärtner, Flach, Kowalczyk, Smola. Multi-instance kernels. ICML 2002.

    Examples
    --------
    >>> from bagwise.regression import SetKernelRegressor
    >>> bags = [[[0.0], [0.1]], [[1.0]], [[2.1], [1.9]], [[3.0]]]
    >>> model = SetKernelRegressor(C=100).fit(bags, [0.0, 1.0, 2.0, 3.0])
    >>> model.predict([[[1.5]]]).round(1)
    array([1.5])
    """

    _parameter_constraints = {
        "loss": [StrOptions({"squared", "epsilon_insensitive"})],
        "epsilon": [NOT_NEGATIVE],
    }

    loss: str = "squared"
    epsilon: float = 0.1
    tol: float = 1e-6

    def _weights(
        self, table: Floats, labels: Floats, weight: Floats, kernel: str
    ) -> tuple[Floats, Floats]:
        centre, scale = float(labels.mean()), float(labels.std()) or 1.0
        targets = (labels - centre) / scale
        if self.loss == "squared":
            solve = kernel_ridge if kernel == "precomputed" else ridge
            coef, intercept = solve(table, targets, self.C)
        else:
            coef, intercept = self._by_libsvm(table, targets, kernel)
        return scale * coef[None], np.array([centre + scale * intercept])

    def _by_libsvm(self, table: Floats, targets: Floats, kernel: str) -> tuple[Floats, float]:
        if kernel == "linear" and len(table) > LARGEST_GRAM:
            raise InputError(
                f"loss={self.loss!r} takes too long for {len(table):,} bags: use loss='squared', "
                f"or at most {LARGEST_GRAM:,} bags."
            )
        machine = SVR(C=self.C, epsilon=self.epsilon, kernel=kernel, tol=self.tol)
        if not fit_libsvm(machine, table, targets):
            self._warn_not_converged("raise tol, lower C, or scale the features")
        if kernel == "linear":
            return machine.coef_[0], float(machine.intercept_[0])
        coef = np.zeros(len(targets))
        coef[machine.support_] = machine.dual_coef_[0]
        return coef, float(machine.intercept_[0])
