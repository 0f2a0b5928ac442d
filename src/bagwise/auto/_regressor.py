"""AutoBagRegressor: several regressors of bags, weighted by their out-of-fold predictions."""

import time
from dataclasses import KW_ONLY
from numbers import Integral
from typing import Any, Self

import numpy as np
from sklearn.utils import check_random_state

from bagwise._common.memory import byte_count
from bagwise._common.sklearn import Interval, StrOptions
from bagwise._common.types import Array, Floats
from bagwise._methods.ready_made import instance_scaler
from bagwise._validation import check_bags, check_groups, check_numbers
from bagwise.auto._leaderboard import (
    LOWER_IS_BETTER,
    NUMBER_METRICS,
    Entry,
    leaderboard,
    out_of_fold_number_score,
)
from bagwise.auto._members import Member, chosen_regressors, column_scores
from bagwise.auto._race import Race
from bagwise.bags import Bags
from bagwise.base import BagEstimator, BagRegressorMixin, fit_method
from bagwise.base._order import canonical_order, sorted_bags
from bagwise.base._parameters import COUNT, POSITIVE, with_parameters
from bagwise.exceptions import InputError
from bagwise.labels import Labels
from bagwise.model_selection._folds import Fold, make_folds
from bagwise.preprocessing import BagPipeline
from bagwise.solvers.stacking import fit_linear_stack

REG = 1.0  # penalty of the weights, see `fit_linear_stack`; chosen on synthetic bags


