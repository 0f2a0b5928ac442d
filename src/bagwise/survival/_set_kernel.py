"""SetKernelCox: Cox regression on the set kernel."""

from dataclasses import KW_ONLY
from functools import partial
from typing import Any

import numpy as np

from bagwise._common.sklearn import StrOptions
from bagwise._common.types import Array, Floats
from bagwise.bags import Bags
from bagwise.base import BagEstimator, WeightedFit
from bagwise.base._kernel_machine import nystroem_features
from bagwise.base._parameters import COUNT, with_parameters
from bagwise.base._scoring import pool
from bagwise.base._set_kernel import (
    kernel_bags,
    kernel_product,
    nystroem_of_bags,
    sums_by_bag,
    width_of,
)
from bagwise.base._survival import SurvivalMixin
from bagwise.solvers.result import SolverResult
from bagwise.solvers.survival import cox_regression


@with_parameters
class SetKernelCox(WeightedFit, SurvivalMixin, BagEstimator):
    r"""Cox regression on the set kernel: each instance has a log risk, the bag their mean.

    With Nystroem features :math:`\phi` of the instances, standardised and divided by the root of
    their number, the log risk of a bag B and the weights are

    .. math::

        r(B) = \operatorname{mean}_{x \in B} w \cdot \phi(x), \qquad
        \min_w \; -\log PL(r) + \frac{\lambda}{2} |w|^2

    where PL is Cox's partial likelihood, with Efron's correction for tied events. With
    ``pooling="max"`` the bag has the risk of its most dangerous instance, for "one instance
    decides". `predict` returns the log risk: the higher, the earlier. Standardise the instances
    first.

    Parameters
    ----------
    reg : float, default=10.0
        The penalty :math:`\lambda`.
    pooling : {"mean", "max"}, default="mean"
        How the risks of the instances become that of the bag.
    kernel : str or callable, default="rbf"
        The kernel between instances, by scikit-learn's names ("rbf", "linear", "poly", ...) or a
        function of two vectors.
    {gamma}
    n_landmarks : int, default=100
        Number of Nystroem features; their landmarks are drawn from the instances.
    max_iter : int, default=500
        Maximum number of iterations of L-BFGS.
    tol : float, default=1e-6
        Largest entry of the gradient, per event, at which L-BFGS stops.
    random_state : int, RandomState or None, default=0
        For the landmarks.

    Attributes
    ----------
    {unique_times_}
    {cumulative_hazard_}
    nystroem_ : Nystroem
        The approximation of the kernel.
    gamma_ : float
        The kernel width used.
    coef_ : ndarray of shape (1, n_landmarks)
        The weights of the Nystroem features.
    intercept_ : ndarray of shape (1,)
        The intercept.
    objective_curve_ : ndarray of shape (n_iterations,)
        The objective, per event, after each iteration.
    n_iter_ : int
        Number of iterations.
    {n_features_in_}

    See Also
    --------
    bagwise.regression.SetKernelRegressor : The same kernel, for numbers.

    Notes
    -----
    With ``pooling="mean"`` the objective is convex, and the model that of
    ``CoxPHSurvivalAnalysis(alpha=reg, ties="efron")`` of scikit-survival on the same features;
    scikit-survival is not needed. With ``pooling="max"`` L-BFGS starts from that solution and
    reaches a local optimum; it stores the features of all instances.

    References
    ----------
    Cox. Regression models and life-tables. JRSS B 34, 1972.
    Efron. The efficiency of Cox's likelihood function for censored data. JASA 72, 1977.
    Gärtner, Flach, Kowalczyk, Smola. Multi-instance kernels. ICML 2002.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.survival import SetKernelCox
    >>> bags = [[[0.0], [0.1]], [[0.5]], [[2.1], [1.9]], [[3.0]]]
    >>> times = [(True, 9.0), (False, 8.0), (True, 3.0), (True, 1.0)]
    >>> y = np.array(times, dtype=[("event", bool), ("time", float)])
    >>> model = SetKernelCox().fit(bags, y)
    >>> model.predict([[[0.0]], [[3.0]]]) > 0  # the higher, the earlier
    array([False,  True])
    >>> model.score(bags, y)
    1.0
    """

    _parameter_constraints = {"pooling": [StrOptions({"mean", "max"})], "n_landmarks": [COUNT]}
    _in_canonical_order = True  # the draw of landmarks

    reg: float = 10.0
    pooling: str = "mean"
    _: KW_ONLY
    kernel: Any = "rbf"
    gamma: Any = "scale"
    n_landmarks: int = 100
    max_iter: int = 500
    tol: float = 1e-6
    random_state: Any = 0

    @property
    def instance_pooling(self) -> str:  # type: ignore[override]
        """How the risks of the instances become that of the bag."""
        return self.pooling

    def _solve(self, bags: Bags, y: Array, weight: Floats, rng: Any) -> SolverResult:
        self.gamma_ = width_of(self.gamma, bags)
        self.nystroem_ = nystroem_of_bags(self, self.gamma_, self.n_landmarks, rng, bags)
        n_columns = len(self.nystroem_.component_indices_)
        means = sums_by_bag(bags, partial(nystroem_features, self.nystroem_), n_columns)
        means /= bags.sizes[:, None]
        how: Any = {"reg": self.reg, "max_iter": self.max_iter, "tol": self.tol}
        how |= {"event": y["event"], "time": y["time"], "weight": weight}
        single = np.arange(len(bags) + 1)
        if self.pooling == "mean":
            rows, centre, scale = _standardised(means)
            result = cox_regression(rows, single, **how)
        else:
            seen = kernel_bags(self.nystroem_, bags)
            rows, centre, scale = _standardised(seen.instances)
            begin = cox_regression((means - centre) / scale, single, **how).solution[0]
            result = cox_regression(rows, bags.offsets, **how, start=begin)
        (w,) = result.solution
        self.coef_ = (w / scale)[None]
        self.intercept_ = -self.coef_ @ centre
        risk = pool(rows @ w, single if self.pooling == "mean" else bags.offsets, self.pooling)
        self._keep_baseline(risk, y, weight)
        return SolverResult((), result.objective_curve, result.converged)

    def _score(self, bags: Bags) -> Array:
        """Log risks of the instances."""
        return kernel_product(self.nystroem_, bags.instances, self.coef_) + self.intercept_


def _standardised(rows: Floats) -> tuple[Floats, Floats, Floats]:
    """Rows whose squared length is 1 on average, the centre and the scale of their columns."""
    centre, spread = rows.mean(axis=0), rows.std(axis=0)
    scale = np.where(spread > 1e-9, spread, 1.0) * np.sqrt(rows.shape[1])
    return (rows - centre) / scale, centre, scale
