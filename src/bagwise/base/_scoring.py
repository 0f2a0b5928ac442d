"""Classifiers and regressors of bags, whose public methods are derived from `_score`."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import numpy as np
from scipy.special import expit, log_expit, logsumexp, softmax
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.metaestimators import available_if

from bagwise import loops
from bagwise._common.types import Array, Floats, Ints
from bagwise.bags import Bags
from bagwise.base._estimator import BagEstimator, WeightedFit, fit_method
from bagwise.base._finite import require_finite
from bagwise.base._order import order_within_bags
from bagwise.compute import to_numpy
from bagwise.compute.arrays import product
from bagwise.exceptions import DataWarning, LabelError, warn_user
from bagwise.labels import Labels, positive_by_name
from bagwise.validation import check_label, check_label_sets, check_numbers, check_sample_weight

SCORE_BITS = 20  # class scores that differ by less than 1e-6 of the largest count as equal


Result = TypeVar("Result")


def guarded(values: Array, X: Any) -> Array:
    """Values per instance that pandas refuses as a column of the unsorted table of `X`."""
    return X.guard(values) if isinstance(X, Bags) else values


def instance_scores(model: Any) -> Callable[[Any], Array]:
    """The method of a model that scores instances; it does not warn of the class it speaks of."""
    return getattr(model, "_instance_scores", None) or model.score_instances


def finite_scores(scores: Array) -> Array:
    """Replace infinite scores by the largest ones whose differences are finite.

    A class that no training bag has gets the score minus infinity; scikit-learn's metrics
    reject that, and a search over folds in which a rare class is missing would fail.

    Parameters
    ----------
    scores : ndarray
        Scores of bags.

    Returns
    -------
    ndarray
    """
    largest = np.finfo(scores.dtype).max / 4  # differences stay finite
    return np.clip(scores, -largest, largest)


def one_vs_rest_probabilities(log_odds: Array) -> Array:
    """Probabilities from the log-odds of the positive class, or of each class against the rest.

    Parameters
    ----------
    log_odds : ndarray of shape (n,) or (n, n_classes)
        Scores.

    Returns
    -------
    ndarray of shape (n, n_classes)
        Rows sum to 1.
    """
    if log_odds.ndim == 1:
        return np.column_stack([expit(-log_odds), expit(log_odds)])
    return softmax(log_expit(log_odds), axis=1)


def softmax_probabilities(logits: Array) -> Array:
    """Probabilities from one logit for two classes, or one per class.

    Parameters
    ----------
    logits : ndarray of shape (n,) or (n, n_classes)
        Scores.

    Returns
    -------
    ndarray of shape (n, n_classes)
        Rows sum to 1.
    """
    return one_vs_rest_probabilities(logits) if logits.ndim == 1 else softmax(logits, axis=1)


def log_odds_of(log_p: Array) -> Array:
    """Log-odds from log-probabilities, without cancellation for probabilities near 1.

    Parameters
    ----------
    log_p : ndarray of shape (n, n_classes)
        Logarithms of probabilities whose rows sum to 1.

    Returns
    -------
    ndarray of shape (n, n_classes)
    """
    with np.errstate(divide="ignore"):
        others = np.log(-np.expm1(log_p))
        largest = np.arange(len(log_p)), log_p.argmax(axis=1)
        rest = log_p.copy()
        rest[largest] = -np.inf
        others[largest] = logsumexp(rest, axis=1)
    return log_p - others


class BagClassifierMixin(ClassifierMixin):
    """Public methods of a bag classifier; an estimator implements `_score`.

    ``_score(bags)`` receives validated bags. If `instance_pooling` names a pooling, it returns the
    scores of the instances, of shape (n_instances, n_columns); if that is None, the scores of the
    bags, of shape (n_bags, n_columns). There is one column per class, or for two classes a single
    column with the scores of the positive class.

    The positive class is ``classes_[1]``, except in a model with the parameter `pos_label`, which
    stores it as ``pos_label_``: a positive instance makes a bag positive, and the absence of such
    instances makes it negative. Public scores are for ``classes_[1]`` in any case, as in
    scikit-learn: if the positive class is ``classes_[0]``, they are `_score` with the opposite
    sign.

    Parameters
    ----------
    pos_label : label
        The positive one of two classes: a single instance of its concept makes a bag positive.
        By default the larger number, or the string that stands for presence ("active", "yes",
        "tumor"); for other strings the last in sorted order, with a warning.
        ``decision_function`` is positive for ``classes_[1]`` in any case.

    Attributes
    ----------
    pos_label_ : label
        The positive one of two classes; None unless there are two.
    instance_pooling : str or None
        How instance scores of the positive class are pooled to the score of the bag: "max", "mean",
        "sum", "lse" (log-mean-exp), "noisy-or" (from log-odds of instances to those of the bag) or
        "softmax" (mean weighted by the softmax of the scores).
    keeps : str
        The assumption that `bagwise.assumptions.check_assumptions` finds with the defaults:
        "standard" (one positive instance makes a bag positive, whatever the other instances are),
        "standard, several concepts" (instances of several kinds do, whatever the others are),
        "one concept" (the presence of one kind of instance decides), "several concepts" (the
        presence of several kinds decides, not their numbers) or "collective" (the whole bag).
    """

    instance_pooling: str | None = None
    keeps: str = "collective"
    classes_: Array
    pos_label: Any = None  # a parameter of models in which a concept defines the positive class
    pos_label_: Any
    label_kind_: str = "single"  # as in `Labels.kind`; a class that accepts both kinds sets it

    _score: Any  # function of validated bags, see above
    _keys_by_value = False  # whether ties of scores, which are common, are broken by the features
    _probabilities: Any = None  # function from scores to probabilities

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = self._learns_label_sets
        return tags

    @fit_method
    def fit(self: Any, X: Any, y: Any) -> Any:
        """Fit the model.

        Parameters
        ----------
        {X}
        {y}

        Returns
        -------
        self
        """
        return self._fit(X, y)

    def _check_labels(self, y: Any, bags: Bags) -> Labels:
        """Validate y; set `classes_`, `label_kind_` and `pos_label_`."""
        labels = super()._check_labels(y, bags)
        if "pos_label" in self._get_param_names():
            labels = self._with_positive(labels)
            self.pos_label_ = labels.pos_label
        self.classes_ = labels.classes
        if self._learns_label_sets:
            self.label_kind_ = "sets" if labels.has_sets else labels.kind
        return labels

    @property
    def _has_label_sets(self) -> bool:
        return self.label_kind_ == "sets"

    @property
    def _sign(self) -> int:
        """Sign from `_score` to public scores: -1 if the positive class is ``classes_[0]``."""
        return -1 if self._positive_column == 0 else 1

    @property
    def _positive_column(self) -> int:
        """The position of the positive one of two classes."""
        two = len(self.classes_) == 2 and not self._has_label_sets
        positive = getattr(self, "pos_label_", None)
        return 0 if two and positive is not None and self.classes_.tolist()[0] == positive else 1

    def _with_positive(self, labels: Labels) -> Labels:
        """Choose the positive one of two classes: `pos_label`, or by the names of the classes.

        ``fit`` stores ``labels.pos_label`` as ``pos_label_``.

        Parameters
        ----------
        labels : Labels
            The labels of the training bags.

        Returns
        -------
        Labels
        """
        two = len(labels.classes) == 2 and not labels.has_sets
        if self.pos_label is not None:
            if not two:
                what = "label sets" if labels.has_sets else f"{len(labels.classes)} classes"
                raise LabelError(f"pos_label={self.pos_label!r} is for two classes, not {what}.")
            names = labels.classes.tolist()
            if self.pos_label not in names:
                raise LabelError(f"pos_label={self.pos_label!r} is not a label of y: {names}.")
            return labels.with_positive(names.index(self.pos_label))
        if not two:
            return labels
        positive = positive_by_name(labels.classes)
        if positive is None and self.keeps.startswith(("standard", "one")):
            first, last = labels.classes.tolist()
            warn_user(
                f"{type(self).__name__} takes {last!r} as the positive class, because it sorts "
                f"after {first!r}: set pos_label= to {first!r} or {last!r}.",
                DataWarning,
            )
        return labels.with_positive(1 if positive is None else positive)

    def decision_function(self, X: Any) -> Array:
        """Score each bag.

        Parameters
        ----------
        X : Bags or anything accepted as bags
            The bags. A model on rows takes a 2-D array: each row is a bag.

        Returns
        -------
        ndarray of shape (n_bags,) or (n_bags, n_classes)
            One score per bag for two classes (positive: ``classes_[1]``, also where `pos_label` is
            the other class), else one per class.
            A model fitted on label sets has one per class, positive if the label is predicted.
        """
        return self._evaluate(X, self._decision)

    def predict(self, X: Any) -> Array:
        """Predict the class of each bag.

        Parameters
        ----------
        X : Bags or anything accepted as bags
            The bags. A model on rows takes a 2-D array: each row is a bag.

        Returns
        -------
        ndarray of shape (n_bags,), or 0/1 array of shape (n_bags, n_classes)
            Values of ``classes_``; label sets if the model was fitted on label sets.
        """
        scores = self.decision_function(X)
        return (scores > 0).astype(int) if self._has_label_sets else self._labels_of(scores)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy: the share of bags whose label, or whole label set, is predicted.

        Parameters
        ----------
        X : Bags or anything accepted as bags
            The bags.
        y : array-like of shape (n_bags,), 0/1 array of shape (n_bags, n_classes) or list of sets
            Their labels or label sets. Bags whose label set is unknown are left out; labels that
            are unknown do not count.
        sample_weight : array-like of shape (n_bags,), default=None
            Weights of the bags.

        Returns
        -------
        float
        """
        if self._has_label_sets:
            X = self._check_bags(X)
            labels = check_label_sets(y, X, classes=self.classes_, known="cells")
            y = np.maximum(labels.indicator, 0)
            if not labels.whole.all():
                y = np.where(labels.indicator < 0, self.predict(X), y)
            if not labels.known.all():
                sample_weight = check_sample_weight(sample_weight, X) * labels.known
        return super().score(X, y, sample_weight)

    @available_if(lambda self: self._has_probabilities())
    def predict_proba(self, X: Any) -> Array:
        """Probability of each class for each bag.

        Parameters
        ----------
        X : Bags or anything accepted as bags
            The bags.

        Returns
        -------
        ndarray of shape (n_bags, n_classes)
            Rows sum to 1, except for a model fitted on label sets, in which each label has its own
            probability.
        """
        return self._evaluate(X, self._bag_probabilities)

    @available_if(lambda self: self._has_instance_scores())
    def score_instances(self, X: Any, label: Any = None) -> Array:
        """Score each instance; pooled by `instance_pooling` they give the score of the bag.

        Parameters
        ----------
        X : Bags or anything accepted as bags
            The bags.
        label : object, default=None
            The class of which the scores speak: the larger, the more an instance supports it. By
            default all classes, or of a single score the class ``classes_[1]``.

        Returns
        -------
        ndarray of shape (n_instances,) or (n_instances, n_classes)
            Aligned with ``bags.instances``; ``bags.in_input_order`` brings them to the rows of a
            table. One score per class; for two classes, most models have a single score instead
            (positive: ``classes_[1]``). Annotators, and `PrimalDualMISVM` with
            ``assumption="classes"``, have one per class for two classes too.

        Warns
        -----
        DataWarning
            Without `label`, if ``classes_[1]`` is the negative class by its name ("healthy").
        """
        scores = self._instance_scores(X)
        if label is not None:
            column = check_label(label, self.classes_)
            scores = scores[:, column] if scores.ndim == 2 else scores if column else -scores
        elif scores.ndim == 1 and positive_by_name(self.classes_) == 0:
            first, last = self.classes_.tolist()
            warn_user(
                f"the scores are those of {last!r}, the last class: a positive score does not "
                f"support {first!r}. Choose one by score_instances(bags, label={first!r}).",
                DataWarning,
            )
        return guarded(scores, X)

    @available_if(lambda self: self._has_instance_scores())
    def predict_instances(self, X: Any) -> Array:
        """Predict the class of each instance, from its own score.

        Parameters
        ----------
        X : Bags or anything accepted as bags
            The bags.

        Returns
        -------
        ndarray of shape (n_instances,)
            Values of ``classes_``, aligned with ``bags.instances``.
        """
        return guarded(self._labels_of(np.asarray(self._instance_scores(X))), X)

    @available_if(lambda self: self._has_probabilities() and self.instance_pooling is not None)
    def predict_proba_instances(self, X: Any) -> Array:
        """Probability of each class for each instance, as if it were a bag with one instance.

        Parameters
        ----------
        X : Bags or anything accepted as bags
            The bags.

        Returns
        -------
        ndarray of shape (n_instances, n_classes)
        """
        return guarded(self._evaluate(X, self._instance_probabilities), X)

    @available_if(lambda self: self._finds_key_instances())
    def key_instances(self, X: Any, label: Any = None) -> Ints:
        """Find the instance of each bag with the highest score for a class.

        Parameters
        ----------
        X : Bags or anything accepted as bags
            The bags.
        label : object, default=None
            The class. With two classes and one score, the default is ``pos_label_``, even for bags
            predicted negative (``classes_[1]`` if the model has no ``pos_label_``); otherwise the
            predicted class. Required if the model was fitted on label sets.

        Returns
        -------
        ndarray of shape (n_bags,)
            The row of the key instance inside its bag, 0-based.
        """
        return self._evaluate(X, partial(self._key_rows, label=label))

    def _decision(self, bags: Bags) -> Array:
        """Compute ``decision_function`` for validated bags."""
        scores = self._bag_scores(bags)
        if scores.shape[1] == 2 and len(self.classes_) == 2 and not self._has_label_sets:
            equal = np.equal(*loops.ties.settled(scores, axis=1, bits=SCORE_BITS).T)
            scores = np.where(equal, 0, scores[:, 1] - scores[:, 0])
        else:
            scores = self._sign * self._one_column_for_two(scores)
        return finite_scores(scores) if "intercept_" in self._may_be_infinite else scores

    def _bag_scores(self, bags: Bags) -> Array:
        """Scores of shape (n_bags, n_columns)."""
        scores = self._score(bags)
        return scores if self.instance_pooling is None else self._pool(scores, bags.offsets)

    def _checked_scores(self, bags: Bags) -> Array:
        infinite = "intercept_" in self._may_be_infinite  # -inf: no training bag has the class
        return require_finite(self._score(bags), "the score", infinite=infinite)

    def _instance_scores(self, X: Any) -> Array:
        """Public scores of instances, for ``classes_[1]`` if there is one score."""
        scores = self._one_column_for_two(self._evaluate(X, self._score, scores=True))
        return scores if self._sign > 0 else -scores

    def _has_instance_scores(self) -> bool:
        return self.instance_pooling is not None

    def _finds_key_instances(self) -> bool:
        own_rule = type(self)._key_rows is not BagClassifierMixin._key_rows
        return own_rule or self._has_instance_scores()

    def _pooled(self, scores: Array, bags: Bags) -> Array:
        """Scores of bags; from the scores of their instances, if these are pooled."""
        pooling = self.instance_pooling
        return self._bag_scores(bags) if pooling is None else self._pool(scores, bags.offsets)

    def _pool(self, values: Array, offsets: Ints) -> Array:
        return pool(values, offsets, str(self.instance_pooling))

    def _has_probabilities(self) -> bool:
        return self._probabilities is not None

    def _bag_probabilities(self, bags: Bags) -> Array:
        return self._probabilities(self._sign * self._one_column_for_two(self._bag_scores(bags)))

    def _instance_probabilities(self, bags: Bags) -> Array:
        return self._probabilities(self._sign * self._one_column_for_two(self._score(bags)))

    def _key_rows(self, bags: Bags, label: Any) -> Ints:
        """Rows of the key instances for a class, counted inside their bags."""
        column = self._column_of(label)
        if not self._keys_by_value:
            return self._best_rows(bags, column)
        order = order_within_bags(bags)
        first = bags.offsets[:-1]
        rows = self._best_rows(bags.with_instances(bags.instances[order]), column)
        return order[first + rows] - first

    def _best_rows(self, bags: Bags, column: int | None) -> Ints:
        scores = self._checked_scores(bags)
        if scores.shape[1] == 1 and len(self.classes_) == 2:
            scores = scores[:, 0]
            against = column is not None and column != self._positive_column
            return loops.segments.argmax(-scores if against else scores, bags.offsets)
        rows = loops.segments.argmax(scores, bags.offsets)
        if column is not None:
            return rows[:, column]
        predicted = _columns(self._pooled(scores, bags))
        return np.take_along_axis(rows, predicted[:, None], axis=1)[:, 0]

    def _column_of(self, label: Any) -> int | None:
        """The position of a label in ``classes_``; None for the predicted class of each bag."""
        if label is not None:
            return check_label(label, self.classes_)
        if self._has_label_sets:
            raise LabelError("a model fitted on label sets needs label= for its key instances.")
        return None

    def _labels_of(self, scores: Array) -> Array:
        return self.classes_[_columns(scores)]

    def _one_column_for_two(self, scores: Array) -> Array:
        return scores[:, 0] if scores.shape[1] == 1 and len(self.classes_) == 2 else scores


