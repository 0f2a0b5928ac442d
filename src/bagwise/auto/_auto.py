"""AutoBagClassifier: several methods, calibrated on out-of-fold scores and combined."""

import time
from dataclasses import KW_ONLY, replace
from numbers import Integral
from typing import Any, Self

import numpy as np
from scipy.special import expit
from sklearn.utils import check_random_state

from bagwise._common.memory import byte_count
from bagwise._common.sklearn import Interval, StrOptions
from bagwise._common.types import Array, Floats
from bagwise._methods.ready_made import instance_scaler
from bagwise._validation import check_bags, check_groups, check_label_sets
from bagwise.auto._leaderboard import (
    LOWER_IS_BETTER,
    Entry,
    check_metric,
    leaderboard,
    out_of_fold_score,
)
from bagwise.auto._members import Member, chosen_members, column_scores, keeping
from bagwise.auto._race import Race
from bagwise.bags import Bags
from bagwise.base import BagClassifierMixin, BagEstimator, fit_method
from bagwise.base._estimator import with_known_labels
from bagwise.base._order import canonical_order, sorted_bags
from bagwise.base._parameters import COUNT, POSITIVE, with_parameters
from bagwise.base._scoring import softmax_probabilities
from bagwise.compiled.threads import one_core_if_few
from bagwise.exceptions import InputError, LabelError
from bagwise.labels import Labels
from bagwise.model_selection._folds import Fold, make_folds
from bagwise.preprocessing import BagPipeline
from bagwise.solvers.stacking import Stack, fit_stack

REG = 10.0  # penalty of the weights; chosen on Musk1, Elephant, digits and synthetic bags


