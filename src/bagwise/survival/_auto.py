"""AutoBagSurvival: several survival models, combined by out-of-fold risks."""

from dataclasses import KW_ONLY
from typing import Any

import numpy as np

from bagwise._common.types import Array, Floats
from bagwise.auto._ensemble import Ensemble
from bagwise.auto._members import Member
from bagwise.bags import Bags
from bagwise.base import BagEstimator
from bagwise.base._parameters import with_parameters
from bagwise.base._survival import SurvivalMixin
from bagwise.classification import AttentionMIL
from bagwise.embedding import BagStatistics
from bagwise.evaluate._evaluation import Fold, make_folds
from bagwise.exceptions import InputError
from bagwise.labels import Labels
from bagwise.solvers.stacking import Stack, fit_risk_stack
from bagwise.solvers.survival import concordance
from bagwise.survival._rows import RowForest, pooled_coxnet
from bagwise.survival._set_kernel import SetKernelCox
from bagwise.validation import check_times

REG = 10.0  # penalty of the weights: not tuned, checked on draws 100 to 109 of the benchmark


@with_parameters
class AutoBagSurvival(Ensemble, SurvivalMixin, BagEstimator):
    r"""Predict the time to an event by several survival models of different kinds, combined.

    Each candidate is fitted on the folds of a cross-validation. Cox regression of the times on its
    out-of-fold risks gives its log risk :math:`f_m`, and one with weights :math:`w_m \ge 0`
    combines them:

    .. math:: r(B) = \sum_m w_m f_m(B), \qquad
        \min_{w \ge 0} \; -\log PL(r) + \frac{\lambda}{2} \sum_m (w_m - 1 / M)^2.

    Candidates with a positive weight are then fitted on all bags. Instances are standardised first.
    `predict` returns the log risk: the higher, the earlier.

    Parameters
    ----------
    time_budget : float, default=None
        Seconds for the fit, as for `AutoBagClassifier`.
    cv : int, default=5
        Number of folds; fewer if there are fewer events. With `groups`, a group stays together.
    candidates : "default", list of str, or dict of estimators, default="default"
        Names of methods that predict times, or survival models of bags by name.
    ensemble : {"stack", "best"}, default="stack"
        Combine the candidates, or use the one with the highest concordance.
    n_jobs : int, default=None
        Number of folds fitted at the same time.
    random_state : int, RandomState or None, default=None
        Seed of the folds and of all candidates.
    {verbose}

    Attributes
    ----------
    {unique_times_}
    {cumulative_hazard_}
    leaderboard_ : dict of str to list
        A column per key: method, Harrell's concordance, its standard error over the folds, weight
        in the ensemble, seconds, why it was skipped, parameters.
    estimators_ : list of estimators
        The candidates that were fitted on all (standardised) bags.
    names_ : list of str
        Their names.
    weights_ : ndarray of shape (n_estimators,)
        Their weights.
    slopes_, offsets_ : ndarray of shape (n_estimators, 1)
        From the risk of each candidate to its log risk.
    best_index_ : int
        The position of the candidate with the best out-of-fold score in ``estimators_``.
    best_estimator_ : BagPipeline
        The standardisation and that candidate.
    held_out_scores_, held_out_targets_ : ndarray of shape (n_training_bags, 1)
        Log risks of the training bags, in an order of their own, by models and weights of other
        folds, and their times.
    held_out_groups_ : ndarray of shape (n_training_bags,) or None
        The groups of these bags.
    scaler_ : InstanceTransformer
        Standardises the instances.
    {n_features_in_}

    See Also
    --------
    SetKernelCox : One of the candidates; it explains its risk by its instances.

    Notes
    -----
    The default candidates: pooled statistics with a random survival forest and with elastic net
    Cox regression, for which scikit-survival is needed (``pip install "bagwise[survival]"``; its
    licence is the GPL-3); `SetKernelCox` with mean and maximum; and `AttentionMIL` with Cox's loss,
    if torch is installed. A candidate whose package is missing is left out, and named in
    ``leaderboard_``.

    The baseline hazard is Breslow's estimate for the out-of-fold risks, not for the risks of the
    refitted candidates, which know the training bags.

    The risk of an instance (`score_instances`) combines the candidates that score instances, in
    units of the log risk. The risks of the candidates with mean and attention pooling have the
    bag's as their mean. If no fitted candidate scores instances, `score_instances` and
    `key_instances` are not available; `bagwise.predictions.instance_attributions` is.

    References
    ----------
    Breiman. Stacked regressions. Machine Learning 24, 1996.
    Ishwaran, Kogalur, Blackstone, Lauer. Random survival forests. AOAS 2, 2008.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.survival import AutoBagSurvival
    >>> bags = np.random.default_rng(0).normal(size=(60, 4, 2))
    >>> y = np.empty(60, dtype=[("event", bool), ("time", float)])
    >>> y["event"], y["time"] = True, np.exp(-2 * bags[:, :, 0].mean(axis=1))
    >>> model = AutoBagSurvival(candidates=["nsk", "nsk-max"], random_state=0).fit(bags, y)
    >>> model.score(bags, y) > 0.8
    True
    >>> sorted(model.leaderboard_["method"])
    ['ensemble', 'nsk', 'nsk-max']
    """

    _kind = "times"
    metric = "concordance"  # of the leaderboard
    _scores_instances = Ensemble._has_instance_scores

    time_budget: float | None = None
    _: KW_ONLY
    cv: int = 5
    candidates: Any = "default"
    ensemble: str = "stack"
    n_jobs: int | None = None
    random_state: Any = None
    verbose: int = 0

    def _default_members(self, n_columns: int) -> list[Member]:
        network = AttentionMIL(loss="cox", n_models=3)
        return [
            Member("pooled-trees", RowForest(low_memory=True), BagStatistics()),
            Member("pooled-coxnet", pooled_coxnet(), BagStatistics()),
            Member("nsk", SetKernelCox()),
            Member("nsk-max", SetKernelCox(pooling="max")),
            Member("attention", network, most_pairs=1e7, replacements=_SHORT),
        ]

    def _labels(self, y: Any, bags: Bags) -> Labels:
        times = check_times(y, bags)
        if times["event"].sum() < 2:
            raise InputError(
                f"one event (n_samples={len(bags)}) cannot be divided into folds: give more bags."
            )
        return Labels.from_codes(*np.unique(times, return_inverse=True))

    def _folds(self, labels: Labels, groups: Array | None, seed: int) -> list[Fold]:
        times = labels.values
        n_folds = int(min(self.cv, times["event"].sum()))
        if groups is not None:
            n_folds = min(n_folds, len(np.unique(groups)))
        return make_folds(times, n_folds=n_folds, seed=seed, groups=groups, numbers=True)

    def _targets(self, labels: Labels) -> tuple[Array, Array]:
        return labels.values, labels.values[:, None]

    def _stack(self, scores: Floats, targets: Array) -> Stack:
        event, time = targets["event"][:, 0], targets["time"][:, 0]
        return fit_risk_stack(scores, event, time, reg=REG)

    def _measure(self, combined: Floats, targets: Array) -> float:
        return concordance(targets["event"][:, 0], targets["time"][:, 0], combined[:, 0])

    def _finish(self, bags: Bags, targets: Array) -> None:
        self._keep_baseline(self.held_out_scores_[:, 0], targets[:, 0])

    def _score(self, bags: Bags) -> Array:
        """Log risks of instances (not of bags)."""
        seen, total = self.scaler_.transform(bags), np.zeros((bags.n_instances, 1))
        for m in self._instance_scorers:
            model = self.estimators_[m]
            scores = model.score_instances(seen)
            if model.instance_pooling == "sum":  # terms: their mean is to be the risk of the bag
                scores = scores * bags.sizes[bags.bag_index]
            weight = self.weights_[m] if self.weights_[m] > 0 else 1.0
            total[:, 0] += weight * (self.slopes_[m] * scores + self.offsets_[m])
        return total


_SHORT = (Member("attention (30 epochs)", AttentionMIL(loss="cox", n_models=3, max_epochs=30)),)
