"""WellSVM as printed, for rows with few labels, bags, and clustering (Li et al. 2013)."""

from dataclasses import KW_ONLY
from numbers import Real
from typing import Any

import numpy as np
from scipy import sparse

from bagwise import loops
from bagwise._common.sklearn import Interval, StrOptions
from bagwise._common.types import Array, Ints
from bagwise.bags import Bags
from bagwise.base import OneVsRestMixin
from bagwise.base._label_machine import LabelMachine
from bagwise.base._parameters import COUNT, NOT_NEGATIVE, with_parameters
from bagwise.cluster import WellSVMClustering
from bagwise.labels import Labels
from bagwise.published._functions import function_of
from bagwise.semi_supervised import WellSVMClassifier
from bagwise.solvers.result import SolverResult
from bagwise.solvers.wellsvm.as_printed import as_printed, best_rows, scores_of_svm, signed
from bagwise.solvers.wellsvm.well_svm import (
    BoundedLabels,
    KeyInstances,
    PartialLabels,
    canonical_order,
)

__all__ = ["wellsvm", "wellsvm_clustering", "wellsvm_mil"]

N_STARTS = 20  # random label vectors, of which the best aligned is the start of a clustering


class _AsPrinted(LabelMachine):
    """What the three settings share: rows that are not centred, no offset, the stopping rule."""

    _declared: Any = ({}, {})  # none of the parameters of our defaults
    center, offset, verbose = False, 0.0, 0
    _parameter_constraints = {
        "loss": [StrOptions({"hinge", "squared_hinge"})],
        "n_keys": [COUNT],
        "balance": [Interval(Real, 0, 1, closed="left")],
        "tol": [NOT_NEGATIVE],
    }
    _budget = "max_iter"

    def _options(self, order: Ints) -> dict[str, Any]:
        return {"loss": self.loss, "tol": self.tol, "order": order}


