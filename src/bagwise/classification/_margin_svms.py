"""Support vector machines: MI-SVM, mi-SVM, sMIL, sbMIL, set kernels and MILES.

The kernel of SetKernelSVM (NSK, minimax) is between bags. MILES is linear in the similarities of a
bag to the training instances.
"""

import itertools
from dataclasses import KW_ONLY
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.svm import SVC

from bagwise import loops
from bagwise._common.memory import as_float64
from bagwise._common.sklearn import Interval, StrOptions
from bagwise._common.types import Array, Floats, Ints
from bagwise.bags import Bags
from bagwise.base import BagEstimator, OneVsRestMixin
from bagwise.base._kernel_machine import KernelMachine
from bagwise.base._parameters import COUNT, POSITIVE, with_parameters
from bagwise.base._set_kernel import SetKernelMixin
from bagwise.embedding._prototypes import distinct_instances, similarity_to
from bagwise.labels import Labels
from bagwise.loops.threads import block_bounds
from bagwise.pairwise import alone, kernel_width
from bagwise.solvers.bag_tables import fit_libsvm, l1_svm
from bagwise.solvers.margin import misvm
from bagwise.solvers.margin.feature_space import KEPT, LinearFeatures
from bagwise.solvers.margin.max_margin import MarginProblem, max_margin
from bagwise.solvers.result import SolverResult
from bagwise.validation import check_groups

# Number of Nystroem features if the kernel matrix of all instances is not kept. It is lowered, down
# to the minimum, if the features would have more than MOST_VALUES values.
LANDMARKS, LEAST_LANDMARKS, MOST_VALUES = 300, 100, 30_000_000
# Prototypes of MILES if the similarities of all bags to all instances would be more than this.
PROTOTYPES, MOST_SIMILAR = 500, 3_000_000
BLOCK = 2**22  # similarities in memory at a time, unless a single bag has more


