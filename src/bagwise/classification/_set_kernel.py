"""SetKernelSVM: a support vector machine on a kernel between bags (NSK, minimax)."""

from dataclasses import KW_ONLY
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.kernel_approximation import Nystroem
from sklearn.svm import SVC
from sklearn.utils import check_random_state, compute_sample_weight, gen_batches

from bagwise._memory import require_memory
from bagwise._sklearn import StrOptions
from bagwise._types import Array, Floats, Ints
from bagwise._validation import check_bag_labels, check_bags
from bagwise.bags import Bags
from bagwise.base import BagEstimator, OneVsRestMixin, fit_method
from bagwise.base._fitted_state import BagsOf, FittedState, Model, Number
from bagwise.base._fitted_state import Floats as FloatArray
from bagwise.base._kernel_machine import (
    BLOCK,
    kernel_params,
    kernel_scores,
    nystroem_of,
    transformed,
)
from bagwise.base._parameters import with_parameters
from bagwise.classification._one_vs_rest import LANDMARKS, class_weights
from bagwise.labels import Labels
from bagwise.pairwise import (
    BAG_KERNELS,
    kernel_between,
    kernel_takes_long,
    kernel_width,
    minimax_statistics,
    set_kernel_norms,
)
from bagwise.solvers.margin.feature_space import LinearFeatures
from bagwise.solvers.margin.libsvm import fit_libsvm
from bagwise.solvers.margin.max_margin import MarginProblem, max_margin
from bagwise.solvers.result import SolverResult

