"""PrimalDualMISVM (pdMISVM): all classes at once, each bag scored by its best instance."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, replace
from functools import partial
from numbers import Real
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from bagwise._common.memory import require_memory
from bagwise._common.sklearn import Interval, StrOptions
from bagwise._common.types import Array
from bagwise._common.warnings import warn_user
from bagwise._validation import (
    check_bag_labels,
    check_bags,
    check_label_sets,
    check_sample_weight,
)
from bagwise.bags import Bags
from bagwise.base import BagClassifierMixin, BagEstimator, class_weights, fit_method
from bagwise.base._kernel_machine import kernel_params, kernel_scores
from bagwise.base._parameters import (
    COUNT,
    NOT_NEGATIVE,
    POSITIVE,
    PRECOMPUTED_TOO,
    with_parameters,
)
from bagwise.engines import (
    one_core_if_few_instances,
    over_partitions,
    require_local,
    to_numpy,
)
from bagwise.engines.arrays import product
from bagwise.exceptions import InputError
from bagwise.labels import Labels
from bagwise.pairwise import instance_kernel, kernel_width
from bagwise.solvers import SolverResult
from bagwise.solvers.margin.concave_convex import concave_convex
from bagwise.solvers.margin.one_sided import AFFORDABLE, MAX_ITER, MU, RHO, one_sided, polished
from bagwise.solvers.margin.primal_dual import KernelSpace, LinearSpace, primal_dual
from bagwise.solvers.margin.threshold import best_threshold

# Defaults of mu, rho and max_iter.
DEFAULTS = {"classes": (1e-4, 1.2, 500), "standard": (MU, RHO, MAX_ITER)}


@with_parameters
class PrimalDualMISVM(BagClassifierMixin, BagEstimator):
    r"""Multi-instance SVM for many bags, features and classes (pdMISVM, Brand 2021).

    The score of a bag for a class is that of its best instance; all classes are learned together
    (Weston-Watkins):

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
    assumption : {"classes", "standard"}, default="classes"
        What makes a bag positive. "classes": the best instance of each class, all classes compared
        (pdMISVM as published). "standard": one instance of the concept, and nothing else.
    {pos_label}
        Only with the standard assumption.
    solver : {"auto", "exact", "inexact"}, default="auto"
        How W is updated: exactly (Eq. 10; eigendecompositions once, then cheap), or by one optimal
        gradient step (Eq. 25; linear in the number of features). "auto" is exact while the
        eigendecompositions are affordable.
    kernel : {"linear", "precomputed"}, str or callable, default="linear"
        Kernel between instances by scikit-learn's names. With "precomputed" the features of an
        instance are its kernel values with the training instances. For many instances prefer
        Nystroem features in a pipeline: ``InstanceTransformer(Nystroem())`` before this model.
    gamma : {"scale", "auto"} or float, default="scale"
        Kernel width, as in :class:`SetKernelSVM`.
    {degree}
    {coef0}
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
    polish : bool, default=False
        Continue from the result of the primal-dual method with the concave-convex procedure, which
        lowers the objective to a stationary point (linear kernel, dense instances; with the
        standard assumption sparse ones too, and an intercept). Often much lower at large C; takes
        about as long again. With the standard assumption it also starts from the means of the bags,
        as :class:`BagMarginSVM` does, and keeps the lower result; this takes as long as a fit of
        that class.
    splitting : {"paper", "shared"}, default="paper"
        The paper's two copies of the scores, or one for all classes: one eigendecomposition
        instead of K. With few classes it usually ends with a lower objective, with many with a
        higher one. Not for the standard assumption, which has one copy anyway.
    mask_own_class : bool, default=True
        Leave the constant term of the own class out of the updates; False as printed. Not for the
        standard assumption, which has no such term.
    fit_intercept : bool, default=True
        Whether to fit b.
    threshold : {"auto", "zero", "training"}, default="auto"
        Where the score of a bag becomes positive with the standard assumption, by a shift of b.
        "zero" keeps b as it minimises the objective: the scores of large bags, the best of many
        instances, may then all be of one sign. "training" takes the threshold of highest weighted
        accuracy on the training bags, for each class. "auto" is "training" for two classes and for
        label sets, where a score is compared with zero, else "zero".
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes; not for label sets.
    random_state : int, RandomState or None, default=None
        For the small random start of W; the standard assumption starts from the difference of the
        mean instances.
    {checkpoint}
    {verbose}

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
        b, less the threshold.
    objective_curve_ : ndarray of shape (n_iterations,)
        The objective above, before the threshold moves b, after each iteration; with `polish`,
        then after each of its rounds.
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
    necessarily to a stationary point: different seeds give different objectives.

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

    instance_pooling = "max"
    _runs_elsewhere = ("cluster", "device")

    _parameter_constraints = {
        "assumption": [StrOptions({"classes", "standard"})],
        "solver": [StrOptions({"auto", "exact", "inexact"})],
        "kernel": PRECOMPUTED_TOO,
        "mu": [POSITIVE, None],
        "rho": [Interval(Real, 1, None, closed="left"), None],
        "max_iter": [COUNT, None],
        "tol": [NOT_NEGATIVE],
        "polish": ["boolean"],
        "splitting": [StrOptions({"paper", "shared"})],
        "mask_own_class": ["boolean"],
        "threshold": [StrOptions({"auto", "zero", "training"})],
    }

    C: float = 0.01
    _: KW_ONLY
    assumption: str = "classes"
    pos_label: Any = None
    solver: str = "auto"
    kernel: Any = "linear"
    gamma: Any = "scale"
    degree: float = 3
    coef0: float = 1.0
    mu: float | None = None
    rho: float | None = None
    max_iter: int | None = None
    tol: float = 1e-4
    polish: bool = False
    splitting: str = "paper"
    mask_own_class: bool = True
    fit_intercept: bool = True
    threshold: str = "auto"
    class_weight: Any = None
    random_state: Any = None
    checkpoint: Any = None
    verbose: int = 0

    @property
    def keeps(self) -> str:  # type: ignore[override]
        """Multi-instance assumption; with one hyperplane per class it is not the standard one."""
        return "standard" if self.assumption == "standard" else "one concept"

    @property
    def _learns_label_sets(self) -> bool:  # type: ignore[override]
        return self.assumption == "standard"

    @fit_method
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn one hyperplane per class.

        Parameters
        ----------
        {X}
        y : array-like of shape (n_bags,), 0/1 array of shape (n_bags, n_classes), or list of sets
            The class of each bag; label sets with the standard assumption only. A bag with an
            empty set is background: it holds none of the concepts.
        sample_weight : array-like of shape (n_bags,), default=None
            Weights of the bags; a weight of 2 equals the bag twice (with `polish` up to its
            tolerance).

        Returns
        -------
        self
        """
        bags = check_bags(self, X, reset=True)
        labels, weights = self._checked_labels(y, bags, sample_weight)
        used = bags if weights.all() else bags[weights > 0]  # weight 0 leaves a bag out
        labels, weights = labels[weights > 0], weights[weights > 0]
        self._check_options(used, labels)
        gamma = 1.0 if self.kernel == "linear" else kernel_width(self.gamma, used, weights)
        with one_core_if_few_instances(used):
            learn = self._learn_standard if self.assumption == "standard" else self._learn_classes
            result = learn(self._space(used, gamma), labels, weights)
        self._keep_progress(result, "raise max_iter or rho, or standardise the instances")
        self.n_iter_ = len(result.residuals)  # without the rounds of polish
        self._warn_if_nothing_learned(result, labels, weights)
        self._drop("coef_", "dual_coef_", "training_bags_", "gamma_")
        W, self.intercept_ = result.solution
        if self.kernel == "linear":
            self.coef_ = W
        else:
            self.dual_coef_, self.training_bags_, self.gamma_ = W, used, gamma
        self.classes_, self.label_kind_ = labels.classes, labels.kind
        self.pos_label_ = labels.pos_label if self.assumption == "standard" else None
        self.residuals_ = result.residuals
        if self._moves_threshold(labels):
            self.intercept_ = self.intercept_ - self._thresholds(used, labels, weights)
        return self

    def _moves_threshold(self, labels: Labels) -> bool:
        if self.threshold != "auto":
            return self.threshold == "training"
        # With several classes the highest score wins, whatever its sign.
        decides_alone = labels.has_sets or len(labels.classes) == 2
        return self.assumption == "standard" and self.fit_intercept and decides_alone

    def _thresholds(self, bags: Bags, labels: Labels, weights: Array) -> Array:
        """Threshold of each column; zero if all bags, or none, contain the concept."""
        best = over_partitions(self._bag_scores, bags)
        held = [labels.signs(k) > 0 for k in _columns(labels)]
        return np.array(
            [
                best_threshold(scores, positive, weights) if 0 < positive.sum() < len(bags) else 0.0
                for scores, positive in zip(best.T, held, strict=True)
            ]
        )

    def _learn_classes(self, space: LinearSpace, labels: Labels, weights: Array) -> SolverResult:
        """Learn all classes against each other."""
        rng = check_random_state(self.random_state)
        result = primal_dual(
            space,
            labels.codes,
            len(labels.classes),
            shared=self.splitting == "shared",
            mask_own_class=self.mask_own_class,
            weights=weights,
            rng=rng,
            **self._schedule(space, len(labels.classes)),
        )
        if not self.polish:
            return result
        after = concave_convex(
            space.bags, labels.codes, result.solution,
            costs=self.C * weights, fit_intercept=self.fit_intercept, rng=rng,
        )  # fmt: skip
        return _continued(result, after)

    def _learn_standard(self, space: LinearSpace, labels: Labels, weights: Array) -> SolverResult:
        """Learn each concept against its absence."""
        signs = np.column_stack([labels.signs(k) for k in _columns(labels)]).astype(np.float64)
        result = one_sided(space, signs, weights=weights, **self._schedule(space, 1))
        if not self.polish:
            return result
        after = polished(space.bags, signs, result.solution, self.C * weights)
        return _continued(result, after)

    def _schedule(self, space: LinearSpace, n_systems: int) -> dict[str, Any]:
        """Arguments of both solvers: costs, penalties and iteration limits."""
        mu, rho, max_iter = DEFAULTS[self.assumption]
        budget = max_iter if self.max_iter is None else self.max_iter
        return {
            "C": self.C,
            "mu": mu if self.mu is None else self.mu,
            "rho": rho if self.rho is None else self.rho,
            "max_iter": budget,
            "tol": self.tol,
            "exact": self._is_exact(space, n_systems),
            "fit_intercept": self.fit_intercept,
            "track": partial(self._track, task="iteration", total=budget),
            "checkpoint": self.checkpoint,
        }

    def _score(self, bags: Bags) -> Array:
        if self.kernel == "linear":
            return to_numpy(product(bags.instances, self.coef_)) + self.intercept_
        gram = partial(self._gram, training=self.training_bags_, gamma=self.gamma_)
        rows = bags.to("numpy").instances
        return kernel_scores(rows, gram, self.dual_coef_) + self.intercept_

    def _checked_labels(self, y: Any, bags: Bags, sample_weight: Any) -> tuple[Labels, Array]:
        """Labels and weights of the bags; weight 0 if the label set of a bag is unknown."""
        weights = check_sample_weight(sample_weight, bags)
        if self.assumption == "classes":
            labels = check_bag_labels(y, bags, min_classes=2)
        else:
            labels = self._with_positive(check_label_sets(y, bags, min_classes=2))
        if labels.has_sets:
            if self.class_weight is not None:
                raise InputError(
                    f"class_weight={self.class_weight!r} needs one label per bag: give weights of "
                    "bags (sample_weight) beside label sets."
                )
            return labels, weights * labels.known
        return labels, weights * class_weights(self.class_weight, labels)

    def _check_options(self, bags: Bags, labels: Labels) -> None:
        if len(bags) == 0:
            raise InputError("no bag has a known label and a positive weight: label some bags.")
        if not labels.has_sets:
            absent = np.setdiff1d(np.arange(len(labels.classes)), labels.codes)
            if len(absent):
                label = labels.classes.tolist()[absent[0]]
                raise InputError(f"all bags of class {label!r} have weight 0: leave them out.")
        if self.kernel != "linear" or self.polish:
            require_local(
                bags,
                "bags on a device or a cluster are fitted with kernel='linear' and polish=False; "
                "for other kernels use Nystroem features.",
            )
        if self.kernel == "precomputed" and bags.n_features != bags.n_instances:
            raise InputError(
                f"a precomputed kernel of {bags.n_instances} instances has {bags.n_features} "
                "columns: expected one column per training instance."
            )
        if self.assumption == "standard":
            self._check_options_of_standard()
        elif self.pos_label is not None:
            raise InputError(
                f"pos_label={self.pos_label!r} belongs to assumption='standard': with "
                "assumption='classes' each class has its own hyperplane."
            )
        elif self.threshold == "training":
            raise InputError(
                "threshold='training' belongs to assumption='standard': with assumption='classes' "
                "the scores of the classes are compared with each other."
            )
        elif self.polish and (self.kernel != "linear" or bags.is_sparse):
            raise InputError("polish=True needs the linear kernel and dense instances.")

    def _check_options_of_standard(self) -> None:
        if self.threshold == "training" and not self.fit_intercept:
            raise InputError(
                "threshold='training' shifts the intercept: give fit_intercept=True, or "
                "threshold='zero'."
            )
        if self.splitting != "paper" or not self.mask_own_class:
            raise InputError(
                f"splitting={self.splitting!r} and mask_own_class={self.mask_own_class} belong to "
                "assumption='classes': leave them at their defaults with assumption='standard'."
            )
        if self.polish and (self.kernel != "linear" or not self.fit_intercept):
            raise InputError(
                "polish=True with assumption='standard' needs the linear kernel and "
                "fit_intercept=True."
            )

    def _warn_if_nothing_learned(
        self, result: SolverResult, labels: Labels, weights: Array
    ) -> None:
        terms = len(labels.classes) - 1 if self.assumption == "classes" else len(_columns(labels))
        objective_of_zero = self.C * terms * weights.sum()
        if result.converged and not self.polish and self.objective_curve_[-1] >= objective_of_zero:
            warn_user(
                "pdMISVM did not improve on W = 0, a constant model: standardise the instances, "
                "or try another C, mu or random_state.",
                ConvergenceWarning,
            )

    def _space(self, bags: Bags, gamma: float) -> LinearSpace:
        if self.kernel == "linear":
            return LinearSpace(bags, leave_out_constants=self.fit_intercept)
        n, n_bytes = bags.n_instances, bags.dtype.itemsize
        require_memory(
            4.0 * n_bytes * n**2,  # the kernel, its eigenvectors, and working memory
            purpose=f"PrimalDualMISVM with kernel={self.kernel!r} on {n:,} instances",
            remedy="use kernel='linear', on Nystroem features of the instances if need be",
        )
        return KernelSpace(bags.with_instances(self._gram(bags.instances, bags, gamma)))

    def _gram(self, rows: Any, training: Bags, gamma: float) -> Array:
        if self.kernel == "precomputed":
            return rows
        return instance_kernel(rows, training.instances, self.kernel, kernel_params(self, gamma))

    def _is_exact(self, space: LinearSpace, n_classes: int) -> bool:
        if self.solver != "auto":
            return self.solver == "exact"
        n_systems = 1 if self.splitting == "shared" else n_classes
        return 9.0 * n_systems * float(space.bags.n_features) ** 3 <= AFFORDABLE


def _columns(labels: Labels) -> Sequence[int]:
    """Classes that are learned as concepts: the second of two, else all."""
    return range(len(labels.classes)) if labels.has_sets else labels.positives


def _continued(before: SolverResult, after: SolverResult) -> SolverResult:
    """The result of the primal-dual method, followed by the rounds of polish."""
    curve = np.concatenate([before.objective_curve, after.objective_curve])
    converged = before.converged and after.converged
    return replace(before, solution=after.solution, objective_curve=curve, converged=converged)