@with_parameters
class AutoBagClassifier(BagClassifierMixin, BagEstimator):
    r"""Classify bags by several methods of different kinds, calibrated and combined.

    Each candidate is fitted on the folds of a cross-validation. Its out-of-fold scores become
    log-odds (Platt scaling), and a logistic regression with weights :math:`w_m \ge 0` combines
    them:

    .. math:: \text{logit}_k = b_k + \sum_m w_m (\text{slope}_{mk} s_{mk} + \text{offset}_{mk}).

    The log-odds of each method are limited to log(number of training bags). Candidates with a
    positive weight are then fitted on all bags. Instances are standardised first.

    Parameters
    ----------
    time_budget : float, default=None
        Seconds for the fit. A candidate is skipped if it would take longer than the time left,
        estimated by a fit on the bags of one fold. If all are too slow, the fastest one is fitted;
        without time for an estimate, the first one of linear cost.
    metric : str, default="log_loss"
        The metric of the leaderboard: "log_loss", "accuracy", "balanced_accuracy" or "roc_auc";
        for label sets "log_loss" or "average_precision". Weights always minimise the log loss.
    assumption : str or None, default=None
        Use only methods that keep an assumption, as `bagwise audit` finds it: "standard" (a bag is
        positive if one of its instances is), "one concept", "several concepts" or "collective" (the
        bag as a whole decides).
    {pos_label}
    cv : int, default=5
        Number of folds; fewer if a class has fewer bags. With `groups`, a group stays together.
    candidates : "default", list of str, or dict of estimators, default="default"
        Names of methods (`bagwise methods` lists them), or classifiers of bags by name.
    ensemble : {"stack", "best"}, default="stack"
        Combine the candidates, or use the best one by `metric`.
    n_jobs : int, default=None
        Number of folds fitted at the same time.
    random_state : int, RandomState or None, default=None
        Seed of the folds and of all candidates. With a seed and no `time_budget`, the result does
        not depend on `n_jobs`.
    memory_limit : int or str, default=None
        Largest memory of one candidate, in bytes or as a text such as "2GB". By default half of
        the available memory. Candidates that need more are replaced by methods of linear cost.
    {verbose}

    Attributes
    ----------
    {classes_}
    {pos_label_}
    {label_kind_}
    leaderboard_ : dict of str to list
        A column per key: method, the metric, its standard error over the folds, weight in the
        ensemble, seconds, why it was skipped, parameters. ``pandas.DataFrame(leaderboard_)``.
        Scores are of bags that neither the method nor its calibration was fitted on.
    estimators_ : list of estimators
        The candidates that were fitted on all (standardised) bags. Their labels are codes:
        positions in ``classes_``, or for two classes 1 for ``pos_label_`` and 0 for the other.
    names_ : list of str
        Their names.
    weights_ : ndarray of shape (n_estimators,)
        Their weights.
    slopes_, offsets_ : ndarray of shape (n_estimators, n_columns)
        Their calibration; one column for two classes, else one per class.
    intercept_ : ndarray of shape (n_columns,)
        Intercepts of the combination.
    limit_ : float
        Largest magnitude of the log-odds of one method.
    best_index_ : int
        The position of the candidate with the best out-of-fold score in ``estimators_``.
    best_estimator_ : BagPipeline
        The standardisation and that candidate; it predicts codes.
    scaler_ : InstanceTransformer
        Standardises the instances.
    {n_features_in_}

    Notes
    -----
    The score of an instance (`score_instances`) is the same combination, without the limit, over
    the methods that score instances. In contrast to other classifiers, these scores cannot be
    pooled to the score of the bag, which also depends on the other methods: `instance_pooling` is
    None. `bagwise.predictions.instance_attributions` computes contributions to that score.
    If no fitted method scores instances, `score_instances` and `key_instances` are not available.

    The default candidates are the most often useful of their kind: trees on pooled statistics, the
    set kernel, MInD, MILBoost, minimax, MILES, Fisher vectors, MI-SVM with an RBF kernel,
    Citation-kNN, and attention pooling if torch is installed, otherwise the noisy-or. MILES is
    replaced beyond 3 million bags times instances, where its linear program takes minutes. If there
    are more than 3,000 bags or 30,000 instances, or if `memory_limit` demands it, candidates that
    compare all pairs are replaced by methods of linear cost; Citation-kNN is left out.

    References
    ----------
    Wolpert. Stacked generalization. Neural Networks 5, 1992.
    Breiman. Stacked regressions. Machine Learning 24, 1996.
    Platt. Probabilistic outputs for support vector machines. 1999.

    Examples
    --------
    >>> from bagwise.auto import AutoBagClassifier
    >>> from bagwise.datasets import make_bags
    >>> data = make_bags(n_bags=40, random_state=0)
    >>> model = AutoBagClassifier(candidates=["pooled-trees", "nsk"], random_state=0)
    >>> model.fit(data.bags, data.y).predict(data.bags[:3]).shape
    (3,)
    >>> sorted(model.leaderboard_["method"])
    ['ensemble', 'nsk', 'pooled-trees']
    """

    _learns_label_sets = True
    _parameter_constraints = {
        "time_budget": [POSITIVE, None],
        "metric": [str],
        "assumption": [
            StrOptions({"standard", "one concept", "several concepts", "collective"}),
            None,
        ],
        "cv": [Interval(Integral, 2, None, closed="left")],
        "candidates": [StrOptions({"default"}), list, tuple, dict],
        "ensemble": [StrOptions({"stack", "best"})],
        "n_jobs": [Integral, None],
        "memory_limit": [COUNT, str, None],
    }

    time_budget: float | None = None
    metric: str = "log_loss"
    _: KW_ONLY
    assumption: str | None = None
    pos_label: Any = None
    cv: int = 5
    candidates: Any = "default"
    ensemble: str = "stack"
    n_jobs: int | None = None
    random_state: Any = None
    memory_limit: Any = None
    verbose: int = 0

    @property
    def keeps(self) -> str:  # type: ignore[override]
        """The assumption that all methods keep; "collective" if `assumption` is None."""
        return self.assumption or "collective"

    @fit_method
    def fit(self, X: Any, y: Any, *, groups: Any = None) -> Self:
        """Fit the candidates on folds, weight them, and fit those with a weight on all bags.

        Parameters
        ----------
        {X}
        y : array-like of shape (n_bags,), 0/1 array of shape (n_bags, n_classes) or list of sets
            The class, or the label set, of each bag.
        groups : array-like of shape (n_bags,), default=None
            Bags of one group stay in one fold: the slides of a patient.

        Returns
        -------
        self
        """
        start = time.perf_counter()
        bags = check_bags(self, X, reset=True)
        labels = self._with_positive(check_label_sets(y, bags, min_classes=2))
        check_metric(self.metric, sets=labels.has_sets)
        if groups is not None:
            groups = check_groups(groups, bags)[labels.known]
        bags, labels = with_known_labels(bags, labels)
        order, rows = canonical_order(bags, labels)  # folds do not depend on the order of the input
        bags, labels = sorted_bags(bags, order, rows), labels[order]
        groups = None if groups is None else groups[order]
        rng = check_random_state(self.random_state)
        folds = draw_folds(labels, self.cv, groups, int(rng.randint(2**31)))
        targets = columns_of(labels)
        exclusive = not labels.has_sets and len(labels.classes) > 2

        scaler = instance_scaler(sparse=bags.is_sparse).fit(bags)
        bags = scaler.transform(bags)
        y = labels.indicator.astype(int) if labels.has_sets else labels.oriented_codes
        seconds, memory = self.time_budget or np.inf, byte_count(self.memory_limit)
        race = Race(bags, y, targets.shape[1], folds, seconds, memory, self.n_jobs, groups)
        members = self._candidates(rng, sets=labels.has_sets, n_columns=targets.shape[1])
        entries = race.run_all(self._track(members, "method"))
        ran = [entry for entry in entries if entry.scores is not None]
        if not ran:
            reasons = "; ".join(f"{entry.member.name}: {entry.skipped}" for entry in entries)
            raise InputError(f"no candidate could be fitted: {reasons}.")

        scores = np.stack([np.asarray(entry.scores) for entry in ran], axis=2)
        with one_core_if_few(scores.size):  # many small L-BFGS problems
            stack = fit_stack(scores, targets, exclusive=exclusive, reg=REG)
            whole = self._judge(ran, scores, targets, folds, exclusive=exclusive)
        sign = -1 if self.metric in LOWER_IS_BETTER else 1
        best = int(np.nanargmax([sign * entry.score for entry in ran]))
        if self.ensemble == "best":
            stack = replace(stack, weights=np.eye(len(ran))[best], intercept=0 * stack.intercept)
        for entry, weight in zip(ran, stack.weights, strict=True):
            entry.weight = float(weight)
        used = [m for m in range(len(ran)) if stack.weights[m] > 0 or m == best]
        estimators = [ran[m].member.fit_all(ran[m].rows, bags, y, groups) for m in used]

        self.classes_, self.label_kind_, self.scaler_ = labels.classes, labels.kind, scaler
        self.pos_label_ = labels.pos_label
        self.estimators_, self.names_ = estimators, [ran[m].member.name for m in used]
        self.slopes_, self.offsets_ = stack.slopes[used], stack.offsets[used]
        self.weights_, self.intercept_ = stack.weights[used], stack.intercept
        self.best_index_, self.limit_ = used.index(best), stack.limit
        took = time.perf_counter() - start
        combined = whole if self.ensemble == "stack" else None
        self.leaderboard_ = leaderboard(entries, combined, took, self.metric)
        return self

    @property
    def best_estimator_(self) -> BagPipeline:
        """Pipeline of the standardisation and the candidate with the best out-of-fold score."""
        best = self.estimators_[self.best_index_]
        return BagPipeline([("scale", self.scaler_), ("model", best)])

    def _candidates(self, rng: Any, *, sets: bool, n_columns: int) -> list[Member]:
        """Make the candidates, each with its own seed."""
        members = chosen_members(self.candidates, sets=sets, n_columns=n_columns)
        if self.assumption is not None:
            members = keeping(members, self.assumption)
            if not members:
                raise InputError(
                    f"no candidate keeps the assumption {self.assumption!r}: name others."
                )
        return [
            member.seeded(int(seed))
            for member, seed in zip(members, rng.randint(2**31, size=len(members)), strict=True)
        ]

    def _judge(
        self,
        ran: list[Entry],
        scores: Floats,
        targets: Array,
        folds: list[Fold],
        *,
        exclusive: bool,
    ) -> tuple[float, float]:
        """Score each candidate and the combination on folds held out from the calibration.

        Sets the scores of the entries; returns score and standard error of the combination.
        """
        alone, together = np.empty_like(scores), np.empty(scores.shape[:2])
        for train, test in folds:
            part = fit_stack(scores[train], targets[train], exclusive=exclusive, reg=REG)
            alone[test] = part.log_odds(scores[test])
            together[test] = part.logits(scores[test])
        tests = [test for _, test in folds]
        for m, entry in enumerate(ran):
            entry.score, entry.error = out_of_fold_score(
                self.metric, alone[:, :, m], targets, tests, exclusive=exclusive
            )
        return out_of_fold_score(self.metric, together, targets, tests, exclusive=exclusive)

    @property
    def _stack(self) -> Stack:
        return Stack(self.slopes_, self.offsets_, self.weights_, self.intercept_, self.limit_)

    def _bag_scores(self, bags: Bags) -> Array:
        seen, (n_columns,) = self.scaler_.transform(bags), self.intercept_.shape
        scores = np.zeros((len(bags), n_columns, len(self.weights_)))
        for m in np.flatnonzero(self.weights_):
            scores[:, :, m] = column_scores(
                self.estimators_[m], seen, self._has_label_sets, n_columns
            )
        return self._stack.logits(scores)

    def _bag_probabilities(self, bags: Bags) -> Array:
        logits = self._bag_scores(bags)
        if self._has_label_sets:
            return expit(logits)
        return softmax_probabilities(self._sign * self._one_column_for_two(logits))

    def _has_probabilities(self) -> bool:
        return True

    def _has_instance_scores(self) -> bool:
        return not hasattr(self, "estimators_") or len(self._instance_scorers) > 0

    @property
    def _instance_scorers(self) -> list[int]:
        """Estimators that score instances; those with weight 0 only if there are no others."""
        able = [m for m, model in enumerate(self.estimators_) if hasattr(model, "score_instances")]
        return [m for m in able if self.weights_[m] > 0] or able

    def _score(self, bags: Bags) -> Array:
        """Scores of instances (not of bags): the combination of estimators that score instances."""
        seen, total = self.scaler_.transform(bags), 0.0
        for m in self._instance_scorers:
            scores = self.estimators_[m].score_instances(seen).reshape(bags.n_instances, -1)
            weight = self.weights_[m] if self.weights_.any() else 1.0
            total = total + weight * (self.slopes_[m] * scores + self.offsets_[m])
        return total + self.intercept_

    def _pooled(self, scores: Array, bags: Bags) -> Array:
        return self._bag_scores(bags)  # the class also depends on the other estimators


def columns_of(labels: Labels) -> Array:
    """Binary targets: one column for the positive one of two classes, else one per class."""
    if labels.has_sets:
        return (labels.indicator == 1).astype(int)
    return (labels.codes[:, None] == np.array(labels.positives)).astype(int)


def draw_folds(labels: Labels, cv: int, groups: Array | None, seed: int) -> list[Fold]:
    """Draw folds by label and group, at most as many as the rarest class has bags."""
    if labels.has_sets:
        return make_folds(labels.indicator, n_folds=min(cv, len(labels)), seed=seed, groups=groups)
    rarest = int(np.argmin(labels.counts))
    n_bags = int(labels.counts[rarest])
    if n_bags < 2:
        raise LabelError(
            f"the label {labels.names[rarest]} has one bag: cross-validation needs two. Leave the "
            "bag out, or label another."
        )
    return make_folds(labels.codes, n_folds=min(cv, n_bags), seed=seed, groups=groups)