LARGEST_GRAM = 10_000  # bags; beyond, the kernel is approximated


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
    n_landmarks : int, "auto" or None, default="auto"
        Number of Nystroem features of the instances (for minimax: of the minimax vectors) that
        approximate the kernel; None for the exact kernel. "auto" is 300 for more than 10,000 bags
        and where comparing all pairs of instances would take many minutes, else None.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, as in :class:`sklearn.svm.SVC`.
    tol : float, default=1e-8
        Tolerance of the SVM solver.
    random_state : int, RandomState or None, default=0
        For the Nystroem approximation.
    {verbose}

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels of bags.
    support_bags_ : Bags
        The training bags that carry weight for some class.
    dual_coef_ : ndarray of shape (n_scores, n_support_bags)
        Their weights; one row for two classes, else one per class.
    nystroem_ : Nystroem
        The approximation of the kernel, where there is one, in place of the two above.
    coef_ : ndarray of shape (n_scores, n_landmarks)
        The weights of its features.
    intercept_ : ndarray of shape (n_scores,)
        The offsets.
    gamma_ : float
        The kernel width used.
    {n_features_in_}

    Notes
    -----
    Cost: the kernel of all pairs of instances, computed in blocks and never held; memory for
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
    n_landmarks: Any = "auto"
    class_weight: Any = None
    tol: float = 1e-8
    random_state: Any = 0
    verbose: int = 0

    @property
    def instance_pooling(self) -> str | None:  # type: ignore[override]
        """How instance scores make the score of the bag: their mean (NSK only)."""
        return "mean" if self.bag_kernel == "nsk" else None

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({"n_landmarks": None, "random_state": 0} | state)  # after 0.1

    def _fitted_state(self) -> FittedState:
        state = super()._fitted_state() | {
            "gamma_": Number(low=0),
            "intercept_": FloatArray("n_machines"),
        }
        if hasattr(self, "nystroem_"):
            coef = FloatArray("n_machines", "n_landmarks")
            return state | {"coef_": coef, "nystroem_": Model("transform")}
        return state | {
            "support_bags_": BagsOf("n_support"),
            "dual_coef_": FloatArray("n_machines", "n_support"),
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
        self._drop("support_bags_", "dual_coef_", "nystroem_", "coef_")
        n_landmarks = self.n_landmarks
        if n_landmarks == "auto":
            n_landmarks = LANDMARKS if self._is_large(bags) else None
        if n_landmarks is None:
            self._fit_exactly(bags, labels)
        else:
            self._fit_landmarks(bags, labels, n_landmarks)
        self.classes_ = labels.classes
        return self

    def _is_large(self, bags: Bags) -> bool:
        """Whether the kernel of all pairs of bags, or of their instances, is too large."""
        pairs = self.bag_kernel == "nsk" and kernel_takes_long(self.kernel, bags)
        return len(bags) > LARGEST_GRAM or pairs

    def _fit_exactly(self, bags: Bags, labels: Labels) -> None:
        """Solve the machines on the matrix of the kernel."""
        require_memory(
            3 * 8.0 * len(bags) ** 2,
            purpose=f"the kernel of {len(bags):,} bags",
            remedy="set n_landmarks, or use fewer bags",
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
        self.gamma_ = gamma
        self.support_bags_, self.dual_coef_ = bags[support], dual[:, support]
        self.intercept_ = np.concatenate([machine.intercept_ for machine in machines])

    def _fit_landmarks(self, bags: Bags, labels: Labels, n_landmarks: int) -> None:
        """Solve the machines on bags as vectors of Nystroem features."""
        costs = self.C * class_weights(self.class_weight, labels)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self.gamma_ = self._width(bags)
        rows = bags.instances if self.bag_kernel == "nsk" else minimax_statistics(bags)
        self.nystroem_ = nystroem_of(self, self.gamma_, n_landmarks, seed, rows)
        space = LinearFeatures(self._features(bags))
        everything = sparse.eye_array(len(bags), format="csr")

        def solve(signs: Ints) -> SolverResult:
            problem = MarginProblem.separate(everything, signs, costs)
            return max_margin(space, problem, tol=self.tol).result()

        results = self._one_vs_rest(labels, solve)
        if not all(result.converged for result in results):
            self._warn_not_converged("raise tol, lower C, or scale the features")
        coef, intercept = zip(*(result.solution for result in results), strict=True)
        self.coef_, self.intercept_ = space.planes(np.array(coef), np.array(intercept))

    def _features(self, bags: Bags) -> Floats:
        """The vectors of bags whose products approximate the kernel."""
        if self.bag_kernel == "minimax":
            return transformed(self.nystroem_, minimax_statistics(bags))
        sums = feature_sums(self.nystroem_, bags)
        return sums / self._feature_norms(sums, bags)[:, None]

    def _feature_norms(self, sums: Floats, bags: Bags) -> Floats:
        """The norm of each bag, as in `set_kernel_norms`."""
        if self.normalization == "feature":
            bags = Bags(sums, np.arange(len(bags) + 1))
        return set_kernel_norms(bags, kernel="linear", normalization=self.normalization)

    def _width(self, bags: Bags) -> float:
        """Gamma of the kernel, on the vectors that it compares."""
        if self.bag_kernel == "minimax":
            bags = Bags(minimax_statistics(bags), np.arange(len(bags) + 1))
        return kernel_width(self.gamma, bags)

    def _bag_scores(self, bags: Bags) -> Array:
        if hasattr(self, "nystroem_"):
            return self._features(bags) @ self.coef_.T + self.intercept_
        options = self._kernel_options(self.gamma_)
        gram = kernel_between(bags, self.support_bags_, kind=self.bag_kernel, **options)
        return gram @ self.dual_coef_.T + self.intercept_

    def _score(self, bags: Bags) -> Array:
        """Shares of the instances in the score of their bag; the mean is the bag score."""
        if hasattr(self, "nystroem_"):
            norms = self._feature_norms(feature_sums(self.nystroem_, bags), bags)
            sums = kernel_scores(bags.instances, self.nystroem_.transform, self.coef_)
            return sums * (bags.sizes / norms)[bags.bag_index, None] + self.intercept_
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


def feature_sums(nystroem: Nystroem, bags: Bags) -> Floats:
    """Sum the Nystroem features of the instances of each bag, a block of instances at a time.

    Parameters
    ----------
    nystroem : Nystroem
        The fitted transformer.
    bags : Bags
        The bags.

    Returns
    -------
    ndarray of shape (n_bags, n_landmarks)
    """
    n_landmarks = len(nystroem.component_indices_)
    out = np.zeros((len(bags), n_landmarks))
    for block in gen_batches(bags.n_instances, max(1, BLOCK // n_landmarks)):
        owners = bags.bag_index[block]
        first = np.flatnonzero(np.diff(owners, prepend=-1))
        features = nystroem.transform(bags.instances[block])
        out[owners[first]] += np.add.reduceat(features, first, axis=0)
    return out
