"""The evaluation section of a report: predictions compared with labels, or with numbers."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.metrics import average_precision_score, confusion_matrix, root_mean_squared_error

from bagwise._common.types import Array, Bools, Floats, Ints
from bagwise.base._pipelines import grade_order
from bagwise.displays import CurveDisplay
from bagwise.displays._base import DOTS, plain_legend
from bagwise.evaluate import HeldOut, _measures
from bagwise.exceptions import InputError, LabelError
from bagwise.labels import Intervals, Labels, is_known
from bagwise.predictions import Predictions
from bagwise.report._page import Figure, Section, Table, axes, link_points
from bagwise.solvers.survival import kaplan_meier, log_rank

MOST_CLASSES = 16  # of a confusion matrix
MOST_CURVES = 12
MOST_ROWS = 60
PRECISION = average_precision_score, "Precision-recall curve", "Average precision"
_IN_FOLDS = " AUC, C index and Spearman are means of the folds; curves are of all folds together."
# The first of them compares models.
DECISIVE = ("quadratic kappa", "AUC", "average precision", "accuracy", "C index", "MAE")


def evaluation_section(
    subject: Predictions, held_out: HeldOut | None, seen: Bools | None
) -> Section | None:
    """Compare predictions with known labels or numbers.

    Parameters
    ----------
    subject : Predictions
        The model, the bags, their labels and the predictions.
    held_out : HeldOut or None
        Predictions by models that were not fitted on the bags; the metrics are then of these.
    seen : ndarray of bool of shape (n_bags,) or None
        Which bags the model was fitted on, if that is known.

    Returns
    -------
    Section or None
    """
    kinds = (subject.known_times, subject.known_intervals, subject.known_numbers, subject.known)
    known: Any = next((each for each in kinds if each is not None), None)
    if known is None or (subject.predicted is None and not subject.is_regressor):
        return None
    predicted, scores, proba = map(subject.call, _measures.METHODS)
    found = held_out or HeldOut(predicted, scores, proba, classes=subject.classes)
    models = {"this model": found}
    models |= {f"baseline: {name}": other for name, other in found.baselines.items()}
    fold, n_bags = found.fold, len(subject.bags)
    for n in (len(each.predicted) for each in models.values()):
        if n != n_bags:
            raise InputError(f"{n} held-out predictions for {n_bags} bags: give one each.")
    assess = is_known(known) if subject.is_regressor else known.known
    if not assess.any():
        return None
    rows, how = _fair(assess, seen, held_out, subject.unit)
    compare = _of_numbers if subject.is_regressor else _of_labels
    compare = compare if subject.known_times is None else _of_times
    parts = compare(subject, known, rows, models, np.zeros(n_bags) if fold is None else fold)
    return Section("Evaluation", how, *parts) if parts else None


def _fair(
    known: Bools, seen: Bools | None, held_out: HeldOut | None, unit: str
) -> tuple[Bools, str]:
    """The bags on which metrics are computed, and a sentence about their bias."""
    if held_out is not None:
        how = f"Metrics by {held_out.how}: the model that predicted a {unit} was not fitted on it."
        return known, how + ("" if held_out.fold is None else _IN_FOLDS)
    new = known if seen is None else known & ~seen
    if seen is None or not new.any():
        start, end = ("If the", ",") if seen is None else ("The", ", so")
        return known, (
            f"{start} model was fitted on these {unit}s{end} these metrics are optimistic: they "
            f"are measured on the training data. Use {unit}s it was not fitted on, or "
            "cross-validate (bagwise report --folds 5; held_out= in Python)."
        )
    if not seen.any():
        return known, f"The model was not fitted on any of these {unit}s."
    return new, (
        f"Metrics are computed on the {int(new.sum()):,} labelled {unit}s that the model was not "
        f"fitted on; {int(seen.sum()):,} others are training data."
    )


def _comparison(measures: Mapping[str, Mapping[str, Any]], caption: str) -> list[Any]:
    """A table of the metrics of each model, and a sentence for each baseline that is as good."""
    own = measures["this model"]
    table: dict[str, list[Any]] = {"model": list(measures)}
    table |= {name: [row.get(name) for row in measures.values()] for name in own}
    parts: list[Any] = [Table(table, caption)]
    decisive = next((name for name in DECISIVE if np.isfinite(own.get(name, np.nan))), None)
    if decisive is None:
        return parts
    sign = -1 if decisive in _measures.LOWER_IS_BETTER else 1
    rivals = {name: row[decisive] for name, row in measures.items() if name != "this model"}
    return parts + [
        f"The model is not better than the {name.replace(':', '')}: {decisive} "
        f"{own[decisive]:.3f} against {value:.3f}."
        for name, value in rivals.items()
        if sign * value >= sign * own[decisive]
    ]


@dataclass(frozen=True)
class _Assessment:
    """True labels and predictions of the bags whose label is known, a column for each label.

    Attributes
    ----------
    truth, predicted : 0/1 arrays of shape (n_bags, n_names)
        The labels of each bag; none if there is no prediction. A true label is -1 if it is unknown.
    scores : ndarray of shape (n_bags, n_names) or None
        Minus infinity for labels without a score: those unknown to the model, and the first of two
        classes.
    proba : ndarray of shape (n_bags, n_names) or None
        Probabilities.
    names : list of str
        The labels.
    has_sets : bool
        Whether a bag may have several labels, or none.
    order : list of int or None
        The labels as grades, lowest first.
    """

    truth: Array
    predicted: Array
    scores: Array | None
    proba: Array | None
    names: list[str]
    has_sets: bool
    order: list[int] | None = None

    @property
    def codes(self) -> tuple[Ints, Ints]:
        """The true and the predicted label of each bag, -1 if there is no prediction."""
        has_label = self.predicted.any(axis=1)
        return self.truth.argmax(axis=1), np.where(has_label, self.predicted.argmax(axis=1), -1)

    def per_label(self, measure: Any) -> dict[int, Any]:
        """A function of the bags with a label and their scores, for each label that ranks bags."""
        if self.scores is None:
            return {}
        pairs = enumerate(self.known_column(k, self.scores) for k in range(len(self.names)))
        return {
            k: measure(own, score)
            for k, (own, score) in pairs
            if 0 < own.sum() < len(own) and np.isfinite(score).all()
        }

    def known_column(self, k: int, values: Any) -> tuple[Bools, Any]:
        """Whether bags have a label, and their values of it, where that is known."""
        known = self.truth[:, k] >= 0
        return self.truth[known, k] == 1, values[known, k]

    def measures(self, fold: Array) -> dict[str, float]:
        """The metrics of one model."""
        if self.has_sets:
            scores = self.scores
            return {} if scores is None else {**_measures.label_set_measures(self.truth, scores)}
        measures = {**_measures.label_measures(*self.codes), "AUC": np.nan}
        if self.scores is not None:
            measures |= _measures.ranked_in_folds(_area, fold, self.truth, self.scores)
        if self.order is None or (self.codes[1] < 0).any():
            return measures
        return _measures.grade_measures(*self.codes, self.order) | measures


def _area(truth: Array, scores: Array) -> dict[str, float]:
    each = [_measures.area_under_roc(a == 1, b) for a, b in zip(truth.T, scores.T, strict=True)]
    return {"AUC": float(_measures.mean_of_defined(each))}


def _of_labels(
    subject: Predictions, known: Labels, rows: Bools, models: Mapping[str, HeldOut], fold: Array
) -> list[Any]:
    found = {name: _assess(subject, known, rows, each) for name, each in models.items()}
    assessed, has_sets = found["this model"], known.has_sets
    if len(found) == 1:  # a baseline without features
        known_cells = np.ma.masked_less(assessed.truth, 0)
        scores = np.broadcast_to(known_cells.mean(axis=0).filled(0.0), assessed.truth.shape)
        predicted = np.eye(scores.shape[1], dtype=int)[scores.argmax(axis=1)]
        name = "labels by frequency" if has_sets else "most common label"
        found[f"baseline: {name}"] = replace(assessed, predicted=predicted, scores=scores)
    caption = f"{len(assessed.truth):,} labelled {subject.unit}s; higher is better"
    if has_sets:
        caption = "One-error and coverage are better when lower, average precision when higher"
        if (assessed.truth < 0).any():
            caption += "; labels that are unknown are left out"
    measures = {name: each.measures(fold[rows]) for name, each in found.items()}
    return [
        *_comparison(measures, caption),
        [_confusions(assessed, subject.unit), _label_table(assessed, subject.unit)],
        [
            _ranked(assessed, "roc", _measures.area_under_roc, "ROC curve", "Area"),
            _ranked(assessed, "precision-recall", *PRECISION),
        ],
        _calibration(assessed),
    ]


def _assess(subject: Predictions, known: Labels, rows: Bools, found: HeldOut) -> _Assessment:
    """Reorder predictions by the known labels."""
    predicted = subject.labels(found.predicted)
    if known.has_sets and not predicted.has_sets:
        raise LabelError("the model predicts one label per bag; y has label sets: leave them out.")
    scores, proba = found.scores, found.probabilities
    if scores is None and proba is not None:
        scores = proba[:, 1] if proba.shape[1] == 2 and not predicted.has_sets else proba
    own = np.asarray(subject.classes if found.classes is None else found.classes).tolist()
    order = grade_order(subject.model, known.classes.tolist())
    return _Assessment(
        known.indicator[rows],
        indicator_of(predicted, known)[rows].clip(0),
        _by_label(scores, own, known, -np.inf, rows),
        _by_label(proba, own, known, 0.0, rows),
        known.names,
        predicted.has_sets,
        None if order is None else [*map(known.classes.tolist().index, order)],
    )


def _by_label(
    values: Any, own: list[Any], known: Labels, fill: float, rows: Bools
) -> Floats | None:
    """A column per known label from those of the model; a single column is for its last class.

    None if the columns do not represent classes but, for example, pairs of classes.
    """
    if values is None or np.size(values) not in (len(values), len(values) * len(own)):
        return None
    columns = np.reshape(values, (len(values), -1))[rows]
    places = {label: k for k, label in enumerate(known.classes.tolist())}
    # The last column is for labels that are not known.
    table = np.full((len(columns), len(places) + 1), fill)
    table[:, [places.get(label, -1) for label in own[-columns.shape[1] :]]] = columns
    return table[:, :-1]


def indicator_of(predicted: Labels, known: Labels) -> Array:
    """Predictions as an array with a column per known label, some unknown to the model."""
    more = len(known.classes) - len(predicted.classes)
    return np.pad(predicted.indicator, ((0, 0), (0, more)))


def _confusions(assessed: _Assessment, unit: str) -> Table | None:
    """The confusion matrix of several classes, if it is not too large to read; not of sets."""
    codes, predicted = assessed.codes
    present = np.union1d(codes, predicted[predicted >= 0])
    if assessed.has_sets or not 1 < len(present) <= MOST_CLASSES:
        return None
    matrix = confusion_matrix(codes, predicted, labels=present)
    shares = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    names = [assessed.names[k] for k in present]
    table = {"label ↓ predicted →": names, **dict(zip(names, matrix.T.tolist(), strict=True))}
    caption = f"Confusion matrix: {unit}s by label and prediction"
    return Table(table, caption, shades=shares.tolist())


def _label_table(assessed: _Assessment, unit: str) -> Table:
    """Metrics of each label, most common first."""
    truth, predicted = assessed.truth == 1, (assessed.truth >= 0) & (assessed.predicted == 1)
    counts, named, hits = (each.sum(axis=0) for each in (truth, predicted, truth & predicted))
    columns: dict[str, Any] = {
        "label": np.array(assessed.names, dtype=object),
        f"{unit}s": counts,
        "precision": hits / np.maximum(named, 1),
        "recall": hits / np.maximum(counts, 1),
        "F1": 2 * hits / np.maximum(counts + named, 1),
    }
    measures = {"AUC": _measures.area_under_roc, "average precision": average_precision_score}
    for name in list(measures)[: 1 + assessed.has_sets]:
        if len(values := assessed.per_label(measures[name])) > 1:
            columns[name] = np.array([values.get(k, np.nan) for k in range(len(counts))])
    order = np.argsort(-counts, kind="stable")[: min((counts > 0).sum(), MOST_ROWS)]
    more = ": the most common" if len(order) < (counts > 0).sum() else ""
    shown = {name: column[order].tolist() for name, column in columns.items()}
    return Table(shown, f"Metrics of each label{more}")


def _ranked(assessed: _Assessment, kind: str, measure: Any, title: str, name: str) -> Figure | None:
    """The curve of the ranking of bags by each label."""
    found = assessed.per_label(measure)
    if not 0 < len(found) <= MOST_CURVES:
        return None  # unreadable: the table has the areas
    labels = ", ".join(f"“{assessed.names[k]}”" for k in found)
    text = f"{title} of {labels}. {name} {np.mean(list(found.values())):.3f}."
    return Figure(_drawn(assessed, found, assessed.scores, kind), text, text)


def _calibration(assessed: _Assessment) -> Figure | None:
    """Calibration: observed frequency against predicted probability of each label."""
    proba = assessed.proba
    if proba is None or assessed.has_sets or not np.isfinite(proba).all():
        return None
    several = range(len(assessed.names) == 2, min(len(assessed.names), MOST_CURVES))
    chance, right = proba.max(axis=1).clip(0, 1), proba.argmax(axis=1) == assessed.codes[0]
    brier = f"Brier score {np.mean((chance - right) ** 2):.3f}"
    caption = f"Calibration: on the dashed line predicted and observed frequencies agree. {brier}."
    figure = _drawn(assessed, several, proba, "calibration")
    return Figure(figure, f"Calibration curve, {brier}.", caption)


def _drawn(assessed: _Assessment, labels: Iterable[int], values: Any, kind: str) -> Any:
    """The figure with the curves of some labels."""
    rows = [(assessed.names[k], *assessed.known_column(k, values)) for k in labels]
    ax = axes("", "")
    CurveDisplay.from_predictions(rows, kind=kind, ax=ax)
    return ax.figure


def as_numbers(values: Array) -> Floats:
    """Held-out predictions as numbers, NaN if there is none."""
    return np.array([np.nan if v is None else float(v) for v in np.asarray(values).tolist()])


def _of_numbers(
    subject: Predictions, truth: Any, rows: Bools, models: Mapping[str, HeldOut], fold: Array
) -> list[Any]:
    predicted = {name: as_numbers(each.predicted) for name, each in models.items()}
    own = predicted["this model"]
    bags = np.flatnonzero(rows & np.isfinite(own))
    if not len(bags):
        return []
    known = truth if isinstance(truth, Intervals) else Intervals(truth, truth)
    at = np.where(np.isfinite(known.lower), known.lower, known.upper)  # where a bag is drawn
    if len(predicted) == 1:
        predicted["baseline: mean"] = np.full(len(at), at[bags].mean())
    measures = {
        name: _measures.ranked_in_folds(_errors, fold[bags], truth[bags], values[bags])
        for name, values in predicted.items()
    }
    caption = f"{len(bags):,} bags; MAE and RMSE are better when lower, the others when higher"
    ax = axes("observed", "predicted", diagonal=True)
    link_points(ax.scatter(at[bags], own[bags], c=[DOTS] * len(bags), s=16), bags.tolist())
    titles = [f"{subject.bag_names[i]}: {known.texts[i]}, predicted {own[i]:.4g}" for i in bags]
    alt = f"Predicted against observed numbers of {len(bags):,} bags."
    shown = "Each point is a bag, which it opens; on the line predicted and observed are equal."
    for marker, ends in {"<": np.isinf(known.lower), ">": np.isinf(known.upper)}.items():
        if (there := rows & ends & np.isfinite(own)).any():
            ax.plot(at[there], own[there], marker, color=DOTS)
            shown += f" The number of a bag with “{marker}” is beyond this bound."
    return [*_comparison(measures, caption), Figure(ax.figure, alt, shown, titles)]


def _of_times(
    subject: Predictions, truth: Array, rows: Bools, models: Mapping[str, HeldOut], fold: Array
) -> list[Any]:
    """Concordance, and the curves of Kaplan and Meier of thirds of the bags by risk."""
    predicted = {name: as_numbers(each.predicted) for name, each in models.items()}
    bags = np.flatnonzero(rows & np.isfinite(predicted["this model"]))
    known = truth[bags]
    measure = partial(_measures.time_measures, whole=known)
    measures = {
        name: _measures.ranked_in_folds(measure, fold[bags], known, values[bags])
        for name, values in predicted.items()
    }
    parts = _comparison(measures, f"{len(bags):,} bags; higher is better")
    risk = predicted["this model"][bags]
    third = np.searchsorted(np.quantile(risk, [1 / 3, 2 / 3]), risk)
    ax = axes("time", "share of bags without the event")
    for k, name in enumerate(("lowest", "middle", "highest")):
        own = known[third == k]
        if len(own):
            times, shares = kaplan_meier(own["event"], own["time"])
            label = f"{name} risk: {len(own)} bags, {own['event'].sum()} events"
            ax.step([0, *times], [1, *shares], where="post", label=label)
    plain_legend(ax, fontsize="small")
    text = "Kaplan-Meier curves of thirds of the bags by predicted risk"
    if known["event"].any() and len(np.unique(third)) > 1:
        p_value = log_rank(known["event"], known["time"], third)
        text += f"; log-rank test that they are equal: p = {p_value:.2g}"
    return [*parts, Figure(ax.figure, f"{text}.", f"{text}.")]


def _errors(truth: Any, predicted: Floats) -> dict[str, float]:
    """The metrics of predicted numbers."""
    if isinstance(truth, Intervals):
        return _measures.interval_measures(truth, predicted)
    found = _measures.number_measures(truth, predicted)
    return found | {"RMSE": float(root_mean_squared_error(truth, predicted))}
