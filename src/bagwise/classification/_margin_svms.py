"""The classic multi-instance SVMs: MI-SVM, mi-SVM, sMIL and sbMIL."""

from dataclasses import KW_ONLY
from functools import partial
from numbers import Real
from typing import Any

from bagwise._common.memory import as_float64
from bagwise._common.sklearn import Interval, StrOptions
from bagwise._common.types import Floats
from bagwise.bags import Bags
from bagwise.base import OneVsRestMixin
from bagwise.base._kernel_machine import KernelMachine
from bagwise.base._parameters import POSITIVE, with_parameters
from bagwise.labels import Labels
from bagwise.solvers.margin.feature_space import KEPT
from bagwise.solvers.margin.misvm import LabelledBags, bag_margin, instance_margin, sparse_mil
from bagwise.solvers.margin.threshold import at_threshold
from bagwise.solvers.result import SolverResult

# Number of Nystroem features if the kernel matrix of all instances is not kept. It is lowered, down
# to the minimum, if the features would have more than MOST_VALUES values.
LANDMARKS, LEAST_LANDMARKS, MOST_VALUES = 300, 100, 30_000_000


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
        learn = partial(at_threshold, self._separate, threshold=threshold, seed=seed)
        results = self._one_vs_rest(
            labels,
            lambda signs: learn(LabelledBags(space, bags.offsets, signs > 0, self.C * weight)),
        )
        self._keep_each(space, results)
        return results

    def _separate(self, bags: LabelledBags) -> SolverResult:
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

    def _separate(self, bags: LabelledBags) -> SolverResult:
        return bag_margin(bags, slack_per_bag=True, max_iter=self.max_iter, tol=self.tol)


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

    def _separate(self, bags: LabelledBags) -> SolverResult:
        return instance_margin(bags, max_iter=self.max_iter, tol=self.tol)


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

    def _separate(self, bags: LabelledBags) -> SolverResult:
        weight = self.negative_weight
        return sparse_mil(bags, negative_weight=weight, tol=self.tol, eta=self.eta)


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