@with_parameters
class OneVsRestSVM(OneVsRestMixin, KernelMachine):
    """A linear or kernel SVM per class; a bag has the score of its best instance.

    Two classes need one SVM, for the positive class; more need one per class, against the rest. A
    subclass defines ``_separate(bags)``, which separates one class from the rest. The solution is
    (coefficients of the instances, intercept).

    Parameters
    ----------
    n_landmarks : int, "auto" or None
        Number of Nystroem features that approximate the kernel; None for the exact kernel.
        "auto" is None up to 3,000 instances, 300 up to 100,000, then fewer, but at least 100.
        Margins are then met to 1e-6 at best. Not used by the linear kernel.
    threshold : {"auto", "zero", "training", "out_of_fold"}
        How the decision threshold is set, by a shift of the intercept. "zero" keeps the
        intercept of the solution. "training" maximises the accuracy on the training bags,
        weighted by `class_weight`; "out_of_fold" does so for scores from 5-fold
        cross-validation or, with fewer than 10 bags of a class, on the training bags.
        "auto" is "out_of_fold" for two classes and a nonlinear kernel, else "zero".
    class_weight : dict, "balanced" or None
        Weights of the classes of bags: they multiply C for a bag and its instances.
    random_state : int, RandomState or None
        For the folds of the threshold (and the Nystroem approximation).
    """

    instance_pooling = "max"
    keeps = "standard"
    tol = 1e-8  # of the margins of each SVM
    _advice = "raise max_iter, scale the instances, or lower C"

    C: float = 1.0
    _: KW_ONLY
    kernel: Any = "rbf"
    gamma: Any = "scale"
    n_landmarks: Any = "auto"
    threshold: str = "auto"
    pos_label: Any = None
    class_weight: Any = None
    random_state: Any = 0

    def _solve(self, bags: Bags, labels: Labels, weight: Floats, rng: Any) -> list[SolverResult]:
        rows = as_float64(bags.instances)
        seed = int(rng.randint(2**31 - 1))
        space = self._space(rows, n_landmarks=self._n_features_of(rows), seed=seed)
        threshold = self._threshold(len(labels.classes))
        groups = None if bags._group is None else check_groups(None, bags).groups
        how: Any = {"threshold": threshold, "seed": seed, "groups": groups}
        learn: Any = partial(misvm.at_threshold, self._separate, **how)
        results = self._one_vs_rest(
            labels,
            lambda signs: learn(
                misvm.LabelledBags(space, bags.offsets, signs > 0, self.C * weight)
            ),
        )
        self._keep_each(space, results)
        return results

    def _separate(self, bags: misvm.LabelledBags) -> SolverResult:
        raise NotImplementedError

    def _n_features_of(self, rows: Any) -> int | None:
        """Number of Nystroem features that approximate the kernel; None for the exact kernel."""
        if self.n_landmarks != "auto":
            return self.n_landmarks
        n_rows = rows.shape[0]
        if n_rows <= KEPT:
            return None
        return min(LANDMARKS, max(LEAST_LANDMARKS, MOST_VALUES // n_rows))

    def _threshold(self, n_classes: int) -> str:
        if self.threshold != "auto":
            return str(self.threshold)
        # With several classes the highest score wins, whatever its sign.
        return "out_of_fold" if self.kernel != "linear" and n_classes == 2 else "zero"


@with_parameters
class BagMarginSVM(OneVsRestSVM):
    r"""SVM on bags, each scored by its best instance (MI-SVM, Andrews 2003).

    With :math:`y_i = \pm 1` the label of bag i,

    .. math:: \min_{w, b} \tfrac12 |w|^2
        + C \sum_i \bigl(1 - y_i \max_j (w \cdot x_{ij} + b)\bigr)_+

    The first witness of each positive bag is its mean. Solve the SVM, take the best instance as the
    new witness, and repeat until a selection of witnesses recurs. More than two classes are handled
    one-vs-rest. Standardise the instances first.

    Parameters
    ----------
    C : float, default=1.0
        Cost of a margin error, per bag; not divided by the number of bags.
    {pos_label}
    {threshold}
    {kernel}
    {gamma}
    {n_landmarks}
    {class_weight}
    max_iter : int, default=100
        Maximum number of iterations of the alternation.
    {random_state}

    Attributes
    ----------
    {classes_}
    {pos_label_}
    {coef_}
    {support_}
    {support_vectors_}
    {dual_coef_}
    {nystroem_}
    {gamma_}
    {intercept_}
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

    max_iter: int = 100

    def _separate(self, bags: misvm.LabelledBags) -> SolverResult:
        return misvm.bag_margin(bags, slack_per_bag=True, max_iter=self.max_iter, tol=self.tol)


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
    {kernel}
    {gamma}
    {n_landmarks}
    {class_weight}
    max_iter : int, default=100
        Maximum number of iterations of the alternation.
    {random_state}

    Attributes
    ----------
    {classes_}
    {pos_label_}
    {coef_}
    {support_}
    {support_vectors_}
    {dual_coef_}
    {nystroem_}
    {gamma_}
    {intercept_}
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

    max_iter: int = 100

    def _separate(self, bags: misvm.LabelledBags) -> SolverResult:
        return misvm.instance_margin(bags, max_iter=self.max_iter, tol=self.tol)


@with_parameters
class SparseMIL(OneVsRestSVM):
    r"""SVM that expects few positive instances in a positive bag (sMIL, Bunescu and Mooney 2007).

    If one of the n instances of a positive bag B scores 1 and the others -1, their mean is
    :math:`2 / n - 1`. This is the margin of the mean; an instance of a negative bag has -1:

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
    {kernel}
    {gamma}
    {n_landmarks}
    {class_weight}
    {random_state}

    Attributes
    ----------
    {classes_}
    {pos_label_}
    {coef_}
    {support_}
    {support_vectors_}
    {dual_coef_}
    {nystroem_}
    {gamma_}
    {intercept_}
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

    eta = None  # of sbMIL
    _parameter_constraints = {"negative_weight": [StrOptions({"auto"}), POSITIVE]}

    negative_weight: Any = "auto"

    def _separate(self, bags: misvm.LabelledBags) -> SolverResult:
        weight = self.negative_weight
        return misvm.sparse_mil(bags, negative_weight=weight, tol=self.tol, eta=self.eta)


@with_parameters
class BalancedSparseMIL(SparseMIL):
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
    {kernel}
    {gamma}
    {n_landmarks}
    {class_weight}
    {random_state}

    Attributes
    ----------
    {classes_}
    {pos_label_}
    {coef_}
    {support_}
    {support_vectors_}
    {dual_coef_}
    {nystroem_}
    {gamma_}
    {intercept_}
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

    _parameter_constraints = {"eta": [Interval(Real, 0, 1, closed="both")]}

    eta: float = 0.3  # type: ignore[assignment]


@with_parameters
class SetKernelSVM(SetKernelMixin, OneVsRestMixin, BagEstimator):  # type: ignore[override]
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


@with_parameters
class MILES(OneVsRestMixin, BagEstimator):
    r"""Sparse SVM on similarities to training instances (MILES, Chen, Bi and Wang 2006).

    A bag B is embedded as its similarities :math:`s_k(B) = \max_{x \in B} e^{-\gamma |x - z_k|^2}`
    to all training instances :math:`z_k` (:class:`~bagwise.embedding.InstanceSimilarity`); a 1-norm
    SVM selects a few of them:

    .. math:: \min_{w, b} |w|_1 + \sum_B C_B \bigl(1 - y_B (w \cdot s(B) + b)\bigr)_+

    More than two classes are handled one-vs-rest. Standardise the instances first.

    Parameters
    ----------
    C : float, default=1.0
        Cost of a margin error, per bag.
    gamma : {"scale", "auto"} or float, default="scale"
        Width of the similarity; "scale" is ``1 / (n_features * variance of the instances)``,
        "auto" ``1 / n_features``. The paper writes :math:`1 / \sigma^2`.
    n_prototypes : int, "auto" or None, default="auto"
        Number of distinct training instances, drawn at random, to embed with; None for all.
        "auto" is all up to 3,000,000 similarities (bags times instances), else 500.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes of bags: they multiply C.
    random_state : int, RandomState or None, default=0
        For drawing prototypes.

    Attributes
    ----------
    {classes_}
    prototypes_ : ndarray or CSR of shape (n_chosen, n_features)
        Training instances with non-zero weight.
    coef_ : ndarray of shape (n_machines, n_chosen)
        Their weights; one SVM for two classes, else one per class.
    intercept_ : ndarray of shape (n_machines,)
        The intercepts.
    gamma_ : float
        The width used.
    objective_curve_ : ndarray of shape (n_iterations,)
        The objective of each linear program, with more and more features, summed over the SVMs.
    n_iter_ : int
        Number of linear programs; the largest number over all SVMs.
    {n_features_in_}

    Notes
    -----
    The instance nearest to prototype k contributes :math:`w_k s_k` to the score of its bag (ties
    share it). The score of an instance is its contribution times the size of its bag, plus the
    intercept: the mean over instances is the score of the bag. It depends on the other instances of
    the bag, which may be nearer.

    Cost: one product of the instances with the prototypes, and a few linear programs of b bags and
    k prototypes: some 20 products of a b x k table with itself each. With 500 prototypes this is
    linear in the bags. Memory: four matrices of bags by prototypes.

    References
    ----------
    Chen, Bi, Wang. MILES: multiple-instance learning via embedded instance selection. IEEE
    Transactions on Pattern Analysis and Machine Intelligence 28, 2006.

    Examples
    --------
    >>> from bagwise.classification import MILES
    >>> bags = [[[0.0], [0.1]], [[0.2]], [[0.1], [3.0]], [[2.5]]]
    >>> model = MILES(C=10).fit(bags, ["no", "no", "yes", "yes"])
    >>> model.predict([[[0.0], [2.8]]])
    array(['yes'], dtype='<U3')
    >>> model.key_instances([[[0.0], [2.8]]])
    array([1])
    """

    instance_pooling = "mean"
    keeps = "several concepts"
    _keys_by_value = True  # instances that are nearest to no prototype have equal scores
    _in_canonical_order = True
    _advice = "lower C, or choose weights nearer to 1"

    _parameter_constraints = {"n_prototypes": [None, COUNT, StrOptions({"auto"})]}

    C: float = 1.0
    _: KW_ONLY
    gamma: Any = "scale"
    n_prototypes: Any = "auto"
    class_weight: Any = None
    random_state: Any = 0

    def _solve(self, bags: Bags, labels: Labels, weight: Floats, rng: Any) -> list[SolverResult]:
        self.gamma_ = kernel_width(self.gamma, bags)
        n_prototypes = self.n_prototypes
        if n_prototypes == "auto":
            n_prototypes = PROTOTYPES if len(bags) * bags.n_instances > MOST_SIMILAR else None
        prototypes = distinct_instances(bags, n_prototypes, rng)
        table = similarity_to(prototypes, bags, self.gamma_)
        costs = self.C * weight
        results = self._one_vs_rest(labels, lambda signs: l1_svm(table, signs > 0, costs))
        coef = np.array([result.solution[0] for result in results])
        chosen = np.any(coef != 0, axis=0)
        self.prototypes_, self.coef_ = prototypes[chosen].instances, coef[:, chosen]
        self.intercept_ = np.array([float(result.solution[1]) for result in results])
        return results

    def _score(self, bags: Bags) -> Array:
        """Contributions of the instances to the score of their bag, which is their mean."""
        shares = np.zeros((bags.n_instances, len(self.coef_)))
        n_chosen = self.coef_.shape[1]
        if n_chosen:
            n_blocks = -(-bags.n_instances * n_chosen // BLOCK)
            bounds = block_bounds(bags.offsets, n_blocks)
            for start, stop in itertools.pairwise(bounds):
                rows = slice(bags.offsets[start], bags.offsets[stop])
                shares[rows] = self._brought(bags[start:stop]) @ self.coef_.T
        return shares * bags.sizes[bags.bag_index, None] + self.intercept_

    def _brought(self, bags: Bags) -> Array:
        """Similarity to each prototype of the nearest instance of each bag; 0 for the others."""
        own = alone(self.prototypes_), alone(bags.instances)
        similar = similarity_to(*own, self.gamma_)  # (n_instances, n_chosen)
        nearest = similar == loops.segments.maximum(similar, bags.offsets)[bags.bag_index]
        equals = loops.segments.sum(nearest.astype(np.float64), bags.offsets)
        return similar * nearest / equals[bags.bag_index]
