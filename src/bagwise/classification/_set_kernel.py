"""SetKernelSVM: a support vector machine on a kernel between bags (NSK, minimax)."""

from dataclasses import KW_ONLY
from typing import Any, Self

import numpy as np
from sklearn.svm import SVC
from sklearn.utils import compute_sample_weight

from bagwise._memory import require_memory
from bagwise._sklearn import StrOptions
from bagwise._types import Array, Ints
from bagwise._validation import check_bag_labels, check_bags
from bagwise.bags import Bags
from bagwise.base import BagEstimator, OneVsRestMixin, fit_method
from bagwise.base._fitted_state import BagsOf, FittedState, Floats, Number
from bagwise.base._kernel_machine import kernel_params
from bagwise.base._parameters import with_parameters
from bagwise.pairwise import (
    BAG_KERNELS,
    kernel_between,
    kernel_width,
    minimax_statistics,
    set_kernel_norms,
)
from bagwise.solvers.margin.libsvm import fit_libsvm


@with_parameters
class SetKernelSVM(OneVsRestMixin, BagEstimator):
    r"""Classify bags by an SVM on a bag kernel: the normalised set kernel (NSK) or minimax.

    NSK compares all instances of two bags,
    :math:`K(A, B) = \sum_{a, b} k(a, b) / \sqrt{K(A, A) K(B, B)}`, so the score of a bag is the
    mean of scores of its instances. The minimax kernel compares the smallest and largest values of
    each feature, and has no instance scores. More than two classes: one against the rest.

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
    {degree}
    {coef0}
    normalization : {"feature", "average"} or None, default="feature"
        For NSK: unit length in feature space, mean instead of sum, or the plain sum.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, as in :class:`sklearn.svm.SVC`.
    tol : float, default=1e-8
        Tolerance of the SVM solver.
    {verbose}

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels of bags.
    support_bags_ : Bags
        The training bags that carry weight for some class.
    dual_coef_ : ndarray of shape (n_scores, n_support_bags)
        Their weights; one row for two classes, else one per class.
    intercept_ : ndarray of shape (n_scores,)
        The offsets.
    gamma_ : float
        The kernel width used.
    {n_features_in_}

    Notes
    -----
    Cost: the kernel of all pairs of instances, computed in blocks and never held; memory for
    n_bags x n_bags numbers. With the linear kernel only the sum of each bag is needed.

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

    _parameter_constraints = {
        "bag_kernel": [StrOptions(set(BAG_KERNELS))],
        "normalization": [StrOptions({"feature", "average"}), None],
    }

    C: float = 10.0
    _: KW_ONLY
    bag_kernel: str = "nsk"
    kernel: Any = "rbf"
    gamma: Any = "scale"
    degree: float = 3
    coef0: float = 1.0
    normalization: str | None = "feature"
    class_weight: Any = None
    tol: float = 1e-8
    verbose: int = 0

    @property
    def instance_pooling(self) -> str | None:  # type: ignore[override]
        """How instance scores make the score of the bag: their mean (NSK only)."""
        return "mean" if self.bag_kernel == "nsk" else None

    def _fitted_state(self) -> FittedState:
        return super()._fitted_state() | {
            "gamma_": Number(low=0),
            "support_bags_": BagsOf("n_support"),
            "dual_coef_": Floats("n_machines", "n_support"),
            "intercept_": Floats("n_machines"),
        }

    @fit_method
    def fit(self, X: Any, y: Any) -> Self:
        """Solve one SVM (two classes) or one per class on the bag kernel.

        Parameters
        ----------
        {X}
        y : array-like of shape (n_bags,)
            The class of each bag.

        Returns
        -------
        self
        """
        bags = check_bags(self, X, reset=True)
        labels = check_bag_labels(y, bags, min_classes=2)
        require_memory(
            3 * 8.0 * len(bags) ** 2,
            purpose=f"the kernel of {len(bags):,} bags",
            remedy="use fewer bags, or a linear model such as PrimalDualMISVM",
        )
        weight = compute_sample_weight(self.class_weight, labels.classes[labels.codes])
        gamma = self._width(bags)
        gram = kernel_between(bags, kind=self.bag_kernel, **self._kernel_options(gamma))

        def solve(signs: Ints) -> tuple[SVC, bool]:
            machine = SVC(C=self.C, kernel="precomputed", tol=self.tol)
            return machine, fit_libsvm(machine, gram, signs > 0, weight)

        machines, converged = zip(*self._one_vs_rest(labels, solve), strict=True)
        if not all(converged):
            self._warn_not_converged("raise tol, lower C, or scale the features")
        dual = np.zeros((len(machines), len(bags)))
        for row, machine in zip(dual, machines, strict=True):
            row[machine.support_] = machine.dual_coef_[0]
        support = np.any(dual != 0, axis=0)
        support[0] |= not support.any()  # with a large tol none supports; scores need a bag
        self.classes_, self.gamma_ = labels.classes, gamma
        self.support_bags_, self.dual_coef_ = bags[support], dual[:, support]
        self.intercept_ = np.concatenate([machine.intercept_ for machine in machines])
        return self

    def _width(self, bags: Bags) -> float:
        """Gamma of the kernel, on the vectors that it compares."""
        if self.bag_kernel == "minimax":
            bags = Bags(minimax_statistics(bags), np.arange(len(bags) + 1))
        return kernel_width(self.gamma, bags)

    def _bag_scores(self, bags: Bags) -> Array:
        options = self._kernel_options(self.gamma_)
        gram = kernel_between(bags, self.support_bags_, kind=self.bag_kernel, **options)
        return gram @ self.dual_coef_.T + self.intercept_

    def _score(self, bags: Bags) -> Array:
        """Shares of the instances in the score of their bag; the mean is the bag score."""
        options = self._kernel_options(self.gamma_)
        norms = set_kernel_norms(bags, **options)
        # Each instance as a bag of its own: sum over the support bags of weight x kernel sum,
        # then the normalisation of the bag it really belongs to.
        alone = Bags(bags.instances, np.arange(bags.n_instances + 1))
        plain = options | {"normalization": None}
        weights = self.dual_coef_ / set_kernel_norms(self.support_bags_, **options)
        sums = kernel_between(alone, self.support_bags_, **plain) @ weights.T
        scale = (bags.sizes / norms)[bags.bag_index]
        return sums * scale[:, None] + self.intercept_

    def _kernel_options(self, gamma: float) -> dict[str, Any]:
        shape = {"kernel": self.kernel, "normalization": self.normalization}
        return shape | kernel_params(self, gamma)
