"""AutoBagClassifier and AutoBagRegressor: several methods, combined by out-of-fold predictions.

The scores of classifiers are calibrated first.
"""

from collections.abc import Callable
from dataclasses import KW_ONLY
from functools import partial
from typing import Any

import numpy as np
from scipy.special import expit, logit, softmax
from sklearn.metrics import average_precision_score, log_loss

from bagwise._common.sklearn import StrOptions
from bagwise._common.types import Array, Bools, Floats
from bagwise.auto._coverage import PredictsIntervals, PredictsSets
from bagwise.auto._ensemble import Ensemble, Race, mean_and_error
from bagwise.auto._members import default_members
from bagwise.bags import Bags
from bagwise.base import BagClassifierMixin, BagEstimator, BagRegressorMixin, class_weights
from bagwise.base._parameters import with_parameters
from bagwise.base._pipelines import warn_of_nothing
from bagwise.base._scoring import softmax_probabilities
from bagwise.evaluate import _measures
from bagwise.evaluate._evaluation import Fold, make_folds
from bagwise.exceptions import DataWarning, InputError, LabelError, warn_user
from bagwise.labels import Labels
from bagwise.solvers.stacking import Stack, fit_linear_stack, fit_stack
from bagwise.validation import check_label_sets, check_numbers, check_targets, has_columns

LABEL_METRICS = ("log_loss", "accuracy", "balanced_accuracy", "roc_auc")
SET_METRICS = ("log_loss", "average_precision")
REG = 10.0  # penalty of the weights; chosen on Musk1, Elephant, digits and synthetic bags
LARGEST = 1e6  # magnitude of an instance score
MOST_SEEN = 5_000  # instances on which the instance scores of the methods are judged
MUCH_WORSE = 0.1  # difference of log losses, of which a fit under an assumption warns
NUMBER_METRICS = {"r2": "R2", "mae": "MAE", "spearman": "Spearman"}
NUMBER_REG = 1.0  # the same for `fit_linear_stack`; chosen on synthetic bags