@with_parameters
class PublishedWellSVM(_AsPrinted, WellSVMClassifier):
    r"""WellSVM for rows with few labels, Algorithm 2 as printed by Li et al. 2013.

    Of the label vectors B with the given labels and the mean of the given labels (Sec. 4.1), a
    working set :math:`y_1, \ldots, y_T` grows by cutting planes:

    - solve :math:`\min_\mu \max_\alpha \sum_i \alpha_i - \tfrac12 \sum_t \mu_t |v_t|^2` with
      :math:`v_t = \sum_i \alpha_i y_{ti} \varphi(x_i)` and :math:`0 \le \alpha_i \le C_i` (Eq. 12)
      by an SVM for fixed :math:`\mu` and :math:`\mu_t \leftarrow \mu_t |v_t| / \sum_s \mu_s |v_s|`
      (Sec. 4.1.2), until no :math:`\mu_t` changes by more than `tol`;
    - add the label vector that maximises :math:`r \cdot y` over B, with :math:`r_i = \alpha_i
      \varphi(x_i) \cdot v_{\bar y}` and the worst label vector :math:`\bar y` so far (Eqs. 16, 17):
      the :math:`\lceil \tfrac12 (N - l)(1 - \tfrac1l \sum_i y_i) \rceil` lowest r are negative;

    until the new label vector is violated by at most `tol`, or the objective decreases by at most
    `tol`. The score is :math:`f(x) = \sum_t \mu_t v_t \cdot \varphi(x)`, without offset, and its
    threshold is 0. The first label vector is the balanced one of the SVM of the labelled rows.

    With ``loss="squared_hinge"``, which the paper uses for nonlinear kernels, the SVM is its
    nu-SVM: :math:`\max_\alpha -\tfrac12 (\sum_t \mu_t |v_t|^2 + \sum_i \alpha_i^2 / C_i)` with
    :math:`\alpha \ge 0` and :math:`\sum_i \alpha_i = 1`, so that 1 / C is added to the diagonal of
    the kernel matrix.

    Parameters
    ----------
    C1 : float, default=1.0
        Cost of a margin error of a labelled row.
    C2 : float, default=0.1
        Cost of a margin error of an unlabelled row.
    loss : {"hinge", "squared_hinge"}, default="hinge"
        The loss: in the paper, "hinge" with a linear kernel, else "squared_hinge".
    kernel : str or callable, default="linear"
        "linear", another of scikit-learn's names ("rbf", ...), a function of two vectors, or
        "precomputed".
    gamma : {"scale", "auto"} or float, default="scale"
        Kernel width; "scale" is ``1 / (n_features * variance)``, "auto" ``1 / n_features``.
    max_iter : int, default=100
        Maximum number of label vectors.
    tol : float, default=1e-3
        The tolerances above; absolute.
    random_state : int, RandomState or None, default=None
        Not used: nothing is random.

    Returns
    -------
    estimator
        ``fit(X, y)`` takes rows and their labels, -1 if unknown. It has ``coef_`` and
        ``intercept_`` (0), or ``dual_coef_`` and ``support_``; ``label_vectors_`` and
        ``label_weights_``.

    Notes
    -----
    C1 and C2 correspond to nu: with hinge loss, the nu-SVM of :math:`\nu = \sum_i \alpha_i /
    \sum_i C_i` at the solution has the same hyperplane. The nu-SVM with squared hinge has LIBSVM's
    nu = 1 / N, at which no upper bound is active; its :math:`\alpha` is that of the SVM with the
    costs C1 and C2, divided by its sum.

    LIBSVM solves the nu-SVM. The hinge loss has the coordinate descent of LIBLINEAR (Hsieh 2008),
    because scikit-learn's LIBLINEAR does not return :math:`\alpha`. Ties of r, which the paper
    leaves open, are ranked by f. Several classes are handled one-vs-rest.

    Our default, :class:`bagwise.semi_supervised.WellSVMClassifier`, differs in these ways:

    - rows are centred and there is a constant feature, and the threshold moves towards the balance:
      without offset, the sign of f often collapses to the larger class;
    - tolerances are relative, so that scaled data have the same result, and the search also stops
      if the labels no longer change;
    - the level method finds :math:`\mu` (tens of steps instead of hundreds), and a local search the
      new label vector (fewer label vectors and a lower objective);
    - C2 gives both kinds of rows the same total cost: a larger one needs many label vectors.

    References
    ----------
    Li, Tsang, Kwok, Zhou. Convex and scalable weakly labeled SVMs. JMLR 14 (2013).

    Examples
    --------
    >>> from bagwise.published import wellsvm
    >>> X = [[-2.0], [-1.8], [-1.5], [1.5], [1.8], [2.0]]
    >>> model = wellsvm(C2=0.5).fit(X, ["low", -1, -1, -1, -1, "high"])
    >>> model.predict([[-1.0], [1.0]])
    array(['low', 'high'], dtype=object)
    """

    balance, threshold = None, "zero"

    C1: float = 1.0
    C2: float = 0.1
    loss: str = "hinge"
    kernel: Any = "linear"
    gamma: Any = "scale"
    _: KW_ONLY
    max_iter: int = 100
    tol: float = 1e-3
    random_state: Any = None

    def _generate(self, rows: Any, labels: PartialLabels, seed: int) -> SolverResult:
        def generate(scores: Array, alpha: Array, tie: Array) -> Any:
            return signed(labels.choose(scores, alpha, tie)[1])

        order, costs = canonical_order(rows, labels.signs), self._costs(labels)
        known = labels.signs != 0
        own = self._options((np.cumsum(known) - 1)[order[known[order]]])
        scores = scores_of_svm(rows, signed(labels.signs), costs[known], **own)
        first = generate(scores, np.ones(len(scores)), scores)
        options = self._options(order)
        return as_printed(rows, generate, costs, first, max_iter=self.max_iter, **options)


