"""Survival models of scikit-survival on rows, such as pooled statistics of bags; the baselines.

scikit-survival is licensed under the GPL-3, so only this module imports it, when a model is fitted.
"""

from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bagwise._common.extras import import_extra
from bagwise._common.types import Array, Floats
from bagwise.bags import Bags
from bagwise.base import BagEstimator
from bagwise.base._survival import StepFunction, SurvivalMixin
from bagwise.embedding import BagStatistics
from bagwise.evaluate._baselines import BASELINES, named_baselines
from bagwise.exceptions import DataWarning, MissingExtraError, warn_user
from bagwise.preprocessing._bag_pipeline import prepared
from bagwise.solvers.survival import concordance, kaplan_meier

LEAST = 1e-3  # expected events of a row that no tree expects to have one


def import_survival(module: str) -> Any:
    """Import a module of scikit-survival; the error names the pip command and the licence."""
    try:
        return import_extra(f"sksurv.{module}", extra="survival")
    except MissingExtraError as error:
        raise MissingExtraError(
            f"{error} (scikit-survival, whose licence is the GPL-3)"
        ) from error.__cause__


class RowForest(BaseEstimator):
    """Random survival forest of scikit-survival; `predict` returns a log risk.

    Parameters
    ----------
    n_estimators : int, default=100
        Number of trees.
    low_memory : bool, default=False
        Whether leaves have the expected number of events only, not the survival function.
    random_state : int, RandomState or None, default=0
        For the trees.
    """

    def __init__(
        self, n_estimators: int = 100, low_memory: bool = False, random_state: Any = 0
    ) -> None:
        self.n_estimators, self.low_memory = n_estimators, low_memory
        self.random_state = random_state

    def fit(self, X: Floats, y: Array) -> Self:
        """Fit the trees to rows and their times."""
        make = import_survival("ensemble").RandomSurvivalForest
        self.forest_ = make(**self.get_params()).fit(X, y)
        return self

    def predict(self, X: Floats) -> Floats:
        """The logarithm of the expected number of events."""
        return np.log(np.maximum(self.forest_.predict(X), LEAST))

    def predict_survival_function(self, X: Floats) -> Array:
        """Functions of time, the means over the trees; not with `low_memory`."""
        found = self.forest_.predict_survival_function(X)
        return np.array([StepFunction(curve.x, curve.y) for curve in found], dtype=object)


class RowCoxnet(BaseEstimator):
    """Cox regression with an elastic net, of scikit-survival; three folds choose the penalty."""

    def fit(self, X: Floats, y: Array) -> Self:
        """Fit the path of all penalties, and choose the one with the highest concordance."""
        make = import_survival("linear_model").CoxnetSurvivalAnalysis
        how = {"l1_ratio": 0.5, "n_alphas": 30, "alpha_min_ratio": 0.02}
        path = make(**how).fit(X, y)
        scores = np.zeros(len(path.alphas_))
        for train, test in KFold(3, shuffle=True, random_state=0).split(X):
            part = make(**how | {"alphas": path.alphas_}).fit(X[train], y[train])
            risks = X[test] @ part.coef_  # of the first penalties if the others do not converge
            own = [concordance(y["event"][test], y["time"][test], risk) for risk in risks.T]
            scores[: len(own)] += np.nan_to_num(own, nan=0.5)
        self.coef_ = path.coef_[:, scores.argmax()]
        self.intercept_ = -float(np.mean(X @ self.coef_))
        SurvivalMixin._keep_baseline(self, self.predict(X), y)
        return self

    def predict(self, X: Floats) -> Floats:
        """Log risks, with the mean 0 on the training rows."""
        return X @ self.coef_ + self.intercept_

    predict_survival_function = SurvivalMixin.predict_survival_function


class KaplanMeier(SurvivalMixin, BagEstimator):
    """The same survival function for every bag: Kaplan-Meier's estimate, without the instances."""

    def _solve(self, bags: Bags, y: Array, weight: Floats, rng: Any) -> None:
        self.unique_times_, left = kaplan_meier(y["event"], y["time"])
        self.cumulative_hazard_ = -np.log(np.maximum(left, np.finfo(float).tiny))

    def _score(self, bags: Bags) -> Floats:
        return np.zeros((len(bags), 1))


def pooled_forest(n_estimators: int = 100) -> Any:
    """Random survival forest on the mean, minimum, maximum and deviation of each feature.

    Parameters
    ----------
    n_estimators : int, default=100
        Number of trees.

    Returns
    -------
    Pipeline
    """
    return make_pipeline(BagStatistics(), RowForest(n_estimators))


def pooled_coxnet() -> Any:
    """Elastic net Cox regression on standardised columns, such as pooled statistics."""
    return make_pipeline(StandardScaler(), RowCoxnet())


def survival_baselines(
    names: Iterable[str] = BASELINES, *, bags: Bags, impute: str | None = None
) -> dict[str, Any]:
    """The simple models that an evaluation is compared with, as `evaluate._baselines.baselines`.

    The forest is left out, with a warning, without scikit-survival.
    """
    forest = prepared(pooled_forest(), scale=False, sparse=bags.is_sparse, impute=impute)
    made = {"majority": ("Kaplan-Meier", KaplanMeier()), "pooled trees": ("pooled trees", forest)}
    found = named_baselines(names, made)
    if "pooled trees" in found:
        try:
            import_survival("ensemble")
        except MissingExtraError as error:
            warn_user(f"the baseline pooled trees is left out: {error}", DataWarning)
            del found["pooled trees"]
    return found