@with_parameters
class AutoBagRegressor(BagRegressorMixin, BagEstimator):
    r"""Predict a number per bag by several methods of different kinds, combined.

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
        Names of the default candidates, or regressors of bags by name.
    ensemble : {"stack", "best"}, default="stack"
        Combine the candidates, or use the best one by `metric`.
    n_jobs : int, default=None
        Number of folds fitted at the same time.
    random_state : int, RandomState or None, default=None
        Seed of the folds and of all candidates.
    memory_limit : int or str, default=None
        Largest memory of one candidate, in bytes or as a text such as "2GB". By default half of
        the available memory. Candidates that need more are replaced by methods of linear cost.
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
    intercept_ : float
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
    regression. If there are more than 3,000 bags or 30,000 instances, or if `memory_limit` demands
    it, candidates that compare all pairs are replaced by methods of linear cost; the set kernel
    with epsilon-insensitive loss is left out.

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

    _parameter_constraints = {
        "time_budget": [POSITIVE, None],
        "metric": [StrOptions(set(NUMBER_METRICS))],
        "cv": [Interval(Integral, 2, None, closed="left")],
        "candidates": [StrOptions({"default"}), list, tuple, dict],
        "ensemble": [StrOptions({"stack", "best"})],
        "n_jobs": [Integral, None],
        "memory_limit": [COUNT, str, None],
    }

    time_budget: float | None = None
    metric: str = "r2"
    _: KW_ONLY
    cv: int = 5
    candidates: Any = "default"
    ensemble: str = "stack"
    n_jobs: int | None = None
    random_state: Any = None
    memory_limit: Any = None
    verbose: int = 0

    @fit_method
    def fit(self, X: Any, y: Any, *, groups: Any = None) -> Self:
        """Fit the candidates on folds, weight them, and fit those with a weight on all bags.

        Parameters
        ----------
        {X}
        y : array-like of shape (n_bags,)
            The number of each bag.
        groups : array-like of shape (n_bags,), default=None
            Bags of one group stay in one fold: the molecules of a scaffold.

        Returns
        -------
        self
        """
        start = time.perf_counter()
        bags = check_bags(self, X, reset=True)
        targets = check_numbers(y, bags)
        if len(bags) < 2:
            raise InputError("one bag (n_samples=1) cannot be divided into folds: give more bags.")
        groups = None if groups is None else check_groups(groups, bags)
        # Folds do not depend on the order of the input.
        order, rows = canonical_order(bags, Labels.from_values(targets, targets[:0]))
        bags, targets = sorted_bags(bags, order, rows), targets[order]
        groups = None if groups is None else groups[order]
        rng = check_random_state(self.random_state)
        seed = int(rng.randint(2**31))
        n_folds = min(self.cv, len(bags) if groups is None else len(np.unique(groups)))
        folds = make_folds(targets, n_folds=n_folds, seed=seed, groups=groups, numbers=True)

        scaler = instance_scaler(sparse=bags.is_sparse).fit(bags)
        bags = scaler.transform(bags)
        seconds, memory = self.time_budget or np.inf, byte_count(self.memory_limit)
        race = Race(bags, targets, 1, folds, seconds, memory, self.n_jobs, groups)
        entries = race.run_all(self._track(self._candidates(rng), "method"))
        ran = [entry for entry in entries if entry.scores is not None]
        if not ran:
            reasons = "; ".join(f"{entry.member.name}: {entry.skipped}" for entry in entries)
            raise InputError(f"no candidate could be fitted: {reasons}.")

        predictions = np.column_stack([np.asarray(entry.scores)[:, 0] for entry in ran])
        weights, intercept = fit_linear_stack(predictions, targets, reg=REG)
        whole = self._judge(ran, predictions, targets, folds)
        sign = -1 if self.metric in LOWER_IS_BETTER else 1
        best = int(np.argmax(np.nan_to_num([sign * entry.score for entry in ran], nan=-np.inf)))
        if self.ensemble == "best":
            weights, intercept = np.eye(len(ran))[best], 0.0
        for entry, weight in zip(ran, weights, strict=True):
            entry.weight = float(weight)
        used = [m for m in range(len(ran)) if weights[m] > 0 or m == best]
        estimators = [ran[m].member.fit_all(ran[m].rows, bags, targets, groups) for m in used]

        self.scaler_, self.estimators_ = scaler, estimators
        self.names_ = [ran[m].member.name for m in used]
        self.weights_, self.intercept_ = weights[used], intercept
        self.best_index_ = used.index(best)
        combined = whole if self.ensemble == "stack" else None
        took = time.perf_counter() - start
        self.leaderboard_ = leaderboard(entries, combined, took, self.metric)
        return self

    @property
    def best_estimator_(self) -> BagPipeline:
        """Pipeline of the standardisation and the candidate with the best out-of-fold score."""
        best = self.estimators_[self.best_index_]
        return BagPipeline([("scale", self.scaler_), ("model", best)])

    def _candidates(self, rng: Any) -> list[Member]:
        """Make the candidates, each with its own seed."""
        members = chosen_regressors(self.candidates)
        seeds = rng.randint(2**31, size=len(members))
        return [member.seeded(int(seed)) for member, seed in zip(members, seeds, strict=True)]

    def _judge(
        self, ran: list[Entry], predictions: Floats, targets: Floats, folds: list[Fold]
    ) -> tuple[float, float]:
        """Score each candidate, and the combination by weights fitted without the test fold.

        Sets the scores of the entries; returns score and standard error of the combination.
        """
        together = np.empty(len(targets))
        for train, test in folds:
            weights, intercept = fit_linear_stack(predictions[train], targets[train], reg=REG)
            together[test] = predictions[test] @ weights + intercept
        tests = [test for _, test in folds]
        for m, entry in enumerate(ran):
            entry.score, entry.error = out_of_fold_number_score(
                self.metric, predictions[:, m], targets, tests
            )
        return out_of_fold_number_score(self.metric, together, targets, tests)

    def _bag_scores(self, bags: Bags) -> Array:
        seen = self.scaler_.transform(bags)
        total = np.full((len(bags), 1), float(self.intercept_))
        for m in np.flatnonzero(self.weights_):
            total += self.weights_[m] * column_scores(self.estimators_[m], seen, False, 1)
        return total