@with_parameters
class PublishedWellMISVM(OneVsRestMixin, _AsPrinted):
    r"""WellSVM for bags, Algorithm 3 as printed by Li et al. 2013.

    One key instance represents a positive bag, and every instance of a negative bag is a variable
    of its own. For the choices :math:`s_1, \ldots, s_T` of key instances so far (Eqs. 20 and 21),

    .. math:: \min_\mu \max_\alpha \sum_i \alpha_i - \tfrac12 \sum_t \mu_t |v_t|^2, \quad
        v_t = \sum_{i \in +} \alpha_i \varphi(x_{i, s_t(i)}) - \sum_{j \in -} \alpha_j \varphi(x_j)

    is solved as in :func:`wellsvm`, which has the losses and the stopping rules too. The next
    choice maximises :math:`(H \bar s + \tau / 2) \cdot s` (Eq. 24) for the worst choice
    :math:`\bar s` so far: in each positive bag the instance with the highest :math:`v_{\bar s}
    \cdot \varphi(x)`. A bag is scored by its best instance, :math:`\max_j f(x_j)`; its threshold is
    0.

    Parameters
    ----------
    C1 : float, default=1.0
        Cost of a margin error of a positive bag.
    C2 : float, default=0.1
        Cost of a margin error of an instance of a negative bag.
    loss : {"hinge", "squared_hinge"}, default="hinge"
        The loss: in the paper, "hinge" with a linear kernel, else "squared_hinge".
    kernel : str or callable, default="linear"
        "linear", another of scikit-learn's names ("rbf", ...), a function of two vectors, or
        "precomputed".
    gamma : {"scale", "auto"} or float, default="scale"
        Kernel width; "scale" is ``1 / (n_features * variance)``, "auto" ``1 / n_features``.
    n_keys : int, default=1
        Number of key instances of a positive bag (footnote 4), whose sum represents it; all of a
        smaller bag.
    pos_label : label, default=None
        The class whose bags have key instances; by default the larger of two labels.
    max_iter : int, default=100
        Maximum number of choices.
    tol : float, default=1e-3
        Violation of a new choice and decrease of the objective at which to stop; absolute.
    random_state : int, RandomState or None, default=None
        Not used: nothing is random.

    Returns
    -------
    estimator
        Its ``label_vectors_`` are 1 for key instances, -1 for instances of negative bags, else 0.

    Notes
    -----
    The text after Eq. 25 prints :math:`r = H \bar s + \tau`; Eq. 24 and Prop. 6 have
    :math:`\tau / 2`. The paper prints no start: the first choice is that of the SVM on the mean
    instances of the positive bags. For nu see :func:`wellsvm`.

    Our default, :class:`bagwise.classification.WellMISVM`, differs in these ways:

    - instances are centred, there is a constant feature, and the threshold is where the training
      bags are separated best: the maximum over instances shifts all bags to the positive side;
    - C2 gives both sides the same total cost, and the default kernel is "rbf";
    - tolerances are relative; the level method finds :math:`\mu`, and a local search the choice.

    References
    ----------
    Li, Tsang, Kwok, Zhou. Convex and scalable weakly labeled SVMs. JMLR 14 (2013).

    Examples
    --------
    >>> from bagwise.published import wellsvm_mil
    >>> bags = [[[-2.0], [-1.9]], [[-1.8]], [[-1.9], [3.0]], [[2.5]]]
    >>> model = wellsvm_mil().fit(bags, ["no", "no", "yes", "yes"])
    >>> model.predict([[[-2.0], [2.8]]])
    array(['yes'], dtype='<U3')
    """

    instance_pooling = "max"
    keeps = "standard"

    C1: float = 1.0
    C2: float = 0.1
    loss: str = "hinge"
    kernel: Any = "linear"
    gamma: Any = "scale"
    _: KW_ONLY
    n_keys: int = 1
    pos_label: Any = None
    max_iter: int = 100
    tol: float = 1e-3
    random_state: Any = None

    def _solve(self, bags: Bags, labels: Labels, weight: Array, rng: Any) -> None:
        choices = [KeyInstances(bags.offsets, labels.signs(k) > 0) for k in labels.positives]
        results = self._learn(bags.instances, choices, int(rng.randint(2**31 - 1)))
        self.label_vectors_ = [result.solution.signs.T.copy() for result in results]
        self.label_weights_ = [result.solution.weights for result in results]

    def _generate(self, rows: Any, choices: KeyInstances, seed: int) -> SolverResult:
        def generate(scores: Array, alpha: Array, tie: Array) -> Any:
            return best_rows(scores, choices.offsets, choices.positive, self.n_keys)

        none = np.zeros(rows.n_rows)
        everything = best_rows(none, choices.offsets, choices.positive, rows.n_rows)
        n = everything.shape[0]
        costs = np.where(np.arange(n) < choices.positive.sum(), self.C1, self.C2)
        means = sparse.diags_array(1 / np.diff(everything.indptr)) @ everything
        options = self._options(np.arange(n))
        first = generate(scores_of_svm(rows, means, costs, **options), costs, costs)
        return as_printed(rows, generate, costs, first, max_iter=self.max_iter, **options)