class OneVsRestMixin(BagClassifierMixin):
    """One binary model for two classes, else one per class against the rest.

    ``fit`` calls `_one_vs_rest`; `_score` has a column per binary model.
    """

    def _one_vs_rest(
        self, labels: Labels, solve: Callable[[Ints], Result], *, task: str | None = "class"
    ) -> list[Result]:
        """Solve the binary problem of each class.

        Parameters
        ----------
        labels : Labels
            The labels of bags or rows.
        solve : callable
            Takes the signs of one problem, of shape (n,): 1 for the class, -1 for the rest, 0 if
            the label is unknown.
        task : str or None, default="class"
            Name of a problem in the progress bar; None if `solve` reports its own progress.

        Returns
        -------
        list
            The results, one per binary problem.
        """
        positives: Any = labels.positives
        if task is not None:
            positives = self._track(positives, task)
        return [solve(labels.signs(k)) for k in positives]


def _columns(scores: Array) -> Ints:
    """Column of the highest score; the first one if scores agree up to the accuracy of solvers.

    A model with the solution w = 0 has scores that differ by the error of its solver, about 1e-9.
    """
    if scores.ndim == 1:
        return (scores > 0).astype(np.intp)
    return loops.ties.settled(scores, axis=1, bits=SCORE_BITS).argmax(axis=1)


