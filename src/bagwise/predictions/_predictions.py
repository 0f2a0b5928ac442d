"""Predictions of a model for bags and their instances, each computed when it is first used."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp
from sklearn.base import is_clusterer

from bagwise import loops
from bagwise._common.types import Array, Bools, Floats, Ints
from bagwise.bags import Bags
from bagwise.base import RowEstimator, _pipelines
from bagwise.base._scoring import instance_scores
from bagwise.exceptions import InputError, LabelError
from bagwise.labels import Intervals, Labels, is_known
from bagwise.predictions._attributions import instance_attributions
from bagwise.predictions._likeness import like_training
from bagwise.predictions._ranking import Ranking, rank_instances
from bagwise.validation import (
    are_times,
    check_bags,
    check_known_labels,
    check_label,
    check_length,
    check_times,
)

Columns = dict[str, Array]
N_SUBSETS = 50  # per bag, for contributions
MOST_SCORED = 300_000  # instances in the subsets of bags that a model scores for contributions


@dataclass(frozen=True)
class Contributions:
    """The value of each instance for one class: positive values support it.

    Attributes
    ----------
    values : ndarray of shape (n_instances,)
        The values.
    label : object
        The class.
    name : str
        Its name.
    method : str
        How the values were computed, see `instance_attributions`.
    """

    values: Floats
    label: Any
    name: str
    method: str

    @property
    def value_name(self) -> str:
        """Name of the values, such as "score for tumour"."""
        return f"{'score for' if self.method == 'score' else 'contribution to'} {self.name}"


class Predictions:
    """What a fitted model predicts for bags and their instances.

    Nothing is predicted before it is used, and nothing twice. The methods return tables: dicts of
    arrays of equal length, which ``pandas.DataFrame`` and ``polars.DataFrame`` accept.

    Parameters
    ----------
    model : estimator
        Any fitted estimator of bags, alone or in a pipeline or a search.
    X : Bags or anything accepted as bags
        The bags.
    y : array-like of shape (n_bags,), 0/1 array or list of sets, default=None
        The known labels, or for a regressor the known targets, also as `Intervals`; None if
        unknown.
    classes : array-like of shape (n_classes,), default=None
        Names to show instead of the values of ``classes_``, in their order; for a regressor of
        several numbers their names.
    threshold : float, default=None
        For two classes: a bag is of the second one if its score (without scores: its probability)
        is at least this, see `bagwise.evaluate.choose_threshold`. By default that of the model file
        (``bagwise fit --sensitivity``), if it has one, else what ``predict`` says.

    Attributes
    ----------
    bags : Bags
        The bags.
    model, estimator : estimator
        The given model, and the last step of its pipeline or the best model of its search.
    seen : Bags or None
        The bags after the preceding steps; None if these turn a bag into a row.
    is_regressor, works_on_rows, scores_instances, has_keys : bool
        Whether the model is a regressor, works on rows instead of bags, has scores of
        instances, has key instances.
    unit : {"bag", "row"}
        What is predicted.
    names : list of str
        The names of the classes.
    label_names : ndarray
        The names of the classes, with the background last if the model has one.
    background_name : object
        Name of the background in a table; None without background.

    Examples
    --------
    >>> from bagwise.classification import SingleInstanceClassifier
    >>> from bagwise.predictions import Predictions
    >>> bags = [[[0.0], [0.1]], [[0.2]], [[0.1], [3.0]], [[2.5]]]
    >>> model = SingleInstanceClassifier().fit(bags, ["no", "no", "yes", "yes"])
    >>> predictions = Predictions(model, bags)
    >>> table = predictions.bag_table()
    >>> table["predicted"].tolist(), table["key_instance"].tolist()
    (['no', 'no', 'yes', 'yes'], [1, 0, 1, 0])
    >>> predictions.instance_table()["key"].tolist()
    [False, True, True, False, True, True]
    """

    def __init__(
        self,
        model: Any,
        X: Any,
        y: Any = None,
        *,
        classes: ArrayLike | None = None,
        threshold: float | None = None,
    ) -> None:
        self.model, self.bags = model, check_bags(None, X, reset=True, allow_nan=True)
        self.is_regressor, self._y = _pipelines.predicts_numbers(model), y
        self.estimator, self.seen = self._last_step()
        self._cache: dict[str, Array] = {}
        self.temperature: float | None = None  # of probabilities of instances: see `tempered`
        self.works_on_rows = isinstance(self.estimator, RowEstimator)
        self.unit = "row" if self.works_on_rows and (self.bags.sizes == 1).all() else "bag"
        self.scores_instances = self.seen is not None and hasattr(self.estimator, "score_instances")
        self.has_keys = self.seen is not None and hasattr(self.estimator, "key_instances")
        self.is_survival = _pipelines.predicts_risk(model)
        self.target_names = [] if classes is None else list(np.asarray(classes))
        classes = None if self.is_regressor else classes
        own = getattr(self.estimator, "classes_", None)
        self.classes: Array = np.array([]) if own is None or self.is_regressor else np.asarray(own)
        names = self.label_names = self.classes if classes is None else np.asarray(classes)
        if names.shape != self.classes.shape:
            raise InputError(f"classes has {len(names)} names for {len(self.classes)} classes.")
        self.class_names, self.names = names, [str(name) for name in names.tolist()]
        self.threshold = getattr(model, "threshold_", None) if threshold is None else threshold
        if self.threshold is not None and len(self.classes) != 2:
            raise InputError(f"threshold={threshold}: the model has {len(self.classes)} classes.")
        self.background_name = label = getattr(self.estimator, "background_label_", None)
        if label is not None:
            is_text = not np.issubdtype(names.dtype, np.number)
            self.background_name = "background" if is_text and not isinstance(label, str) else label
            self.label_names = np.append(names, [self.background_name])

    def _last_step(self) -> tuple[Any, Bags | None]:
        last = _pipelines.final_estimator(self.model)
        if not isinstance(last, RowEstimator):
            return _pipelines.instance_model(self.model, self.bags)
        if not is_clusterer(last) and (self.bags.sizes != 1).any():
            raise InputError(
                f"{type(last).__name__} works on rows: give bags of one instance each, or an array."
            )
        estimator, rows = _pipelines.last_step(self.model, self.bags.instances)
        return estimator, self.bags.with_instances(rows)

    # Raw predictions ------------------------------------------------------------------------

    def call(self, method: str) -> Any:
        """Return the result of a method of the model for the bags; None if it has none."""
        if method == "predict" and self.threshold is not None and method not in self._cache:
            scores = self.call("decision_function")
            scores = self.call("predict_proba")[:, 1] if scores is None else scores
            self._cache[method] = self.classes[(scores >= self.threshold).astype(int)]
        if method not in self._cache:
            caller, X = (self.estimator, self.seen)
            if X is None:
                caller, X = self.model, self.bags
            if not hasattr(caller, method):
                return None
            X = X.instances if self.works_on_rows else X
            scored = method == "score_instances"  # the columns of tables name the class
            compute = instance_scores(caller) if scored else getattr(caller, method)
            values = np.asarray(compute(X))
            calibrated = method == "predict_proba_instances"
            self._cache[method] = tempered(values, self.temperature) if calibrated else values
        return self._cache[method]

    # Labels and numbers ---------------------------------------------------------------------

    @cached_property
    def bag_names(self) -> list[str]:
        """The names of the bags."""
        return [str(name) for name in self.bags.names.tolist()]

    @cached_property
    def known(self) -> Labels | None:
        """The known labels of the bags."""
        if self.is_regressor:
            return None
        return check_known_labels(
            self._y, self.bags, classes=self.classes.tolist(), names=self.names
        )

    @cached_property
    def predicted(self) -> Labels | None:
        """The predicted class, or label set, of each bag; None for a regressor or a clusterer."""
        if self.is_regressor or is_clusterer(self.estimator):
            return None
        found = self.call("predict")
        return None if found is None else self.labels(found)

    def labels(self, predicted: Any, kind: str = "partial") -> Labels:
        """Turn predictions of the model, or of a refitted one, to `Labels`.

        The classes are the classes of the model, then further labels of the bags; other labels are
        unknown. For instances the background is the last class, if the model has one.
        """
        values, classes, names = np.asarray(predicted), self.classes.tolist(), self.names
        if values.ndim == 2:
            indicator = np.where(values < 0, -1, values > 0)
            return Labels("sets", classes, indicator=indicator, names=names)
        if kind == "partial" and self.known is not None:
            classes, names = self.known.classes.tolist(), self.known.names
        background = getattr(self.estimator, "background_label_", None)
        if kind == "instances" and background is not None:
            classes = [*classes, background]
            names = [*names, background if isinstance(background, str) else "background"]
        position = {label: k for k, label in enumerate(classes)}
        codes = [position.get(label, -1) for label in values.tolist()]
        return Labels(kind, classes, codes, names=names)

    @cached_property
    def known_intervals(self) -> Intervals | None:
        """For a regressor the interval of the number of each bag, if some are not exact."""
        y = self._y
        known = isinstance(y, Intervals) and len(check_length(y, self.bags)) > 0
        return y if known and self.is_regressor and not y.exact.all() else None

    @cached_property
    def known_times(self) -> Array | None:
        """For a survival model the times to the event of each bag, NaN if unknown."""
        if not self.is_survival or not are_times(self._y):
            return None
        times = check_times(self._y, self.bags, need_event=False, allow_nan=True)
        return times if is_known(times).any() else None

    @cached_property
    def known_numbers(self) -> Floats | None:
        """For a regressor the known number of each bag, NaN if it is not known exactly."""
        if not self.is_regressor or self._y is None or are_times(self._y):
            return None
        check_length(self._y, self.bags)
        if isinstance(self._y, Intervals):
            return np.where(self._y.exact, self._y.lower, np.nan)
        try:
            numbers = np.array([np.nan if v is None else v for v in self._y], dtype=float)
        except (TypeError, ValueError) as error:
            raise LabelError(f"y contains values that are not numbers: {error}.") from error
        return numbers if np.isfinite(numbers).any() else None

    @cached_property
    def bag_scores(self) -> tuple[Floats | None, str]:
        """One score per bag, if there is one, and its name."""
        if self.is_regressor:
            return np.asarray(self.call("predict"), dtype=float), "prediction"
        raw, predicted = self.call("decision_function"), self.predicted
        if raw is None or predicted is None or predicted.has_sets:
            return None, "score"
        if raw.ndim == 1:
            return raw, f"score for “{self.names[1]}”" if len(self.names) > 1 else "score"
        return raw[np.arange(len(raw)), predicted.codes], "score of that class"

    # Instances ------------------------------------------------------------------------------

    @cached_property
    def keys(self) -> list[tuple[int, int]]:
        """Key instances: the row of each, and a column of the classes (-1: the predicted one).

        Empty without key instances. For label sets one for each label that is predicted.
        """
        if self.seen is None or not self.has_keys:
            return []
        first, predicted = self.bags.offsets[:-1], self.call("predict")
        if self.threshold is not None:
            each = [self.estimator.key_instances(self.seen, label=c) for c in self.classes]
            rows = first + np.where(predicted == self.classes[1], *each[::-1])
            return [(row, -1) for row in rows.tolist()]
        if predicted is None or predicted.ndim == 1:
            rows = first + self.estimator.key_instances(self.seen)
            return [(row, -1) for row in rows.tolist()]
        found = []
        for k in np.flatnonzero(predicted.any(axis=0)).tolist():
            bags = np.flatnonzero(predicted[:, k])
            rows = self.estimator.key_instances(self.seen[bags], label=self.classes[k])
            found += [(row, k) for row in (first[bags] + rows).tolist()]
        return found

    def instance_scores(self) -> Array:
        """The model's scores of instances; an error if it has none."""
        if not self.scores_instances:
            raise InputError(f"{type(self.estimator).__name__} has no instance scores.")
        return np.asarray(self.call("score_instances"))

    @cached_property
    def ranking(self) -> Ranking:
        """The instances in the order in which a reader sees them, for any kind of model."""
        return rank_instances(self)

    @property
    def usual_method(self) -> str:
        """The method of contributions: "score" if scores of instances pool to the score of a bag.

        Else "sampled" or, for many instances, "single".
        """
        if self.scores_instances and getattr(self.estimator, "instance_pooling", None) is not None:
            return "score"
        # A random subset contains half of a bag on average.
        return "sampled" if self.bags.n_instances * N_SUBSETS / 2 <= MOST_SCORED else "single"

    def attributions(self, method: str, random_state: Any = 0) -> Array:
        """The `instance_attributions` of the bags."""
        settings = {"n_samples": N_SUBSETS, "random_state": random_state}
        return instance_attributions(self.model, self.bags, method=method, **settings)

    def contributions(
        self, label: Any = None, *, method: str | None = None, random_state: Any = 0
    ) -> Contributions:
        """Compute the value of each instance for a class.

        Parameters
        ----------
        label : object, default=None
            The class; by default the last of two, else the class predicted for the first bag.
        method : str, default=None
            As in `instance_attributions`. By default "score" if the model's own scores of
            instances pool to the score of the bag, else "sampled", for large bags "single".
        random_state : int, RandomState instance or None, default=0
            Seed of random subsets.

        Returns
        -------
        Contributions
        """
        method = self.usual_method if method is None else method
        found = self.attributions(method, random_state)
        if label is None and found.ndim == 2:
            predicted = np.asarray(self.call("predict"))
            if predicted.ndim == 2:
                raise InputError("the model predicts label sets: choose the label to map.")
            label = predicted[0]
        if self.is_regressor:
            name = "risk" if self.is_survival else "number"
            return Contributions(found, None, name, method)
        column = 1 if label is None else check_label(label, self.classes)
        values = found[:, column] if found.ndim == 2 else found if column else -found
        return Contributions(values, self.classes[column], self.names[column], method)

    # Tables ---------------------------------------------------------------------------------

    def bag_table(self, *, separator: str = ";", coverage: float | None = None) -> Columns:
        """Collect the predictions for each bag.

        Parameters
        ----------
        separator : str, default=";"
            Separator of the labels of a set, for models of label sets.
        coverage : float, default=None
            Add a set of classes, or an interval, to each bag, that contains its class or number
            with this probability: see ``predict_set`` of `AutoBagClassifier` and
            ``predict_interval`` of `AutoBagRegressor`.

        Returns
        -------
        dict of str to ndarray of shape (n_bags,)
            ``bag`` (its id, or its number); ``predicted``; if the model has them ``score`` (for
            ``classes_[1]``) or ``score_<class>``, ``probability_<class>``, and ``key_instance``,
            the row of the key instance inside its bag, with its ``key_score``. For a regressor
            ``predicted`` is the number, in units of the target. For label sets the column
            ``key_instances`` has ``label:row`` for each predicted label. For a survival model
            ``predicted`` is the log risk, and ``median_time`` the time at which the probability
            that the event has not happened falls to 1/2, NaN if it does not. With a coverage
            ``set`` ("{}" if the bag is unlike those of all classes), or ``lower`` and ``upper``,
            of several numbers ``lower_<name>`` and ``upper_<name>``. ``like_training``, if
            the model stores it (`remember_training`), is a p-value: small for bags that are unlike
            the training bags.
        """
        table, predicted = {"bag": self.bags.names}, self.call("predict")
        if predicted is None or not (self.is_regressor or len(self.classes)):
            raise InputError(f"{type(self.estimator).__name__} has no predictions for bags.")
        covered = {} if coverage is None else self._covered(coverage, separator)
        if predicted.ndim == 2 and self.is_regressor:
            names = self.target_names or range(predicted.shape[1])
            columns = zip(names, predicted.T, strict=True)
            return table | {f"predicted_{name}": column for name, column in columns} | covered
        if predicted.ndim == 2:
            table["predicted"] = self._joined(predicted, separator)
        else:
            table["predicted"] = predicted if self.is_regressor else self._named(predicted)
        table |= covered
        if self.is_survival:
            curves = _pipelines.survival_functions(self.model, self.bags)
            ends = [curve.x[curve.y <= 0.5][:1] for curve in curves]
            table["median_time"] = np.array([end[0] if len(end) else np.nan for end in ends])
        if not self.is_regressor:
            table |= self._per_class("score", self.call("decision_function"))
            table |= self._per_class("probability", self.call("predict_proba"))
        if self.has_keys and predicted.ndim == 1:
            keys = self.key_instance_table()
            table |= {k: keys[k] for k in ("key_instance", "key_score") if k in keys}
        elif self.has_keys:
            parts: list[list[str]] = [[] for _ in range(len(self.bags))]
            for row, k in self.keys:
                i = self.bags.bag_index[row]
                parts[i].append(f"{self.names[k]}:{row - self.bags.offsets[i]}")
            table["key_instances"] = np.array([separator.join(part) for part in parts])
        likeness = self.like_training
        return table if likeness is None else table | {"like_training": likeness}

    def _joined(self, sets: Array, separator: str) -> Array:
        held = (np.flatnonzero(row) for row in sets)
        return np.array([separator.join(self.names[k] for k in row) for row in held])

    def _covered(self, coverage: float, separator: str) -> Columns:
        """The set of classes, or the ends of the interval, of each bag."""
        if hasattr(self.estimator, "predict_set"):
            sets = self.estimator.predict_set(self.seen, coverage)
            return {"set": np.where(sets.any(axis=1), self._joined(sets, separator), "{}")}
        if not hasattr(self.estimator, "predict_interval"):
            name = type(self.estimator).__name__
            bounds = "leave the bags with bounds out of the fit"
            fix = bounds if name == "CensoredBagRegressor" else "use MAPIE or crepes"
            raise InputError(
                f"coverage={coverage:g} is for AutoBagClassifier and AutoBagRegressor (bagwise fit "
                "without -m, for classes, label sets and exact numbers), which keep held-out "
                f"scores, and not for {name}: {fix}."
            )
        ends = self.estimator.predict_interval(self.seen, coverage)
        heads = ["lower", "upper"]
        if ends.ndim == 3:  # of several numbers
            names = self.target_names or range(ends.shape[1])
            heads = [f"{end}_{name}" for name in names for end in heads]
        return dict(zip(heads, ends.reshape(len(ends), -1).T, strict=True))

    @cached_property
    def like_training(self) -> Floats | None:
        """A p-value of each bag: is it like the training bags? None if the model has none stored.

        See `remember_training`.
        """
        reference = getattr(self.model, "likeness_", None)
        return None if reference is None else like_training(reference, self.bags)

    def instance_table(
        self, *, background_above: float | None = None, separator: str = ";"
    ) -> Columns:
        """Collect the predictions for each instance.

        Parameters
        ----------
        background_above : float, default=None
            For a model with background: an instance is background if its background probability
            exceeds this value. By default if background is more probable than every class.
        separator : str, default=";"
            Separator of several labels of an instance.

        Returns
        -------
        dict of str to ndarray of shape (n_instances,)
            ``bag`` and ``row`` (inside the bag, 0-based); ``score`` (for ``classes_[1]``) or
            ``score_<class>``; ``probability_<class>`` if the model has it; ``predicted``, the class
            of the instance by its own score (``background`` for a background class without a name),
            by the noisy-or all labels with a probability of at least 0.3, several or none;
            ``key``, true for the key instance of a bag, or of any predicted label for label sets.

        Raises
        ------
        InputError
            When the model has no instance scores.
        """
        refuse_background_above(self.estimator, background_above)
        table = self._rows() | self._per_class("score", self.instance_scores())
        if not self.is_regressor:
            shares = self.call("predict_proba_instances")
            table |= self._per_class("probability", shares)
            sets = self.call("predict_instance_sets")  # of the noisy-or
            if shares is not None and self.background_name is not None:
                chosen = likeliest(shares, len(self.classes), background_above)
                table["predicted"] = self.label_names[chosen]
            elif sets is not None and self.call("predict").ndim == 2:
                table["predicted"] = self._joined(sets, separator)
            else:
                table["predicted"] = self._named(self.call("predict_instances"))
        return table | {"key": self._are_in([row for row, _ in self.keys])}

    def key_instance_table(self, label: Any = None) -> Columns:
        """Collect the key instance of each bag.

        Parameters
        ----------
        label : object, default=None
            The class to explain; by default the class predicted for the bag. Required for label
            sets.

        Returns
        -------
        dict of str to ndarray of shape (n_bags,)
            ``bag``, ``n_instances``, ``predicted`` (with `label`: ``label``), ``key_instance`` (the
            row inside the bag, 0-based) and, if the model scores instances, its ``key_score``.

        Raises
        ------
        InputError
            When the model has no key instances.
        """
        if self.seen is None or not self.has_keys:
            raise InputError(f"{type(self.estimator).__name__} has no key instances.")
        table: Columns = {"bag": self.bags.names, "n_instances": self.bags.sizes}
        column: Any = 0
        if label is not None:
            if self.is_regressor:
                raise InputError(f"label={label!r} is for classifiers: a regressor has no labels.")
            column = check_label(label, self.classes)
            table["label"] = np.repeat(self.classes[[column]], len(self.bags))
        else:
            table["predicted"] = np.asarray(self.call("predict"))
            if not self.is_regressor:
                column = np.searchsorted(self.classes, table["predicted"])
        if label is None and self.keys and self.keys[0][1] < 0:
            keys = np.array([row for row, _ in self.keys]) - self.bags.offsets[:-1]
        else:
            keys = self.estimator.key_instances(self.seen, label=label)
        table["key_instance"] = keys
        if (scores := self.call("score_instances")) is not None:
            scores = scores[self.bags.offsets[:-1] + keys]
            own = scores if scores.ndim == 1 else scores[np.arange(len(scores)), column]
            table["key_score"] = own
        return table

    def contribution_tables(self) -> tuple[Columns, Columns]:
        """Collect the contributions of the instances to the number of their bag.

        For a regressor without scores of instances.

        Returns
        -------
        of_bags : dict of str to ndarray of shape (n_bags,)
            ``key_instance``, the instance with the largest contribution, and ``key_contribution``.
        of_instances : dict of str to ndarray of shape (n_instances,)
            ``bag``, ``row``, ``contribution`` and ``key``.
        """
        found, first = self.attributions(self.usual_method), self.bags.offsets[:-1]
        keys = loops.segments.argmax(found, self.bags.offsets)
        instances = self._rows() | {"contribution": found, "key": self._are_in(first + keys)}
        return {"key_instance": keys, "key_contribution": found[first + keys]}, instances

    def annotation_table(
        self,
        *,
        instance_labels: Sequence[Any] | None = None,
        background_above: float | None = None,
        probabilities: bool = False,
    ) -> Columns:
        """Collect the most probable label of each instance, given the label set of its bag.

        Parameters
        ----------
        instance_labels : sequence, default=None
            Known labels of instances, None if unknown.
        background_above : float, default=None
            As for `instance_table`.
        probabilities : bool, default=False
            Whether to add a column ``probability_<label>`` for each label.

        Returns
        -------
        dict of str to ndarray of shape (n_instances,)
            ``bag``, ``row``, ``label``, its ``probability``, ``runner_up`` (the most probable of
            the others), ``runner_up_probability`` and, for a model with background,
            ``background_probability``.
        """
        refuse_background_above(self.estimator, background_above)
        more = {} if instance_labels is None else {"instance_labels": instance_labels}
        posterior = self.model.annotate_proba(self.bags, self._y, **more)
        posterior = tempered(posterior, self.temperature)
        names, rows = self.label_names, np.arange(len(posterior))
        first = likeliest(posterior, len(self.classes), background_above)
        second, second_share = runner_up(posterior, first)
        table = self._rows() | {"label": names[first], "probability": posterior[rows, first]}
        table |= {"runner_up": names[second], "runner_up_probability": second_share}
        if self.background_name is not None:
            table["background_probability"] = posterior[:, -1]
        return table | (self._per_class("probability", posterior) if probabilities else {})

    def _rows(self) -> Columns:
        """The bag of each instance, and its position inside it."""
        bags = self.bags
        inside = np.arange(bags.n_instances) - bags.offsets[:-1][bags.bag_index]
        return {"bag": bags.names[bags.bag_index], "row": inside}

    def _are_in(self, rows: Any) -> Array:
        """Whether each instance is in a list of rows."""
        return np.isin(np.arange(self.bags.n_instances), rows)

    def _per_class(self, name: str, values: Array | None) -> Columns:
        if values is None or values.ndim == 1:
            return {} if values is None else {name: values}
        has_background = name == "probability" and values.shape[1] > len(self.classes)
        names = self.label_names if has_background else self.class_names
        return {f"{name}_{label}": values[:, k] for k, label in enumerate(names)}

    def _named(self, labels: Any) -> Array:
        return self.label_names[self.labels(labels, "instances").codes]


