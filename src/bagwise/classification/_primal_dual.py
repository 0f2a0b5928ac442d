"""PrimalDualMISVM (pdMISVM): all classes at once, each bag scored by its best instance."""

from functools import partial
from numbers import Real
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from bagwise._common.memory import require_memory
from bagwise._common.sklearn import Interval, StrOptions
from bagwise._common.types import Array
from bagwise.bags import Bags
from bagwise.base import LinearBagClassifier, _parameters
from bagwise.base._kernel_machine import kernel_params, kernel_scores
from bagwise.compute import is_here, over_partitions
from bagwise.exceptions import InputError, warn_user
from bagwise.labels import Labels
from bagwise.pairwise import instance_kernel, kernel_width
from bagwise.solvers import SolverResult
from bagwise.solvers.margin.misvm import most_accurate_threshold
from bagwise.solvers.margin.one_sided import one_sided
from bagwise.solvers.margin.primal_dual import KernelSpace, LinearSpace, primal_dual

# Defaults of mu, rho and max_iter.
SCHEDULES = {"classes": (1e-4, 1.2, 500), "standard": (1e-3, 1.02, 2000)}
AFFORDABLE = 1e11  # operations of the eigendecompositions (about 9 d^3 each) of exact updates


@_parameters.with_parameters
class PrimalDualMISVM(LinearBagClassifier):
    r"""Multi-instance SVM for many bags, features and classes (pdMISVM, Brand 2021).

    The score of a bag for a class is the score of its best instance; all classes are learned
    together (Weston-Watkins):

    .. math:: \min_{W, b} \tfrac12 \sum_m |w_m|^2 + C \sum_i \sum_{m \ne y_i}
        \bigl(1 + \max_j s_{ij}^m - \max_j s_{ij}^{y_i}\bigr)_+ ,
        \qquad s_{ij}^m = w_m \cdot x_{ij} + b_m

    by a primal-dual method (multi-block ADMM) whose iteration costs about one product of the
    instances with W. Standardise the instances first.

    Every class has its own hyperplane, so an instance that occurs only in negative bags is evidence
    for the negative class. With ``assumption="standard"`` the presence of a concept is the only
    evidence, as in MI-SVM, and an additional instance never lowers the score of a bag:

    .. math:: \min_{W, b} \tfrac12 \sum_m |w_m|^2 + C \sum_i \sum_m
        \bigl(1 - Y_{im} \max_j s_{ij}^m\bigr)_+

    with one column :math:`m` for two classes and one per class otherwise, and :math:`Y_{im} = 1`
    if bag i is of the class, else -1. A bag may then have several labels, or none.

    Parameters
    ----------
    C : float, default=0.01
        Cost of a margin error, against the sum over bags and classes. On standardised data 0.001
        to 0.1 is the usual range: there are many bags and each counts once per wrong class.
    solver : {"auto", "exact", "inexact"}, default="auto"
        How W is updated: exactly (Eq. 10; eigendecompositions once, then cheap), or by one optimal
        gradient step (Eq. 25; linear in the number of features). "auto" is exact while the
        eigendecompositions are affordable.
    assumption : {"classes", "standard"}, default="classes"
        What makes a bag positive. "classes": the best instance of each class, all classes compared
        (pdMISVM as published). "standard": one instance of the concept, and nothing else.
    {pos_label}
        Only with the standard assumption.
    kernel : {"linear", "precomputed"}, str or callable, default="linear"
        Kernel between instances by scikit-learn's names, of width ``1 / (n_features * variance)``.
        With "precomputed" the features of an instance are its kernel values with the training
        instances. For many instances prefer Nystroem features in a pipeline:
        ``InstanceTransformer(Nystroem())`` before this model.
    mu : float, default=None
        First penalty on the constraints; 1e-4 by default, with the standard assumption 1e-3.
        Smaller is slower and often a little better.
    rho : float, default=None
        Growth of the penalty per iteration; 1.2 by default, with the standard assumption 1.02.
        Closer to 1 ends with a lower objective, later.
    max_iter : int, default=None
        Maximum number of iterations; 500 by default, with the standard assumption 2,000.
    tol : float, default=1e-4
        Relative tolerance on the constraints.
    random_state : int, RandomState or None, default=None
        For the small random start of W; the standard assumption starts from the difference of the
        mean instances.

    Attributes
    ----------
    {classes_}
    {pos_label_}
    label_kind_ : {"single", "sets"}
        Whether the bags had one label each or label sets.
    coef_ : ndarray of shape (n_columns, n_features)
        W (linear kernel). A column per class; with the standard assumption one for two classes.
    dual_coef_ : ndarray of shape (n_columns, n_training_instances)
        W as coefficients of the training instances (other kernels).
    intercept_ : ndarray of shape (n_columns,)
        b, less the threshold: with the standard assumption and two classes or label sets, where a
        score is compared with zero, b is shifted to the threshold of highest accuracy on the
        training bags.
    objective_curve_ : ndarray of shape (n_iterations,)
        The objective above, before the threshold moves b, after each iteration.
    residuals_ : ndarray of shape (n_iterations,)
        Relative violation of the constraints after each iteration.
    n_iter_ : int
        Number of iterations.
    {n_features_in_}

    Notes
    -----
    One score per class also for two classes: ``coef_`` has two rows and ``score_instances`` two
    columns, while ``decision_function`` is one column there, as scikit-learn's is. With the
    standard assumption all of them have one, for ``classes_[1]``; ``coef_`` is that of
    ``pos_label_``.

    The problem is not convex, and the growing penalty makes the iterates converge, but not
    necessarily to a stationary point: different seeds give different objectives. A bag with an
    empty label set is background: it contains none of the concepts.

    Memory: the instances, the scores (n_instances x n_classes) twice, with the standard assumption
    three times, and a few numbers per bag and class.

    References
    ----------
    Brand, Baker, Ellefsen, Sargent, Wang. A linear primal-dual multi-instance SVM for big data
    classifications. ICDM 2021.

    Examples
    --------
    >>> from bagwise.classification import PrimalDualMISVM
    >>> bags = [[[0.0], [0.1]], [[0.2]], [[0.1], [3.0]], [[2.5]]]
    >>> model = PrimalDualMISVM(C=1, random_state=0).fit(bags, ["no", "no", "yes", "yes"])
    >>> model.predict([[[0.0], [2.8]]])
    array(['yes'], dtype='<U3')
    >>> model.key_instances([[[0.0], [2.8]]])
    array([1])
    """

    _runs_elsewhere = ("cluster", "device")
    _advice = "raise max_iter or rho, or standardise the instances"
    _parameter_constraints = {
        "solver": [StrOptions({"auto", "exact", "inexact"})],
        "assumption": [StrOptions({"classes", "standard"})],
        "kernel": _parameters.PRECOMPUTED_TOO,
        "mu": [_parameters.POSITIVE, None],
        "rho": [Interval(Real, 1, None, closed="left"), None],
        "max_iter": [_parameters.COUNT, None],
        "tol": [_parameters.NOT_NEGATIVE],
    }

    C: float = 0.01
    solver: str = "auto"
    assumption: str = "classes"
    pos_label: Any = None
    kernel: Any = "linear"
    mu: float | None = None
    rho: float | None = None
    max_iter: int | None = None
    tol: float = 1e-4
    random_state: Any = None

    @property
    def keeps(self) -> str:  # type: ignore[override]
        """Multi-instance assumption; with one hyperplane per class it is not the standard one."""
        return "standard" if self.assumption == "standard" else "one concept"

    @property
    def _learns_label_sets(self) -> bool:  # type: ignore[override]
        return self.assumption == "standard"

    def _with_positive(self, labels: Labels) -> Labels:
        if self.assumption == "standard":
            return super()._with_positive(labels)
        if self.pos_label is not None:
            raise InputError(
                f"pos_label={self.pos_label!r} belongs to assumption='standard': with "
                "assumption='classes' each class has its own hyperplane."
            )
        return labels

    def _solve(self, bags: Bags, labels: Labels, weight: Array, rng: Any) -> list[SolverResult]:
        standard = self.assumption == "standard"
        given: Any = (self.mu, self.rho, self.max_iter)
        schedule: Any = zip(given, SCHEDULES[self.assumption], strict=True)
        mu, rho, max_iter = (default if own is None else own for own, default in schedule)
        n_systems = 1 if standard else len(labels.classes)
        space = self._space(bags, weight)
        options: dict[str, Any] = {
            "weights": weight,
            "C": self.C,
            "mu": mu,
            "rho": rho,
            "max_iter": max_iter,
            "tol": self.tol,
            "exact": self._is_exact(n_systems, space.bags.n_features),
            "track": partial(self._track, task="iteration", total=max_iter),
        }
        if standard:
            signs = np.column_stack([labels.signs(k) for k in labels.positives])
            result = one_sided(space, signs.astype(np.float64), **options)
        else:
            result = primal_dual(space, labels.codes, len(labels.classes), rng=rng, **options)
        self.residuals_ = result.residuals
        W, self.intercept_ = result.solution
        setattr(self, "coef_" if self.kernel == "linear" else "dual_coef_", W)
        n_terms = len(labels.positives) if standard else len(labels.classes) - 1
        self._warn_if_nothing_learned(result, self.C * n_terms * weight.sum())
        # With several classes the highest score wins, whatever its sign: no threshold is needed.
        if standard and (labels.has_sets or len(labels.classes) == 2):
            self.intercept_ = self.intercept_ - self._thresholds(bags, labels, weight)
        return [result]

    def _is_exact(self, n_systems: int, n_features: int) -> bool:
        if self.solver != "auto":
            return self.solver == "exact"
        return 9.0 * n_systems * float(n_features) ** 3 <= AFFORDABLE

    def _thresholds(self, bags: Bags, labels: Labels, weight: Array) -> Array:
        """Threshold of each column; zero if all bags, or none, contain the concept."""
        found = []
        best = over_partitions(self._bag_scores, bags)
        for scores, k in zip(best.T, labels.positives, strict=True):
            present = labels.signs(k) > 0
            varies = 0 < present.sum() < len(bags)
            found.append(most_accurate_threshold(scores, present, weight) if varies else 0.0)
        return np.array(found)

    def _warn_if_nothing_learned(self, result: SolverResult, objective_of_zero: float) -> None:
        if result.converged and result.objective_curve[-1] >= objective_of_zero:
            warn_user(
                "pdMISVM did not improve on W = 0, a constant model: standardise the instances, "
                "or try another C, mu or random_state.",
                ConvergenceWarning,
            )

    def _space(self, bags: Bags, weight: Array) -> LinearSpace:
        """The space of W."""
        if self.kernel == "linear":
            return LinearSpace(bags)
        if not is_here(bags):
            raise InputError("kernels of bags elsewhere: use kernel='linear' on Nystroem features.")
        n = bags.n_instances
        if self.kernel == "precomputed" and bags.n_features != n:
            raise InputError(
                f"a precomputed kernel of {n} instances has {bags.n_features} columns: expected "
                "one column per training instance."
            )
        require_memory(
            4.0 * bags.dtype.itemsize * n**2,  # the kernel, its eigenvectors, and working memory
            purpose=f"PrimalDualMISVM with kernel={self.kernel!r} on {n:,} instances",
            remedy="use kernel='linear', on Nystroem features of the instances if need be",
        )
        self.training_bags_, self.gamma_ = bags, kernel_width("scale", bags, weight)
        return KernelSpace(bags.with_instances(self._gram(bags.instances)))

    def _gram(self, rows: Any) -> Array:
        if self.kernel == "precomputed":
            return rows
        training = self.training_bags_.instances
        return instance_kernel(rows, training, self.kernel, kernel_params(self, self.gamma_))

    def _score(self, bags: Bags) -> Array:
        if self.kernel == "linear":
            return super()._score(bags)
        rows = bags.to("numpy").instances
        return kernel_scores(rows, self._gram, self.dual_coef_) + self.intercept_