@with_parameters
class PublishedWellSVMClustering(_AsPrinted, WellSVMClustering):
    r"""WellSVM for clustering, Algorithm 4 as printed by Li et al. 2013.

    The label vectors B have :math:`-\beta \le \sum_i y_i \le \beta`. The problem (Eq. 29), its
    solution, the losses and the stopping rules are those of :func:`wellsvm` with C for all rows.
    The next label vector (Eq. 32) is -1 for the :math:`(N - \beta) / 2` lowest :math:`r_i =
    \alpha_i \varphi(x_i) \cdot v_{\bar y}`, 1 for as many highest, and the sign of :math:`r_i` for
    the others, 1 if it is 0. The first label vector is that of 20 random halves with the largest
    kernel alignment :math:`y'Ky`. The clusters are the signs of :math:`f(x) = \sum_t \mu_t v_t
    \cdot \varphi(x)`.

    Parameters
    ----------
    n_clusters : int, default=2
        Number of clusters; the paper has two. For more, the largest is split in two.
    C : float, default=1.0
        Cost of a margin error of a row.
    loss : {"hinge", "squared_hinge"}, default="hinge"
        The loss: in the paper, "hinge" with a linear kernel, else "squared_hinge".
    kernel : str or callable, default="linear"
        "linear", another of scikit-learn's names ("rbf", ...), a function of two vectors, or
        "precomputed".
    gamma : {"scale", "auto"} or float, default="scale"
        Kernel width; "scale" is ``1 / (n_features * variance)``, "auto" ``1 / n_features``.
    balance : float, default=0.03
        :math:`\beta / N`; the paper takes .03 for balanced and .3 for imbalanced data.
    max_iter : int, default=100
        Maximum number of label vectors.
    tol : float, default=1e-3
        Violation of a new label vector and decrease of the objective at which to stop; absolute.
    random_state : int, RandomState or None, default=None
        For the first label vector: each draw is -1 where ``permutation(N) < N // 2``.

    Returns
    -------
    estimator
        With ``labels_``, ``predict``, ``label_vectors_`` and ``label_weights_``.

    Notes
    -----
    Our default, :class:`bagwise.cluster.WellSVMClustering`, differs in these ways:

    - rows are centred, and the threshold moves if the signs of f would violate the balance: without
      both, one cluster is often nearly empty;
    - the sides of the first principal component compete with the random starts: rows of many
      features are nearly orthogonal, and the search from random labels ends at once;
    - C is 10 / N, and the tolerances are relative; the level method finds :math:`\mu`.

    References
    ----------
    Li, Tsang, Kwok, Zhou. Convex and scalable weakly labeled SVMs. JMLR 14 (2013).

    Examples
    --------
    >>> from bagwise.published import wellsvm_clustering
    >>> X = [[-2.0], [-1.8], [-1.5], [1.5], [1.8], [2.0]]
    >>> labels = wellsvm_clustering(random_state=0).fit_predict(X)
    >>> labels == labels[0]
    array([ True,  True,  True, False, False, False])
    """

    n_clusters: int = 2
    C: float = 1.0
    loss: str = "hinge"
    kernel: Any = "linear"
    gamma: Any = "scale"
    _: KW_ONLY
    balance: float = 0.03
    max_iter: int = 100
    tol: float = 1e-3
    random_state: Any = None

    def _bisect(self, X: Any, rng: np.random.RandomState) -> Ints:
        n = X.shape[0]
        draws = [rng.permutation(n) for _ in range(N_STARTS)]
        least = min(int(np.ceil(n * (1 - self.balance) / 2 - 1e-9)), n // 2)
        (result,) = self._learn(X, [(BoundedLabels(n, least), draws)], 0)
        self.label_vectors_ = result.solution.signs.T.copy()
        self.label_weights_ = result.solution.weights
        return (self._score_rows(X)[:, 0] > 0).astype(np.int64)

    def _generate(self, rows: Any, problem: Any, seed: int) -> SolverResult:
        labels, draws = problem
        n = labels.n_rows

        def generate(scores: Array, alpha: Array, tie: Array) -> Any:
            # Rows of a_i = 0 have r_i = 0, and are positive unless too few rows are negative.
            return signed(labels.choose(scores, alpha, tie - tie.min())[1])

        starts = [np.where(draw < n // 2, -1.0, 1.0) for draw in draws]
        aligned = [
            loops.dual_descent.square(rows, y, loops.dual_descent.combine(rows, y)) for y in starts
        ]
        first = signed(starts[int(np.argmax(aligned))])
        options = self._options(canonical_order(rows, np.zeros(n)))
        return as_printed(
            rows, generate, np.full(n, self.C), first, max_iter=self.max_iter, **options
        )


wellsvm = function_of(PublishedWellSVM, "wellsvm")


wellsvm_mil = function_of(PublishedWellMISVM, "wellsvm_mil")


wellsvm_clustering = function_of(PublishedWellSVMClustering, "wellsvm_clustering")