def label_columns(instances: Columns, separator: str) -> Columns:
    """The label of each instance of an instance table and its probability, of several the least."""
    labels = instances["predicted"]
    shares = np.ones(len(labels))
    for label in np.unique(labels).tolist():
        names = [label] if f"probability_{label}" in instances else label.split(separator)
        own = [instances[f"probability_{name}"] for name in names if name]
        shares = np.where(labels == label, np.min([shares, *own], axis=0), shares)
    return {"label": labels, "probability": shares}


def refuse_background_above(model: Any, background_above: float | None) -> None:
    """Reject a background threshold if the model has no background."""
    if background_above is not None and getattr(model, "background_label_", None) is None:
        raise InputError("background_above= needs a model with background: background=True.")


def check_background(proba: Array, n_labels: int, truth: Bools) -> tuple[float, dict[str, Any]]:
    """Count right and false labels of checked instances by the threshold of background.

    Parameters
    ----------
    proba : ndarray of shape (n_checked, n_labels + 1)
        Probabilities of the labels and, last, of background.
    n_labels : int
        The number of labels.
    truth : ndarray of bool of shape (n_checked, n_labels + 1)
        Which labels an instance has, several perhaps; the last is background.

    Returns
    -------
    threshold : float
        The one with the most right labels, background included; the middle one of several.
    table : dict of str to ndarray
        Per threshold: the numbers of instances that get a label, rightly (``right``) and not
        (``false``), of those whose label is ``missed``, and the share of all that are right.
    """
    shares = np.unique(np.append(proba[:, -1], [0.0, 1.0]))
    limits = (shares[1:] + shares[:-1]) / 2
    rows = []
    for limit in limits:
        codes = likeliest(proba, n_labels, limit)
        named, right = codes < n_labels, truth[np.arange(len(codes)), codes]
        several = named & right, named & ~right, ~truth[:, -1] & ~right
        rows.append([limit, *map(np.sum, several), right.mean()])
    counts = np.array(rows)
    best = np.flatnonzero(counts[:, 4] == counts[:, 4].max())
    chosen = int(best[len(best) // 2])
    shown = np.unique([chosen, *np.linspace(0, len(limits) - 1, 9).astype(int)])
    heads = ("background above", "right", "false", "missed", "accuracy")
    return float(limits[chosen]), dict(zip(heads, counts[shown].T.round(6), strict=True))


def fit_temperature(proba: Array, truth: Bools) -> float:
    """Find T, for which probabilities in proportion to p^(1 / T) are calibrated (Guo et al. 2017).

    Parameters
    ----------
    proba : ndarray of shape (n_checked, n_labels)
        Probabilities of the labels of checked instances.
    truth : ndarray of bool of shape (n_checked, n_labels)
        Which of them an instance has. One without a label that is possible says nothing of T.

    Returns
    -------
    float
        T of the largest posterior probability; log T has a standard normal prior, as if T = 1 had
        been seen in a few instances.
    """
    possible = (truth & (proba > 0)).any(axis=1)
    with np.errstate(divide="ignore"):
        log_p, own = np.log(proba[possible]), np.log(truth[possible])

    def loss(log_t: float) -> float:
        scaled = log_p / np.exp(log_t)
        return log_t**2 / 2 + (logsumexp(scaled, axis=1) - logsumexp(scaled + own, axis=1)).sum()

    return float(np.exp(minimize_scalar(loss, bounds=(-3, 3), method="bounded").x))


def tempered(proba: Array, temperature: float | None) -> Array:
    """Probabilities in proportion to p^(1 / T); zeros stay, and so does the order of labels."""
    if temperature is None:
        return proba
    powers = (proba / proba.max(axis=1, keepdims=True)) ** (1 / temperature)
    return powers / powers.sum(axis=1, keepdims=True)


def likeliest(proba: Array, n_labels: int, background_above: float | None = None) -> Ints:
    """The column of the label of each row; background, the last column, by its threshold."""
    if background_above is None or proba.shape[1] == n_labels:
        return proba.argmax(axis=1)
    labels = proba[:, :n_labels]
    unnamed = (proba[:, -1] > background_above) | ~labels.any(axis=1)
    return np.where(unnamed, n_labels, labels.argmax(axis=1))


def runner_up(proba: Array, first: Ints) -> tuple[Ints, Floats]:
    """The most probable column of each row besides the first one, and its probability."""
    rows, others = np.arange(len(proba)), proba.copy()
    others[rows, first] = -1.0
    second = others.argmax(axis=1) if proba.shape[1] > 1 else first
    return second, np.maximum(others[rows, second], 0.0)
