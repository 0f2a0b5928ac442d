"""PrimalDualMISVM (pdMISVM): all classes at once, each bag scored by its best instance."""

from dataclasses import KW_ONLY, replace
from functools import partial
from numbers import Real
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state, compute_sample_weight

from bagwise._memory import require_memory
from bagwise._sklearn import Interval, StrOptions
from bagwise._types import Array, Ints
from bagwise._validation import check_bag_labels, check_bags, check_sample_weight
from bagwise._warnings import warn_user
from bagwise.bags import Bags
from bagwise.base import BagClassifierMixin, BagEstimator, fit_method
from bagwise.base._fitted_state import BagsOf, FittedState, Floats, Number
from bagwise.base._kernel_machine import kernel_params, kernel_scores
from bagwise.base._parameters import NOT_NEGATIVE, POSITIVE, PRECOMPUTED_TOO, with_parameters
from bagwise.engines import one_core_if_few_instances, require_local, to_numpy
from bagwise.engines.arrays import product
from bagwise.exceptions import InputError
from bagwise.pairwise import instance_kernel, kernel_width
from bagwise.solvers import SolverResult
from bagwise.solvers.margin.concave_convex import concave_convex
from bagwise.solvers.margin.primal_dual import KernelSpace, LinearSpace, primal_dual

