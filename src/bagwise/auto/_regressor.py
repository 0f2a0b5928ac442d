"""AutoBagRegressor: several regressors of bags, weighted by their out-of-fold predictions."""

from dataclasses import KW_ONLY
from typing import Any

import numpy as np

from bagwise._common.sklearn import StrOptions
from bagwise._common.types import Array, Floats
from bagwise.auto._ensemble import Ensemble
from bagwise.bags import Bags
from bagwise.base import BagEstimator, BagRegressorMixin
from bagwise.base._parameters import with_parameters
from bagwise.evaluate._evaluation import Fold, make_folds
from bagwise.evaluate._measures import number_measures
from bagwise.exceptions import InputError
from bagwise.labels import Labels
from bagwise.solvers.stacking import Stack, fit_linear_stack
from bagwise.validation import check_numbers

NUMBER_METRICS = {"r2": "R2", "mae": "MAE", "spearman": "Spearman"}
REG = 1.0  # penalty of the weights, see `fit_linear_stack`; chosen on synthetic bags


@with_parameters
class AutoBagRegressor(Ensemble, BagRegressorMixin, BagEstimator):
    r"""Predict a numeric target per bag by several methods of different kinds, combined.

    Each candidate is fitted on the folds of a cross-validation. Least squares on the predictions
    :math:`f_m` for held-out bags give non-negative weights with a sum of at most 1:

    .. math:: \hat y = b + \sum_m w_m f_m, \qquad w_m \ge 0, \qquad \sum_m w_m \le 1.

    Candidates with a positive weight are then fitted on all bags. Instances are standardised first.

    Parameters
    ----------
    time_budget : float, default=None
        Seconds for the fit. A candidate is skipped if it would take longer than the time left,
        estimated by a fit on the bags of one fold. If all are too slow, the fastest one is fitted;
        without time for an estimate, the first one of linear cost.
    metric : {"r2", "mae", "spearman"}, default="r2"
        The metric of the leaderboard. Weights always minimise the squared error.
    cv : int, default=5
        Number of folds; fewer if there are fewer bags. With `groups`, a group stays together.
    candidates : "default", list of str, or dict of estimators, default="default"
        Names of methods that predict numbers, or regressors of bags by name.
    ensemble : {"stack", "best"}, default="stack"
        Combine the candidates, or use the best one by `metric`.
    n_jobs : int, default=None
        Number of folds fitted at the same time.
    random_state : int, RandomState or None, default=None
        Seed of the folds and of all candidates.
    {verbose}

    Attributes
    ----------
    leaderboard_ : dict of str to list
        A column per key: method, the metric, its standard error over the folds, weight in the
        ensemble, seconds, why it was skipped, parameters. ``pandas.DataFrame(leaderboard_)``.
        Scores are of bags that neither the method nor the weights were fitted on.
    estimators_ : list of estimators
        The candidates that were fitted on all (standardised) bags.
    names_ : list of str
        Their names.
    weights_ : ndarray of shape (n_estimators,)
        Their weights.
    intercept_ : ndarray of shape (1,)
        Intercept of the combination.
    best_index_ : int
        The position of the candidate with the best out-of-fold score in ``estimators_``.
    best_estimator_ : BagPipeline
        The standardisation and that candidate.
    scaler_ : InstanceTransformer
        Standardises the instances.
    {n_features_in_}

    See Also
    --------
    AutoBagClassifier : Ensemble of classifiers.

    Notes
    -----
    The default candidates: trees and ridge regression on pooled statistics, the set kernel with
    squared and with epsilon-insensitive loss, minimax, MInD and Fisher vectors, both with ridge
    regression. If there are more than 3,000 bags or 30,000 instances, or if the memory does not
    suffice, candidates that compare all pairs are replaced by methods of linear cost; the set
    kernel with epsilon-insensitive loss is left out.

    The combination has no scores of instances: `score_instances` and `key_instances` are not
    available, and raise an AttributeError. `bagwise.predictions.instance_attributions` computes the
    contributions of instances; the key instance of a bag has the largest one.

    References
    ----------
    Breiman. Stacked regressions. Machine Learning 24, 1996.

    Examples
    --------
    >>> from bagwise.auto import AutoBagRegressor
    >>> from bagwise.datasets import make_bags
    >>> data = make_bags(n_bags=40, random_state=0)
    >>> numbers = [bag.mean() for bag in data.bags]
    >>> model = AutoBagRegressor(candidates=["pooled-ridge", "nsk"], random_state=0)
    >>> model.fit(data.bags, numbers).score(data.bags, numbers) > 0.9
    True
    >>> sorted(model.leaderboard_["method"])
    ['ensemble', 'nsk', 'pooled-ridge']
    """

    _kind = "numbers"
    _parameter_constraints = {"metric": [StrOptions(set(NUMBER_METRICS))]}

    time_budget: float | None = None
    metric: str = "r2"
    _: KW_ONLY
    cv: int = 5
    candidates: Any = "default"
    ensemble: str = "stack"
    n_jobs: int | None = None
    random_state: Any = None
    verbose: int = 0

    def _labels(self, y: Any, bags: Bags) -> Labels:
        numbers = check_numbers(y, bags)
        if len(bags) < 2:
            raise InputError("one bag (n_samples=1) cannot be divided into folds: give more bags.")
        return Labels.from_codes(*np.unique(numbers, return_inverse=True))

    def _folds(self, labels: Labels, groups: Array | None, seed: int) -> list[Fold]:
        n_folds = min(self.cv, len(labels) if groups is None else len(np.unique(groups)))
        return make_folds(labels.values, n_folds=n_folds, seed=seed, groups=groups, numbers=True)

    def _targets(self, labels: Labels) -> tuple[Array, Array]:
        return labels.values, labels.values[:, None]

    def _stack(self, scores: Floats, targets: Array) -> Stack:
        weights, intercept = fit_linear_stack(scores[:, 0], targets[:, 0], reg=REG)
        same = np.ones((len(weights), 1))  # predictions are combined as they are
        unlimited = float(np.finfo(np.float64).max)
        return Stack(same, 0 * same, weights, np.array([intercept]), unlimited)

    def _measure(self, combined: Floats, targets: Array) -> float:
        return number_measures(targets[:, 0], combined[:, 0])[NUMBER_METRICS[self.metric]]
