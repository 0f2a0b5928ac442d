"""CensoredBagRegressor: numbers of which some are only known to lie in an interval."""

from dataclasses import KW_ONLY
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import clone, is_regressor
from sklearn.model_selection import GroupKFold

from bagwise._common.sklearn import HasMethods, Interval
from bagwise._common.types import Array, Floats, Ints
from bagwise.bags import Bags
from bagwise.base import BagEstimator, BagRegressorMixin, fit_method, in_canonical_order
from bagwise.base._parameters import with_parameters
from bagwise.base._pipelines import final_estimator, groups_for, instance_model
from bagwise.exceptions import InputError
from bagwise.labels import Labels
from bagwise.regression._set_kernel import SetKernelRegressor
from bagwise.solvers.censored import buckley_james, concordance
from bagwise.solvers.result import SolverResult
from bagwise.validation import check_bags, check_groups, check_intervals


@with_parameters
class CensoredBagRegressor(BagRegressorMixin, BagEstimator):
    r"""Predict a number per bag from numbers of which some are censored, by any bag regressor.

    What is known of the number of a bag is an interval: ``< 5``, ``>= 10``, 4 to 6, or the number
    itself. By the method of Buckley and James, censored numbers are replaced by their expectations

    .. math:: \hat y_i = f(B_i) + E\bigl[e \mid l_i \le f(B_i) + e \le u_i\bigr]

    given the predictions :math:`f` of a model that was fitted without the bag, and the distribution
    of the residuals e (Kaplan-Meier; for intervals Turnbull). The model is then fitted to
    these numbers, until they are stable. Without censored numbers it is the plain regressor.

    Parameters
    ----------
    estimator : regressor, default=None
        Any regressor of bags, alone or in a pipeline; by default `SetKernelRegressor`.
    cv : int or None, default=5
        Number of folds for the predictions f. None for predictions of the training bags, as in the
        paper: only for models that do not fit their training bags much better than new ones.
    max_iter : int, default=20
        Maximum number of fits per fold.
    tol : float, default=0.01
        Largest change of a number, in standard deviations, that counts as stable.
    random_state : int, RandomState or None, default=0
        For the folds.

    Attributes
    ----------
    estimator_ : regressor
        The regressor, fitted on all bags.
    numbers_ : ndarray of shape (n_bags,)
        The numbers it was fitted to: each lies in its interval.
    objective_curve_ : ndarray of shape (n_iterations,)
        The largest change of a number in each iteration, in standard deviations.
    n_iter_ : int
        Number of iterations; 1 without censored numbers.
    {n_features_in_}

    See Also
    --------
    bagwise.labels.Intervals : Numbers in intervals.

    Notes
    -----
    Censoring must not depend on the number except through the bound, as with a limit of detection.
    If the iteration oscillates between several solutions, it ends between them.

    Cost: (n_folds x n_iterations + 1) fits of the regressor.

    References
    ----------
    Buckley, James. Linear regression with censored data. Biometrika 66, 1979.
    Turnbull. The empirical distribution function with arbitrarily grouped, censored and truncated
    data. JRSS B 38, 1976.

    Examples
    --------
    >>> from bagwise.regression import CensoredBagRegressor
    >>> bags = [[[0.0], [0.1]], [[0.4]], [[1.0]], [[2.1], [1.9]], [[3.0]], [[3.5]]]
    >>> model = CensoredBagRegressor(cv=2).fit(bags, ["<0.5", "<0.5", 1.0, 2.0, "2.5-3.5", ">3"])
    >>> bool(model.predict([[[2.8]]]) > model.predict([[[0.2]]]))
    True
    """

    _parameter_constraints = {
        "estimator": [None, HasMethods(["fit", "predict"])],
        "cv": [Interval(Integral, 2, None, closed="left"), None],
    }
    __metadata_request__fit = {"groups": True}  # routed without set_fit_request

    estimator: Any = None
    _: KW_ONLY
    cv: int | None = 5
    max_iter: int = 20
    tol: float = 0.01
    random_state: Any = 0

    @property
    def instance_pooling(self) -> str | None:  # type: ignore[override]
        """How the regressor inside pools scores of instances; None if it has none."""
        return getattr(final_estimator(self._inner), "instance_pooling", None)

    @property
    def _inner(self) -> Any:
        inner = SetKernelRegressor() if self.estimator is None else self.estimator
        return getattr(self, "estimator_", inner)

    @fit_method
    def fit(self, X: Any, y: Any, *, groups: Any = None) -> Any:
        """Fit the model.

        Parameters
        ----------
        {X}
        y : Intervals, or array-like of shape (n_bags,)
            The number of each bag: `bagwise.labels.Intervals`, numbers, or strings such as ``<5``.
        groups : array-like of shape (n_bags,), default=None
            Bags of one group stay in one fold. By default the groups of the bags.

        Returns
        -------
        self
        """
        bags = check_groups(groups, check_bags(self, X, reset=True))
        known = check_intervals(y, bags)
        inner = clone(self._inner)
        if not is_regressor(inner):
            raise InputError(f"estimator is {inner!r}: expected a regressor of bags.")
        ends = np.column_stack([known.lower, known.upper])

        def predict(numbers: Floats) -> Floats:
            found = np.empty(len(bags))
            for train, test in folds:
                found[test] = fitted(numbers, train).predict(bags[test])
            return found

        def fitted(numbers: Floats, rows: Ints) -> Any:
            some = bags[rows]
            return clone(inner).fit(some, numbers[rows], **groups_for(inner, some))

        result = SolverResult((known.lower,), [0.0], converged=True)
        if not known.exact.all():
            folds = self._folds(bags, ends)
            result = buckley_james(predict, *ends.T, max_iter=self.max_iter, tol=self.tol)
        (self.numbers_,) = result.solution
        self._keep_progress(result, "raise max_iter or tol")
        self.estimator_ = fitted(self.numbers_, np.arange(len(bags)))
        return self

    def _folds(self, bags: Bags, ends: Floats) -> list[tuple[Ints, Ints]]:
        """Folds that do not depend on the order of the bags."""
        everything = np.arange(len(bags))
        together = everything if bags.groups is None else bags.groups
        n_folds = min(self.cv or 1, len(np.unique(together)))
        if n_folds < 2:
            return [(everything, everything)]
        labels = Labels.from_codes(*np.unique(ends, axis=0, return_inverse=True))
        order = in_canonical_order(bags, labels, everything)[2]
        splitter = GroupKFold(n_folds, shuffle=True, random_state=self.random_state)
        _, first, group = np.unique(together[order], return_index=True, return_inverse=True)
        parts = splitter.split(order, groups=np.argsort(np.argsort(first))[group])
        return [(order[train], order[test]) for train, test in parts]

    def _score(self, bags: Bags) -> Array:
        if self.instance_pooling is None:
            return np.asarray(self.estimator_.predict(bags), dtype=np.float64)[:, None]
        model, seen = instance_model(self.estimator_, bags)
        return np.asarray(model.score_instances(seen))[:, None]

    def score(self, X: Any, y: Any) -> float:
        """Concordance: the share of pairs of bags with disjoint intervals in the right order.

        Parameters
        ----------
        X : Bags or anything accepted as bags
            The bags.
        y : Intervals, or array-like of shape (n_bags,)
            Their numbers, as for ``fit``.

        Returns
        -------
        float
            0.5 on average for predictions at random.
        """
        bags = self._check_bags(X)
        known = check_intervals(y, bags)
        return concordance(known.lower, known.upper, self.predict(bags))