# Operations of the eigendecompositions (about 9 d^3 each) that "auto" accepts for exact updates.
AFFORDABLE = 1e11


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

    Parameters
    ----------
    C : float, default=0.01
        Cost of a margin error, against the sum over bags and classes. On standardised data 0.001
        to 0.1 is the usual range: there are many bags and each counts once per wrong class.
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
        First penalty on the constraints; 1e-4 by default. Smaller is slower and often a little
        better.
    rho : float, default=1.2
        Growth of the penalty per iteration. Closer to 1 ends with a lower objective, later.
    max_iter : int, default=500
        Budget of iterations.
    tol : float, default=1e-4
        Relative tolerance on the constraints.
    polish : bool, default=False
        Go on from where the primal-dual method froze with the concave-convex procedure, which
        lowers the objective to a stationary point (linear kernel, dense instances). Often ten
        times lower at large C; takes about as long again.
    splitting : {"paper", "shared"}, default="paper"
        The paper's two copies of the scores, or one for all classes: one eigendecomposition
        instead of K. With few classes it usually ends with a lower objective, with many with a
        higher one.
    mask_own_class : bool, default=True
        Leave the constant term of the own class out of the updates; False as printed.
    fit_intercept : bool, default=True
        Whether to fit b.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes.
    random_state : int, RandomState or None, default=None
        For the small random start of W.
    {checkpoint}
    {verbose}

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels of bags.
    coef_ : ndarray of shape (n_classes, n_features)
        W (linear kernel).
    dual_coef_ : ndarray of shape (n_classes, n_training_instances)
        W as coefficients of the training instances (other kernels).
    intercept_ : ndarray of shape (n_classes,)
        b.
    objective_curve_ : ndarray of shape (n_iterations,)
        The objective above after each iteration; with `polish`, then after each of its rounds.
    residuals_ : ndarray of shape (n_iterations,)
        Relative violation of the constraints after each iteration.
    n_iter_ : int
        Number of iterations.
    {n_features_in_}

    Notes
    -----
    One score per class also for two classes: ``coef_`` has two rows and ``score_instances`` two
    columns, while ``decision_function`` is one column there, as scikit-learn's is.

    The problem is not convex, and growing penalties freeze the iterates rather than drive them to
    a stationary point: different seeds end at different objectives.

    Memory: the instances, the scores (n_instances x n_classes) twice, and a few numbers per bag
    and class.

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
        "solver": [StrOptions({"auto", "exact", "inexact"})],
        "kernel": PRECOMPUTED_TOO,
        "mu": [POSITIVE, None],
        "rho": [Interval(Real, 1, None, closed="left")],
        "tol": [NOT_NEGATIVE],
        "polish": ["boolean"],
        "splitting": [StrOptions({"paper", "shared"})],
        "mask_own_class": ["boolean"],
    }

    C: float = 0.01
    _: KW_ONLY
    solver: str = "auto"
    kernel: Any = "linear"
    gamma: Any = "scale"
    degree: float = 3
    coef0: float = 1.0
    mu: float | None = None
    rho: float = 1.2
    max_iter: int = 500
    tol: float = 1e-4
    polish: bool = False
    splitting: str = "paper"
    mask_own_class: bool = True
    fit_intercept: bool = True
    class_weight: Any = None
    random_state: Any = None
    checkpoint: Any = None
    verbose: int = 0

    def _fitted_state(self) -> FittedState:
        machine: FittedState = {"coef_": Floats("n_classes", "n_features_in_")}
        if self.kernel != "linear":
            machine = {
                "dual_coef_": Floats("n_classes", "n_instances"),
                "training_bags_": BagsOf(None, n_instances="n_instances"),
                "gamma_": Number(low=0),
            }
        return super()._fitted_state() | {
            "intercept_": Floats("n_classes"),
            "residuals_": Floats(None, any_value=True),
            **machine,
        }

    @fit_method
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn one hyperplane per class.

        Parameters
        ----------
        {X}
        y : array-like of shape (n_bags,)
            The class of each bag.
        sample_weight : array-like of shape (n_bags,), default=None
            Weights of the bags; a weight of 2 equals the bag twice (with `polish` up to its
            tolerance).

        Returns
        -------
        self
        """
        bags = check_bags(self, X, reset=True)
        labels = check_bag_labels(y, bags, min_classes=2)
        classes, codes = labels.classes, labels.codes
        weights = check_sample_weight(sample_weight, bags)
        weights = weights * compute_sample_weight(self.class_weight, classes[codes])
        used = bags if weights.all() else bags[weights > 0]  # weight 0 leaves a bag out
        codes, weights = codes[weights > 0], weights[weights > 0]
        self._check_options(used, classes, codes)
        gamma = 1.0 if self.kernel == "linear" else kernel_width(self.gamma, used, weights)
        space = self._space(used, gamma)
        rng = check_random_state(self.random_state)
        with one_core_if_few_instances(used):
            result = primal_dual(
                space,
                codes,
                len(classes),
                C=self.C,
                mu=1e-4 if self.mu is None else self.mu,
                rho=self.rho,
                max_iter=self.max_iter,
                tol=self.tol,
                exact=self._is_exact(space, len(classes)),
                shared=self.splitting == "shared",
                mask_own_class=self.mask_own_class,
                fit_intercept=self.fit_intercept,
                weights=weights,
                rng=rng,
                track=partial(self._track, task="iteration", total=self.max_iter),
                checkpoint=self.checkpoint,
            )
            if self.polish:
                result = self._polished(result, used, codes, weights, rng)
        self._keep_progress(result, "raise max_iter or rho, or standardise the instances")
        self.n_iter_ = len(result.residuals)  # without the rounds of polish
        objective_of_zero = self.C * (len(classes) - 1) * weights.sum()
        if result.converged and not self.polish and self.objective_curve_[-1] >= objective_of_zero:
            warn_user(
                "pdMISVM ended no better than W = 0, a model that knows nothing: standardise the "
                "instances, or try another C, mu or random_state.",
                ConvergenceWarning,
            )
        self._drop("coef_", "dual_coef_", "training_bags_", "gamma_")
        W, self.intercept_ = result.solution
        if self.kernel == "linear":
            self.coef_ = W
        else:
            self.dual_coef_, self.training_bags_, self.gamma_ = W, used, gamma
        self.classes_ = classes
        self.residuals_ = result.residuals
        return self

    def _score(self, bags: Bags) -> Array:
        if self.kernel == "linear":
            return to_numpy(product(bags.instances, self.coef_)) + self.intercept_
        gram = partial(self._gram, training=self.training_bags_, gamma=self.gamma_)
        rows = bags.to("numpy").instances
        return kernel_scores(rows, gram, self.dual_coef_) + self.intercept_

    def _check_options(self, bags: Bags, classes: Array, codes: Ints) -> None:
        absent = np.setdiff1d(np.arange(len(classes)), codes)
        if len(absent):
            raise InputError(
                f"all bags of class {classes.tolist()[absent[0]]!r} have weight 0: leave them out."
            )
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
        if self.polish and (self.kernel != "linear" or sparse.issparse(bags.instances)):
            raise InputError("polish=True needs the linear kernel and dense instances.")

    def _space(self, bags: Bags, gamma: float) -> LinearSpace | KernelSpace:
        if self.kernel == "linear":
            return LinearSpace(bags, leave_out_constants=self.fit_intercept)
        n, n_bytes = bags.n_instances, bags.dtype.itemsize
        require_memory(
            4.0 * n_bytes * n**2,  # the kernel, its eigenvectors, and what computes them
            purpose=f"PrimalDualMISVM with kernel={self.kernel!r} on {n:,} instances",
            remedy="use kernel='linear', on Nystroem features of the instances if need be",
        )
        return KernelSpace(bags.with_instances(self._gram(bags.instances, bags, gamma)))

    def _gram(self, rows: Any, training: Bags, gamma: float) -> Array:
        if self.kernel == "precomputed":
            return rows
        return instance_kernel(rows, training.instances, self.kernel, kernel_params(self, gamma))

    def _polished(
        self,
        result: SolverResult,
        bags: Bags,
        codes: Ints,
        weights: Array,
        rng: np.random.RandomState,
    ) -> SolverResult:
        costs = self.C * weights
        after = concave_convex(
            bags, codes, result.solution, costs=costs, fit_intercept=self.fit_intercept, rng=rng
        )
        curve = np.concatenate([result.objective_curve, after.objective_curve])
        converged = result.converged and after.converged
        return replace(result, solution=after.solution, objective_curve=curve, converged=converged)

    def _is_exact(self, space: LinearSpace | KernelSpace, n_classes: int) -> bool:
        if self.solver != "auto":
            return self.solver == "exact"
        n_systems = 1 if self.splitting == "shared" else n_classes
        return 9.0 * n_systems * float(space.bags.n_features) ** 3 <= AFFORDABLE