@with_parameters
class AutoBagClassifier(PredictsSets, Ensemble, BagClassifierMixin, BagEstimator):
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
        Number of folds; fewer if a class has fewer bags, or for few `groups`, which stay together.
    candidates : "default", list of str, or dict of estimators, default="default"
        Names of methods (`bagwise methods` lists them), or classifiers of bags by name.
    ensemble : {"stack", "best"}, default="stack"
        Combine the candidates, or use the best one by `metric`.
    use_columns : sequence of str, default=None
        Columns of the bags (`Bags.columns`), such as age and site, to use besides the instances.
        Those of the default candidates that can use them do: trees and linear models on pooled
        statistics, attention, and a linear model on the columns alone.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, as if their bags were as many times more frequent: log(weight) is
        added to the log-odds of a class after the calibration, so that the leaderboard does not
        depend on it. "balanced" makes the classes equally frequent. For label sets a weight per
        label, of the bags that have it against those that do not.
    n_jobs : int, default=None
        Number of folds fitted at the same time.
    random_state : int, RandomState or None, default=None
        Seed of the folds and of all candidates. With a seed and no `time_budget`, the result does
        not depend on `n_jobs`.
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
    instance_weights_, instance_offsets_ : ndarray of shape (n_estimators, n_columns)
        The combination of the instance scores: weighted scores plus offsets, summed.
    limit_ : float
        Largest magnitude of the log-odds of one method.
    held_out_scores_, held_out_targets_ : ndarray of shape (n_training_bags, n_columns)
        The combined log-odds of the training bags, in an order of their own, by models and weights
        of other folds, and whether a bag has the class. For two classes of ``pos_label_``.
    held_out_groups_ : ndarray of shape (n_training_bags,) or None
        The groups of these bags.
    held_out_loss_, chance_loss_ : float
        The log loss of these bags, and that of the class frequencies.
    best_index_ : int
        The position of the candidate with the best out-of-fold score in ``estimators_``.
    best_estimator_ : BagPipeline
        The standardisation and that candidate; it predicts codes.
    scaler_ : InstanceTransformer
        Standardises the instances.
    {n_features_in_}

    Notes
    -----
    The score of an instance (`score_instances`) combines the methods that score instances: each
    score is divided by its standard deviation, relative to the value at which a bag would be
    undecided, and weighted by the weight of the method times the Gini coefficient with which its
    scores separate the instances of positive training bags from those of others. A method can
    predict bags well from instance scores that mean little, such as MILES: its coefficient is near
    0. With more than two classes, one per bag, a method has one standard deviation and one
    coefficient, their mean over the classes, so that the scores of classes can be compared. In
    contrast to other classifiers, these scores cannot be pooled to the score of the bag, which also
    depends on the other methods: `instance_pooling` is None.
    `bagwise.predictions.instance_attributions` computes contributions to the score of the bag.
    If no fitted method scores instances, `score_instances` and `key_instances` are not available.

    The default candidates are the most often useful of their kind: trees on pooled statistics, the
    set kernel, MInD, MILBoost, minimax, MILES, Fisher vectors, MI-SVM with an RBF kernel,
    Citation-kNN, and attention pooling if torch is installed, otherwise the noisy-or. MILES is
    replaced beyond 3 million bags times instances, where its linear program takes minutes. If there
    are more than 3,000 bags or 30,000 instances, or if the memory does not suffice, candidates that
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
        "metric": [str],
        "assumption": [
            StrOptions({"standard", "one concept", "several concepts", "collective"}),
            None,
        ],
    }

    time_budget: float | None = None
    metric: str = "log_loss"
    _: KW_ONLY
    assumption: str | None = None
    pos_label: Any = None
    cv: int = 5
    candidates: Any = "default"
    ensemble: str = "stack"
    use_columns: Any = None
    class_weight: Any = None
    n_jobs: int | None = None
    random_state: Any = None
    verbose: int = 0

    @property
    def keeps(self) -> str:  # type: ignore[override]
        """The assumption that all methods keep; "collective" if `assumption` is None."""
        return self.assumption or "collective"

    @property
    def _kind(self) -> str:
        return self.label_kind_

    def _labels(self, y: Any, bags: Bags) -> Labels:
        labels = self._with_positive(check_label_sets(y, bags, min_classes=2))
        known = SET_METRICS if labels.has_sets else LABEL_METRICS
        if self.metric not in known:
            kind = "label sets" if labels.has_sets else "one label per bag"
            raise InputError(
                f"metric={self.metric!r} is not a metric for {kind}: use {', '.join(known)}."
            )
        if not labels.known.any():
            raise LabelError("no bag has a known label set: give at least one.")
        return labels

    def _targets(self, labels: Labels) -> tuple[Array, Array]:
        self.classes_, self.label_kind_ = labels.classes, labels.kind
        self.pos_label_ = labels.pos_label
        self._log_weights = self._prior_shift(labels)
        if labels.has_sets:
            present = (labels.indicator == 1).astype(int)
            return present, present
        targets = (labels.codes[:, None] == np.array(labels.positives)).astype(int)
        return labels.oriented_codes, targets

    def _prior_shift(self, labels: Labels) -> Floats:
        """The logarithms of the weights of the classes, a value per column of log-odds."""
        if not labels.has_sets:
            weights = class_weights(self.class_weight, labels)
            each = np.log([weights[labels.codes == k][0] for k in range(len(labels.classes))])
            # One column for two classes, for the positive one.
            ahead = [each[k] - (each[1 - k] if len(each) == 2 else 0.0) for k in labels.positives]
            return np.array(ahead)
        if self.class_weight == "balanced":
            present = (labels.indicator == 1).sum(axis=0)
            return np.log((labels.known.sum() - present).clip(1) / present.clip(1))
        given = {} if self.class_weight is None else self.class_weight
        unknown = [label for label in given if label not in labels.classes.tolist()]
        if unknown or not all(weight > 0 for weight in given.values()):
            raise InputError(
                f"class_weight={given}: expected positive weights of {labels.classes.tolist()}."
            )
        return np.log([given.get(label, 1.0) for label in labels.classes.tolist()])

    def _folds(self, labels: Labels, groups: Array | None, seed: int) -> list[Fold]:
        y, n_most = labels.indicator, len(labels)
        n_units = n_most if groups is None else len(np.unique(groups))
        if not labels.has_sets:
            y, rarest = labels.codes, int(np.argmin(labels.counts))
            n_most = int(labels.counts[rarest])
            if n_most < 2:
                raise LabelError(
                    f"the label {labels.names[rarest]} has one bag: cross-validation needs two. "
                    "Leave the bag out, or label another."
                )
        return make_folds(y, n_folds=min(self.cv, n_most, n_units), seed=seed, groups=groups)

    @property
    def _is_exclusive(self) -> bool:
        """Whether a bag has exactly one of several classes."""
        return self.label_kind_ == "single" and len(self.classes_) > 2

    def _stack(self, scores: Floats, targets: Array) -> Stack:
        return fit_stack(scores, targets, exclusive=self._is_exclusive, reg=REG)

    @property
    def _measure(self) -> Callable[[Floats, Array], float]:
        return partial(label_score, self.metric, exclusive=self._is_exclusive)

    def _bag_probabilities(self, bags: Bags) -> Array:
        return self._shares(self._bag_scores(bags))

    def _shares(self, logits: Floats) -> Floats:
        """Probabilities from combined log-odds."""
        if self._has_label_sets:
            return expit(logits)
        return softmax_probabilities(self._sign * self._one_column_for_two(logits))

    def _has_probabilities(self) -> bool:
        return True

    def _scores_of_instances(self, m: int, bags: Bags) -> Array:
        """Scores of instances by an estimator: (n_instances, n_columns)."""
        model = self.estimators_[m]
        checked = isinstance(model, BagClassifierMixin)  # the bags are validated already
        scores = model._score(bags) if checked else np.asarray(model.score_instances(bags))
        scores = scores.reshape(bags.n_instances, -1)
        if scores.shape[1] > len(self.intercept_):  # a score for each of two classes
            scores = np.diff(scores, axis=1)
        return np.clip(scores, -LARGEST, LARGEST)  # infinite for a class without training bags

    def _judge(self, race: Race) -> None:
        """Keep the loss of held-out bags; warn if the methods predict them badly.

        That is no better than the majority or, for methods of one assumption, much worse than trees
        on pooled features.
        """
        targets, folds = self.held_out_targets_, race.folds
        measure = partial(label_score, "log_loss", exclusive=self._is_exclusive)

        def losses(logits: Floats) -> Floats:
            return np.array([measure(logits[test], targets[test]) for _, test in folds])

        own, blind = losses(self.held_out_scores_), np.empty(targets.shape)
        for train, test in folds:
            shares = np.clip(targets[train].mean(axis=0), 0.001, 0.999)
            blind[test] = np.log(shares) if self._is_exclusive else logit(shares)
        alone = losses(blind)
        self.held_out_loss_, self.chance_loss_ = float(own.mean()), float(alone.mean())
        if self.assumption is None:
            warn_of_nothing(self, self.held_out_loss_, self.chance_loss_)
            return
        found = f"assumption={self.assumption!r}: the log loss of held-out bags is {own.mean():.3f}"
        gain, error = mean_and_error(list(alone - own))
        if not gain > error:
            warn_user(
                f"{found}, not clearly better than that of the majority, "
                f"{alone.mean():.3f}. Leave assumption= out, or give more bags.",
                DataWarning,
            )
            return
        if self.assumption == "collective":
            return
        pooled = default_members(self._kind, targets.shape[1])[0]
        if (scores := race.run(pooled.seeded(0)).scores) is None:  # no time or memory left
            return
        rival = losses(self._held_out_logits(scores[:, :, None], targets, folds)[:, :, -1])
        worse, error = mean_and_error(list(own - rival))
        if worse > max(MUCH_WORSE, 2 * error):
            warn_user(
                f"{found}, that of {pooled.name}, which use the whole bag, {rival.mean():.3f}: the "
                "label probably does not depend on one instance. Leave assumption= out.",
                DataWarning,
            )

    def _finish(self, bags: Bags, targets: Array) -> None:
        """Add class weights; weigh the estimators that score instances, by what bags say."""
        self.intercept_ = self.intercept_ + self._log_weights
        self.held_out_scores_ = self.held_out_scores_ + self._log_weights
        del self._log_weights
        every = -(-bags.n_instances // MOST_SEEN)
        few, present = bags[::every], targets[::every] == 1
        present = np.repeat(present, few.sizes, axis=0)
        self.instance_weights_ = np.zeros(self.slopes_.shape)
        self.instance_offsets_ = np.zeros(self.slopes_.shape)
        for m in self._instance_scorers:
            scores, slopes = self._scores_of_instances(m, few), self.slopes_[m]
            spread, gini = scores.std(axis=0), separation(present, scores)
            if self._is_exclusive:  # scores of several classes are compared: on one scale
                spread, gini = np.sqrt(np.mean(spread**2)), gini.mean()
            weights = gini / np.where(spread > 0, spread, 1.0)
            weights *= self.weights_[m] if self.weights_.any() else 1.0
            if self._is_exclusive:
                self.instance_weights_[m] = weights
                continue
            self.instance_weights_[m] = np.where(slopes > 0, weights, 0.0)
            # 0 is the score at which a bag is as likely positive as negative.
            zero = self.offsets_[m] / np.where(slopes > 0, slopes, np.inf)
            self.instance_offsets_[m] = self.instance_weights_[m] * zero

    def _score(self, bags: Bags) -> Array:
        """Scores of instances (not of bags): the combination of estimators that score instances."""
        seen = self.scaler_.transform(bags)
        total = np.zeros((bags.n_instances, len(self.intercept_)))
        for m in self._instance_scorers:
            scores = self._scores_of_instances(m, seen)
            total += self.instance_weights_[m] * scores + self.instance_offsets_[m]
        return total


def separation(positive: Bools, scores: Floats) -> Floats:
    """How well scores separate instances of positive bags from others: Gini, 2 AUC - 1, at least 0.

    Of each column; 1 for a column without both.
    """
    columns = zip(positive.T, scores.T, strict=True)
    area = np.nan_to_num([_measures.area_under_roc(*column) for column in columns], nan=1.0)
    return np.maximum(2 * area - 1, 0)


def label_score(metric: str, logits: Floats, targets: Array, *, exclusive: bool) -> float:
    """One of `LABEL_METRICS` or `SET_METRICS`, from logits of shape (n_bags, n_columns).

    `exclusive` tells whether a bag has exactly one of several classes.
    """
    proba = softmax(logits, axis=1) if exclusive else expit(logits)
    if metric == "average_precision":
        present = targets.any(axis=0)
        if not present.any():
            return float("nan")
        return float(average_precision_score(targets[:, present], proba[:, present]))
    if metric == "log_loss" and not exclusive:
        return _measures.label_set_log_loss(targets, proba)
    if not exclusive:
        proba, targets = (np.column_stack([1 - each, each]) for each in (proba, targets))
    truth, classes = targets.argmax(axis=1), np.arange(proba.shape[1])
    if metric == "log_loss":
        return float(log_loss(truth, proba, labels=classes))
    if metric == "roc_auc":
        return _measures.mean_area_under_roc(truth, proba, classes)
    return _measures.label_measures(truth, proba.argmax(axis=1))[metric.replace("_", " ")]


@with_parameters
class AutoBagRegressor(PredictsIntervals, Ensemble, BagRegressorMixin, BagEstimator):
    r"""Predict a numeric target per bag by several methods of different kinds, combined.

    Each candidate is fitted on the folds of a cross-validation. Least squares on the predictions
    :math:`f_m` for held-out bags give non-negative weights with a sum of at most 1:

    .. math:: \hat y = b + \sum_m w_m f_m, \qquad w_m \ge 0, \qquad \sum_m w_m \le 1.

    Candidates with a positive weight are then fitted on all bags. Instances are standardised first.
    If y is a matrix of several targets, each has its own models and weights, on the same embeddings
    and folds; the metric is the mean over the targets.

    Parameters
    ----------
    time_budget : float, default=None
        Seconds for the fit. A candidate is skipped if it would take longer than the time left,
        estimated by a fit on the bags of one fold. If all are too slow, the fastest one is fitted;
        without time for an estimate, the first one of linear cost.
    metric : {"r2", "mae", "spearman"}, default="r2"
        The metric of the leaderboard. Weights always minimise the squared error.
    cv : int, default=5
        Number of folds; fewer if there are fewer bags, or `groups`, which stay together.
    candidates : "default", list of str, or dict of estimators, default="default"
        Names of methods that predict numbers, or regressors of bags by name.
    ensemble : {"stack", "best"}, default="stack"
        Combine the candidates, or use the best one by `metric`.
    use_columns : sequence of str, default=None
        Columns of the bags (`Bags.columns`), such as age and site, to use besides the instances.
        Those of the default candidates that can use them do: trees and linear models on pooled
        statistics, attention, and a linear model on the columns alone.
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
    weights_ : ndarray of shape (n_estimators,) or (n_estimators, n_targets)
        Their weights.
    intercept_ : ndarray of shape (n_targets,)
        Intercept of the combination.
    best_index_ : int
        The position of the candidate with the best out-of-fold score in ``estimators_``.
    best_estimator_ : BagPipeline
        The standardisation and that candidate.
    held_out_scores_, held_out_targets_ : ndarray of shape (n_training_bags, n_targets)
        The predictions for the training bags, in an order of their own, by models and weights of
        other folds, and their numbers.
    held_out_groups_ : ndarray of shape (n_training_bags,) or None
        The groups of these bags.
    held_out_loss_, chance_loss_ : float
        The mean squared error of these bags, and the variance of their numbers.
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
    use_columns: Any = None
    n_jobs: int | None = None
    random_state: Any = None
    verbose: int = 0

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _labels(self, y: Any, bags: Bags) -> Labels:
        numbers = (check_targets if has_columns(y) else check_numbers)(y, bags)
        if len(bags) < 2:
            raise InputError("one bag (n_samples=1) cannot be divided into folds: give more bags.")
        return Labels.from_codes(*np.unique(numbers, axis=0, return_inverse=True))

    def _judge(self, race: Race) -> None:
        """Keep the loss of held-out bags."""
        errors = self.held_out_scores_ - self.held_out_targets_
        self.held_out_loss_ = float(np.mean(errors**2))
        self.chance_loss_ = float(np.var(self.held_out_targets_, axis=0).mean())

    def _folds(self, labels: Labels, groups: Array | None, seed: int) -> list[Fold]:
        n_folds = min(self.cv, len(labels) if groups is None else len(np.unique(groups)))
        return make_folds(labels.values, n_folds=n_folds, seed=seed, groups=groups, numbers=True)

    def _targets(self, labels: Labels) -> tuple[Array, Array]:
        return labels.values, labels.values.reshape(len(labels), -1)

    def _stack(self, scores: Floats, targets: Array) -> Stack:
        columns = range(targets.shape[1])
        found = [fit_linear_stack(scores[:, k], targets[:, k], reg=NUMBER_REG) for k in columns]
        weights = np.column_stack([each for each, _ in found])  # (n_models, n_targets)
        same = np.ones(weights.shape)  # predictions are combined as they are
        weights = weights[:, 0] if len(found) == 1 else weights
        unlimited = float(np.finfo(np.float64).max)
        return Stack(same, 0 * same, weights, np.array([b for _, b in found]), unlimited)

    def _measure(self, combined: Floats, targets: Array) -> float:
        several = targets.shape[1] > 1
        pair = (targets, combined) if several else (targets[:, 0], combined[:, 0])
        return _measures.number_measures(*pair)[NUMBER_METRICS[self.metric]]