def pool(values: Array, offsets: Ints, how: str) -> Array:
    """Pool values of instances to values of their bags.

    Parameters
    ----------
    values : ndarray of shape (n_instances,) or (n_instances, n_columns)
        The values.
    offsets : ndarray of shape (n_bags + 1,)
        The first row of each bag, and the end of the last.
    how : {"max", "mean", "sum", "lse", "noisy-or", "softmax"}
        The pooling, as in `instance_pooling`.

    Returns
    -------
    ndarray of shape (n_bags,) or (n_bags, n_columns)
    """
    segments = loops.segments
    if how == "softmax":
        return segments.sum(segments.softmax(values, offsets) * values, offsets)
    if how == "lse":
        sizes = np.diff(offsets).astype(values.dtype)
        totals = segments.logsumexp(values, offsets)
        return totals - np.log(sizes).reshape(-1, *[1] * (totals.ndim - 1))
    names = {"max": "maximum", "mean": "mean", "noisy-or": "noisy_or", "sum": "sum"}
    return getattr(segments, names[how])(values, offsets)


class BagRegressorMixin(RegressorMixin):
    """Public methods of a bag regressor; an estimator implements `_score`.

    As in `BagClassifierMixin`, ``_score(bags)`` returns a column of scores of the instances if
    `instance_pooling` names a pooling, and of the bags if it is None.

    Attributes
    ----------
    instance_pooling : str or None
        How instance scores are pooled: "max", "mean", "sum", "lse" or "softmax".
    """

    instance_pooling: str | None = None
    _score: Any  # function of validated bags, see above

    @fit_method
    def fit(self: Any, X: Any, y: Any) -> Any:
        """Fit the model.

        Parameters
        ----------
        {X}
        y : array-like of shape (n_bags,)
            The target of each bag.

        Returns
        -------
        self
        """
        return self._fit(X, y)

    def _check_labels(self, y: Any, bags: Bags) -> Floats:
        """Validate y."""
        return check_numbers(y, bags)

    def predict(self, X: Any) -> Floats:
        """Predict the number of each bag.

        Parameters
        ----------
        X : Bags or anything accepted as bags
            The bags.

        Returns
        -------
        ndarray of shape (n_bags,), or (n_bags, n_targets) of several targets
        """
        scores = self._evaluate(X, self._bag_scores)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    @available_if(lambda self: self._scores_instances())
    def score_instances(self, X: Any) -> Floats:
        """Score each instance; pooled by `instance_pooling` they give the number of the bag.

        Not available if `instance_pooling` is None, as in `AutoBagRegressor`.

        Parameters
        ----------
        X : Bags or anything accepted as bags
            The bags.

        Returns
        -------
        ndarray of shape (n_instances,)
            Aligned with ``bags.instances``, in units of the target.
        """
        return guarded(self._evaluate(X, lambda bags: self._score(bags)[:, 0]), X)

    @available_if(lambda self: self._scores_instances())
    def key_instances(self, X: Any) -> Ints:
        """Find the instance of each bag with the highest score, if the model scores instances.

        `AutoBagRegressor`, and `SetKernelRegressor` with the minimax kernel, do not: the method is
        then not available, and `bagwise.predictions.instance_attributions` replaces it.

        Parameters
        ----------
        X : Bags or anything accepted as bags
            The bags.

        Returns
        -------
        ndarray of shape (n_bags,)
            The row of the key instance inside its bag, 0-based.
        """
        return self._evaluate(X, self._key_rows)

    def _scores_instances(self) -> bool:
        return self.instance_pooling is not None

    def _key_rows(self, bags: Bags) -> Ints:
        return loops.segments.argmax(self._score(bags)[:, 0], bags.offsets)

    def _bag_scores(self, bags: Bags) -> Array:
        """Predictions of shape (n_bags, 1)."""
        scores = self._score(bags)
        pooling = self.instance_pooling
        return scores if pooling is None else pool(scores, bags.offsets, pooling)


class LinearBagClassifier(WeightedFit, BagClassifierMixin, BagEstimator):
    """One hyperplane per class, or one for two classes; instance scores are pooled per bag.

    A subclass defines its parameters and `_solve`, which returns a `SolverResult` with the solution
    (coef, intercept), of shapes (n_columns, n_features) and (n_columns,).
    """

    instance_pooling = "max"
    _solution = ("coef_", "intercept_")

    def _score(self, bags: Bags) -> Array:
        scores = to_numpy(product(bags.instances, np.atleast_2d(self.coef_)))
        return scores + self.intercept_
