"""GradientS3VM: semi-supervised SVMs in the primal, by continuation."""

from dataclasses import KW_ONLY
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from sklearn.utils import check_random_state

from bagwise._common.sklearn import StrOptions
from bagwise._common.types import Ints
from bagwise.base._parameters import POSITIVE, with_parameters
from bagwise.solvers.margin.feature_space import KEPT, LinearFeatures
from bagwise.solvers.result import SolverResult
from reproduction.rivals._partly_labelled import PartlyLabelledClassifier, balanced_cost
from reproduction.rivals.solvers.gradient_s3vm import gradient_s3vm, kernel_factor
from reproduction.rivals.solvers.linear_algebra import dense_gram, one_core_if_sparse

LANDMARKS = 300


@with_parameters
class GradientS3VM(PartlyLabelledClassifier):
    r"""Semi-supervised SVM by gradient descent, with a kernel (Chapelle 2008).

    .. math:: \min_{w, b} \tfrac12 |w|^2 + \tfrac{C_1}2 \sum_{labelled} (1 - y_i f_i)_+^2
        + C_2 U(f_{unlabelled})

    such that the unlabelled rows have a given mean score. The loss U is large for scores near 0: it
    keeps unlabelled rows away from the decision boundary. The problem is not convex; a
    schedule of easier problems leads to a good local minimum.

    Parameters
    ----------
    C1 : float, default=10.0
        Cost of a margin error of a labelled row.
    C2 : float, default=None
        Cost of an unlabelled row near the boundary; by default ``C1 * n_labelled / n_unlabelled``,
        so that both kinds of rows have the same total cost.
    schedule : {"deterministic", "smoothed", "annealed"}, default="deterministic"
        The loss of unlabelled rows and the problems that are solved before the last.

        - "deterministic": labels are probabilities with the given share as mean, and the
          temperature falls (nabla-DA);
        - "smoothed": the loss is the sum of :math:`\exp(-3 f^2) / 2`, convolved with a Gaussian
          whose width shrinks to 0 (cS3VM);
        - "annealed": the same loss, and its cost grows to C2 (nabla-S3VM; with
          ``solver="newton"`` Newton S3VM).
    positive_share : float, array-like of shape (n_classes,) or None, default=None
        Share of the positive class (``classes_[1]``) among the unlabelled rows; for more than two
        classes, the share of each. By default the shares among the labelled rows.
    solver : {"lbfgs", "newton"}, default="lbfgs"
        L-BFGS, or Newton's method in a trust region, with conjugate gradients.
    {kernel}
    {gamma}
    {degree}
    {coef0}
    n_landmarks : int, "auto" or None, default="auto"
        Number of Nystroem features that approximate the kernel; None for the exact kernel. "auto"
        is None up to 3,000 rows, else 300. Not used by the linear kernel.
    max_iter : int, default=1000
        Maximum number of iterations per stage.
    tol : float, default=1e-4
        Largest entry of the gradient at the end, relative to that at w = 0 (with "newton" its
        length).
    random_state : int, RandomState or None, default=0
        For the choice of the landmarks.
    {verbose}

    Attributes
    ----------
    {classes_}
    transduction_ : ndarray of shape (n_rows,)
        The label of each training row: as given, or as predicted.
    coef_ : ndarray of shape (n_machines, n_features)
        The weights of the features (linear kernel), or of the Nystroem features; one SVM for two
        classes, else one per class.
    support_ : ndarray of shape (n_support,)
        Positions of the training rows with non-zero weight (nonlinear kernels).
    support_vectors_ : ndarray or CSR of shape (n_support, n_features)
        Those rows.
    dual_coef_ : ndarray of shape (n_machines, n_support)
        Their weights.
    nystroem_ : Nystroem
        The approximation of the kernel, if it was approximated.
    {gamma_}
    intercept_ : ndarray of shape (n_machines,)
        The intercepts.
    objective_curve_ : ndarray of shape (n_iterations,)
        The objective after each stage, with the cost and the loss of that stage, summed over the
        classes.
    n_iter_ : int
        Number of stages; the largest number over all classes.
    {n_features_in_}

    Notes
    -----
    Standardise dense features first.

    The defaults were chosen on g50c (two Gaussians) and on draws of MNIST with 50 labels. There
    "smoothed" was best for two balanced classes, "deterministic" for ten classes, and the least
    sensitive to C1 and C2: a rare class against the rest needs a mean of the probabilities.

    Without unlabelled rows this is the SVM with squared hinge loss and a free intercept. More than
    two classes are handled one-vs-rest. The objective has many local minima.

    The published smoothed method also smooths the loss of labelled rows; it is already convex, and
    not smoothed here.

    Cost: about ten warm-started minimisations, each a few dozen products with X. With a kernel, a
    Cholesky factor of the kernel matrix replaces X; memory: three such matrices.

    References
    ----------
    Chapelle, Sindhwani, Keerthi. Optimization techniques for semi-supervised support vector
    machines. Journal of Machine Learning Research 9, 2008.

    Chapelle, Zien. Semi-supervised classification by low density separation. AISTATS 2005.

    Chapelle, Chi, Zien. A continuation method for semi-supervised SVMs. ICML 2006.

    Examples
    --------
    >>> from reproduction.rivals import GradientS3VM
    >>> X = [[0.0], [0.3], [0.6], [2.0], [2.3], [2.6]]
    >>> model = GradientS3VM().fit(X, ["no", -1, -1, -1, -1, "yes"])
    >>> model.transduction_.tolist()
    ['no', 'no', 'no', 'yes', 'yes', 'yes']
    """

    _parameter_constraints = {
        "C2": [POSITIVE, None],
        "schedule": [StrOptions({"deterministic", "annealed", "smoothed"})],
        "solver": [StrOptions({"lbfgs", "newton"})],
    }

    C1: float = 10.0
    C2: float | None = None
    _: KW_ONLY
    schedule: str = "deterministic"
    positive_share: Any = None
    solver: str = "lbfgs"
    kernel: Any = "rbf"
    gamma: Any = "scale"
    degree: float = 3
    coef0: float = 1.0
    n_landmarks: Any = "auto"
    max_iter: int = 1000
    tol: float = 1e-4
    random_state: Any = 0
    verbose: int = 0

    def _learn(self, rows: Any, signs: list[Ints], shares: list[float]) -> list[SolverResult]:
        n_landmarks = self.n_landmarks
        if n_landmarks == "auto":
            n_landmarks = None if rows.shape[0] <= KEPT else LANDMARKS
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        space = self._space(rows, n_landmarks=n_landmarks, seed=seed)
        if isinstance(space, LinearFeatures):  # or Nystroem features
            features = space.rows
        else:
            features = kernel_factor(dense_gram(space))
        C2 = balanced_cost(self.C1, signs[0]) if self.C2 is None else self.C2
        problems = list(zip(signs, shares, strict=True))
        with one_core_if_sparse(rows):
            results = [
                gradient_s3vm(
                    features,
                    each,
                    C1=self.C1,
                    C2=C2,
                    share=share,
                    schedule=self.schedule,
                    solver=self.solver,
                    max_iter=self.max_iter,
                    tol=self.tol,
                )
                for each, share in self._track(problems, "class")
            ]
        weights = np.array([result.solution[0] for result in results])
        intercepts = np.array([float(result.solution[1]) for result in results])
        if not isinstance(space, LinearFeatures):  # w = L' coef
            coef = solve_triangular(features, weights.T, lower=True, trans="T").T
            self._keep(space, coef, intercepts)
            return results
        self.coef_, self.intercept_ = weights, intercepts - weights @ space.centre
        return results
