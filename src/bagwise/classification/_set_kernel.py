"""SetKernelSVM: a support vector machine on a kernel between bags (NSK, minimax)."""

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.svm import SVC

from bagwise._common.types import Floats, Ints
from bagwise.base import BagEstimator, OneVsRestMixin
from bagwise.base._parameters import with_parameters
from bagwise.base._set_kernel import SetKernelMixin
from bagwise.labels import Labels
from bagwise.solvers.margin.feature_space import LinearFeatures
from bagwise.solvers.margin.max_margin import MarginProblem, max_margin
from bagwise.solvers.set_kernel import fit_libsvm


@with_parameters
class SetKernelSVM(SetKernelMixin, OneVsRestMixin, BagEstimator):
    r"""Classify bags by an SVM on a bag kernel: the normalised set kernel (NSK) or minimax.

    NSK compares all instances of two bags,
    :math:`K(A, B) = \sum_{a, b} k(a, b) / \sqrt{K(A, A) K(B, B)}`, so the score of a bag is the
    mean of scores of its instances. The minimax kernel compares the smallest and largest values of
    each feature, and has no instance scores. More than two classes are handled one-vs-rest.

    Parameters
    ----------
    C : float, default=10.0
        Weight of the errors on the training bags.
    bag_kernel : {"nsk", "minimax"}, default="nsk"
        The kernel between bags.
    kernel : str or callable, default="rbf"
        The kernel between instances (for minimax: between the minimax vectors), by scikit-learn's
        names ("rbf", "linear", "poly", "chi2", ...) or a function of two vectors.
    gamma : {"scale", "auto"} or float, default="scale"
        Kernel width; "scale" is ``1 / (n_features * variance)``, "auto" ``1 / n_features``, of the
        instances (for minimax: of the minimax vectors).
    normalization : {"feature", "average"} or None, default="feature"
        For NSK: unit length in feature space, mean instead of sum, or the plain sum.
    n_landmarks : int, "auto" or None, default="auto"
        Number of Nystroem features of the instances (for minimax: of the minimax vectors) that
        approximate the kernel; None for the exact kernel. "auto" is 300 for more than 10,000 bags
        or if comparing all pairs of instances would take many minutes, else None.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, as in :class:`sklearn.svm.SVC`.
    tol : float, default=1e-8
        Tolerance of the SVM solver.
    random_state : int, RandomState or None, default=0
        For the Nystroem approximation.

    Attributes
    ----------
    {classes_}
    support_bags_ : Bags
        Training bags with non-zero weight for some class.
    dual_coef_ : ndarray of shape (n_scores, n_support_bags)
        Their weights; one row for two classes, else one per class.
    nystroem_ : Nystroem
        The approximation of the kernel, if there is one, instead of the two attributes above.
    coef_ : ndarray of shape (n_scores, n_landmarks)
        The weights of the Nystroem features.
    intercept_ : ndarray of shape (n_scores,)
        The intercepts.
    gamma_ : float
        The kernel width used.
    {n_features_in_}

    Notes
    -----
    Cost: the kernel of all pairs of instances, computed in blocks and not stored; memory for
    n_bags x n_bags numbers. With the linear kernel only the sum of each bag is needed. With
    landmarks the cost is linear in the instances, and a bag is the sum of their features.

    References
    ----------
    Gärtner, Flach, Kowalczyk, Smola. Multi-instance kernels. ICML 2002.

    Examples
    --------
    >>> from bagwise.classification import SetKernelSVM
    >>> bags = [[[0.0], [0.1]], [[0.2]], [[0.1], [3.0]], [[2.5]]]
    >>> model = SetKernelSVM().fit(bags, ["no", "no", "yes", "yes"])
    >>> model.predict([[[0.0], [2.8]]])
    array(['yes'], dtype='<U3')
    >>> model.key_instances([[[0.0], [2.8]]])
    array([1])
    """

    _advice = "raise tol, lower C, or scale the features"

    class_weight: Any = None
    tol: float = 1e-8

    @property
    def instance_pooling(self) -> str | None:  # type: ignore[override]
        """How instance scores are pooled into the score of the bag: their mean (NSK only)."""
        return "mean" if self.bag_kernel == "nsk" else None

    def _weights(
        self, table: Floats, labels: Labels, weight: Floats, kernel: str
    ) -> tuple[Floats, Floats]:
        exact = kernel == "precomputed"
        space: Any = None if exact else LinearFeatures(table)
        everything = sparse.eye_array(len(table), format="csr")

        def by_libsvm(signs: Ints) -> tuple[Floats, float, bool]:
            machine = SVC(C=self.C, kernel="precomputed", tol=self.tol)
            converged = fit_libsvm(machine, table, signs > 0, weight)
            coef = np.zeros(len(table))
            coef[machine.support_] = machine.dual_coef_[0]
            return coef, machine.intercept_[0], converged

        def by_features(signs: Ints) -> tuple[Floats, float, bool]:
            problem = MarginProblem.separate(everything, signs, self.C * weight)
            result = max_margin(space, problem, tol=self.tol).result()
            coef, intercept = result.solution
            return coef, float(intercept), result.converged

        found = self._one_vs_rest(labels, by_libsvm if exact else by_features)
        coef, intercept, converged = zip(*found, strict=True)
        if not all(converged):
            self._warn_not_converged(self._advice)
        weights, intercepts = np.array(coef), np.array(intercept, np.float64)
        return (weights, intercepts) if exact else space.planes(weights, intercepts)
