"""The evaluation section of a report: predictions compared with labels, or with numbers."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.calibration import calibration_curve
from sklearn.metrics import (
    average_precision_score,
    confusion_matrix,
    precision_recall_fscore_support,
    roc_curve,
    root_mean_squared_error,
)

from bagwise._common.types import Array, Bools, Floats
from bagwise.displays._base import DOTS, plain_legend
from bagwise.evaluate import HeldOut
from bagwise.evaluate._measures import (
    LOWER_IS_BETTER,
    area_under_roc,
    label_measures,
    label_set_measures,
    number_measures,
)
from bagwise.exceptions import InputError, LabelError
from bagwise.labels import Labels
from bagwise.predictions import Predictions
from bagwise.report._page import Figure, Section, Table
from bagwise.report._plots import axes, link_points

MOST_CLASSES = 16  # of a confusion matrix
MOST_CURVES = 12
MOST_ROWS = 60


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
    found = held_out or HeldOut(
        subject.call("predict"),
        subject.call("decision_function"),
        subject.call("predict_proba"),
        classes=subject.classes,
    )
    known: Any = subject.known_numbers if subject.is_regressor else subject.known
    if known is None or (subject.predicted is None and not subject.is_regressor):
        return None
    assess = np.isfinite(known) if subject.is_regressor else known.known
    others = {f"baseline: {name}": other for name, other in found.baselines.items()}
    for each in (found, *others.values()):
        if len(each.predicted) != len(subject.bags):
            raise InputError(
                f"{len(each.predicted)} held-out predictions were given for {len(subject.bags)} "
                "bags: give one each."
            )
    what = "errors" if subject.is_regressor else "metrics"
    rows, how = _fair(assess, seen, held_out, subject.unit, what)
    compare = _of_numbers if subject.is_regressor else _of_labels
    parts = compare(subject, known, rows, found, others)
    return Section("Evaluation", how, *parts) if parts else None


def _fair(
    known: Bools, seen: Bools | None, held_out: HeldOut | None, unit: str, what: str
) -> tuple[Bools, str]:
    """The bags on which metrics are computed, and a sentence about their bias."""
    if held_out is not None:
        return known, (
            f"{what.capitalize()} by {held_out.how}: each {unit} was predicted by a model that was "
            "not fitted on it."
        )
    if seen is None or not (known & ~seen).any():
        how = "If the model" if seen is None else "The model"
        return known, (
            f"{how} was fitted on these {unit}s, {'' if seen is None else 'so '}these {what} are "
            f"optimistic: they are measured on the training data. Use {unit}s it was not fitted "
            "on, or cross-validate (bagwise report --folds 5; held_out= in Python)."
        )
    new, labelled = known & ~seen, "labelled " if what == "metrics" else ""
    if not seen.any():
        return known, f"The model was not fitted on any of these {unit}s."
    return new, (
        f"{what.capitalize()} are computed on the {int(new.sum()):,} {labelled}{unit}s that the "
        f"model was not fitted on; {int(seen.sum()):,} others are training data."
    )


def _comparison(
    measures: Mapping[str, Mapping[str, Any]], caption: str, decisive: str, called: str
) -> list[Any]:
    """A table of the metrics of each model, and a sentence for each baseline that is as good."""
    own = measures["this model"]
    table: dict[str, list[Any]] = {"model": list(measures)}
    table |= {name: [row.get(name) for row in measures.values()] for name in own}
    value, sign = own.get(decisive), -1 if decisive in LOWER_IS_BETTER else 1
    rivals = {name: row.get(decisive) for name, row in measures.items() if name != "this model"}
    return [Table(table, caption)] + [
        f"The model is not better than the {name.replace(':', '')}: {called} {value:.3f} against "
        f"{other:.3f}."
        for name, other in rivals.items()
        if value is not None and other is not None and sign * other >= sign * value
    ]


@dataclass(frozen=True)
class _Assessment:
    """True labels and predictions of the bags whose label is known.

    Attributes
    ----------
    truth, predicted : ndarray of shape (n_bags,) or (n_bags, n_names)
        Indices into `names`, or label sets as 0/1 arrays; -1 for no prediction.
    scores : ndarray of shape (n_bags, n_names) or None
        A score per label, minus infinity for labels without a score: those unknown to the model,
        and the first of two classes.
    proba : ndarray of shape (n_bags, n_names) or None
        Probabilities.
    names : list of str
        The labels.
    """

    truth: Array
    predicted: Array
    scores: Array | None
    proba: Array | None
    names: list[str]

    @property
    def has_sets(self) -> bool:
        """Whether bags have label sets."""
        return self.truth.ndim == 2

    @property
    def rankings(self) -> dict[int, tuple[Bools, Array]]:
        """For each label with scores: which bags have it (not all, and not none), their scores."""
        if self.scores is None:
            return {}
        carries = self.truth == (1 if self.has_sets else np.arange(len(self.names))[:, None])
        pairs = enumerate(zip(carries.T if self.has_sets else carries, self.scores.T, strict=True))
        return {
            k: (own, score)
            for k, (own, score) in pairs
            if 0 < own.sum() < len(own) and np.isfinite(score).all()
        }

    def per_label(self, measure: Any) -> dict[int, float]:
        """A measure of the ranking of the bags for each label."""
        return {k: float(measure(*ranking)) for k, ranking in self.rankings.items()}

    def measures(self) -> dict[str, float | None]:
        """The metrics of one model."""
        if self.has_sets:
            return {} if self.scores is None else dict(label_set_measures(self.truth, self.scores))
        areas = list(self.per_label(area_under_roc).values())
        area = float(np.mean(areas)) if areas else None
        return label_measures(self.truth, self.predicted) | {"AUC": area}


def _of_labels(
    subject: Predictions, known: Labels, rows: Bools, found: HeldOut, others: dict[str, HeldOut]
) -> list[Any]:
    unit, has_sets = subject.unit, known.has_sets
    assessed = _assess(subject, known, rows, found)
    measures = {"this model": assessed.measures()}
    for name, other in others.items():
        measures[name] = _assess(subject, known, rows, other).measures()
    if not others and has_sets:  # baselines without features
        shares = np.tile(np.mean(assessed.truth == 1, axis=0), (len(assessed.truth), 1))
        measures["baseline: labels by frequency"] = replace(assessed, scores=shares).measures()
    elif not others:
        commonest = np.full(len(assessed.truth), np.bincount(assessed.truth).argmax())
        plain = replace(assessed, predicted=commonest, scores=None)
        measures["baseline: most common label"] = plain.measures()
    caption = f"{len(assessed.truth):,} labelled {unit}s; higher is better"
    if has_sets:
        caption = "One-error and coverage are better when lower, average precision when higher"
    own = {name for name, value in measures["this model"].items() if value is not None}
    order = ("AUC", "average precision", "accuracy")
    decisive = next((name for name in order if name in own), "")
    tables = [None if has_sets else _confusions(assessed, unit), _label_table(assessed, unit)]
    drawn = [_roc(assessed), _calibration(assessed)]
    beside = [[part for part in parts if part is not None] for parts in (tables, drawn)]
    texts = _comparison(measures, caption, decisive if others else "", decisive)
    return [*texts, *filter(None, beside)]


def _assess(subject: Predictions, known: Labels, rows: Bools, found: HeldOut) -> _Assessment:
    """Reorder predictions by the known labels."""
    predicted = subject.labels(found.predicted)
    if known.has_sets and not predicted.has_sets:
        raise LabelError(
            "the model predicts one label per bag, and y holds label sets: give one label per "
            "bag, or none."
        )
    has_sets, scores, proba = predicted.has_sets, found.scores, found.probabilities
    own = np.asarray(subject.classes if found.classes is None else found.classes).tolist()
    if scores is None and proba is not None:
        scores = proba[:, 1] if proba.shape[1] == 2 and not has_sets else proba

    def by_label(values: Any, fill: float) -> Any:
        """A column per known label; a single column is for the last class.

        None if the columns do not represent classes but, for example, pairs of classes.
        """
        if values is None:
            return None
        values = np.asarray(values).reshape(len(values), -1)[rows]
        if values.shape[1] not in (1, len(own)):
            return None
        table = np.full((len(values), len(known.names)), fill, np.result_type(values, fill))
        places = {label: k for k, label in enumerate(known.classes.tolist())}
        for label, column in zip(own[-values.shape[1] :], values.T, strict=False):
            if label in places:
                table[:, places[label]] = column
        return table

    return _Assessment(
        (known.indicator if has_sets else known.codes)[rows],
        by_label(predicted.indicator, 0) if has_sets else predicted.codes[rows],
        by_label(scores, -np.inf),
        by_label(proba, 0.0),
        known.names,
    )


def _confusions(assessed: _Assessment, unit: str) -> Table | None:
    """The confusion matrix of several classes, if it is not too large to read."""
    known = assessed.predicted >= 0
    truth, predicted = assessed.truth[known], assessed.predicted[known]
    present = np.union1d(assessed.truth, predicted)
    if not 1 < len(present) <= MOST_CLASSES:
        return None
    matrix = confusion_matrix(truth, predicted, labels=present)
    shares = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    names = [assessed.names[k] for k in present]
    # Two labels may have one name; a page shows no spaces at the end.
    headings = [name + " " * (1 + names[:k].count(name)) for k, name in enumerate(names)]
    table = {"label ↓ predicted →": names, **dict(zip(headings, matrix.T.tolist(), strict=True))}
    caption = f"Confusion matrix: {unit}s by label and prediction"
    return Table(table, caption, shades=shares.tolist())


def _label_table(assessed: _Assessment, unit: str) -> Table:
    """Metrics of each label, most common first."""
    *found, counts = precision_recall_fscore_support(
        assessed.truth, assessed.predicted, labels=range(len(assessed.names)), zero_division=0
    )
    order = np.argsort(-counts, kind="stable")[: min((counts > 0).sum(), MOST_ROWS)]
    columns: dict[str, list[Any]] = {"label": [assessed.names[k] for k in order]}
    columns[f"{unit}s"] = counts[order].tolist()
    for name, values in zip(("precision", "recall", "F1"), found, strict=True):
        columns[name] = values[order].tolist()
    if len(assessed.rankings) > (not assessed.has_sets):
        measures = {"AUC": area_under_roc}
        if assessed.has_sets:
            measures["average precision"] = average_precision_score
        for name, measure in measures.items():
            values = assessed.per_label(measure)
            columns[name] = [values.get(k) for k in order]
    more = ": the most common" if len(order) < (counts > 0).sum() else ""
    return Table(columns, f"Metrics of each label{more}")


def _roc(assessed: _Assessment) -> Figure | None:
    rankings = assessed.rankings
    if not rankings or len(rankings) > MOST_CURVES:
        return None  # unreadable: the table has the areas
    area = np.mean(list(assessed.per_label(area_under_roc).values()))
    ax = axes("false positive rate", "true positive rate", diagonal=True)
    for k, ranking in rankings.items():
        ax.plot(*roc_curve(*ranking)[:2], label=assessed.names[k])
    plain_legend(ax, fontsize="small")
    text = f"ROC curve of {', '.join(f'“{assessed.names[k]}”' for k in rankings)}. Area {area:.3f}"
    return Figure(ax.figure, f"{text}.", f"{text}; the dashed line is random guessing.")


def _calibration(assessed: _Assessment) -> Figure | None:
    """Calibration: observed frequency against predicted probability, in ten bins."""
    proba = assessed.proba
    if proba is None or assessed.has_sets or not np.isfinite(proba).all():
        return None
    chance, right = proba.max(axis=1).clip(0, 1), proba.argmax(axis=1) == assessed.truth
    ax = axes("probability of the predicted label", "share of correct predictions", diagonal=True)
    ax.plot(*calibration_curve(right, chance, n_bins=10)[::-1], marker="o")
    brier = f"Brier score {np.mean((chance - right) ** 2):.3f}"
    caption = f"Calibration: on the dashed line predicted and observed frequencies agree. {brier}."
    return Figure(ax.figure, f"Calibration curve, {brier}.", caption)


def as_numbers(values: Array) -> Floats:
    """Held-out predictions as numbers, NaN if there is none."""
    return np.array([np.nan if v is None else float(v) for v in np.asarray(values).tolist()])


def _of_numbers(
    subject: Predictions, truth: Floats, rows: Bools, found: HeldOut, others: dict[str, HeldOut]
) -> list[Any]:
    predicted = as_numbers(found.predicted)
    rows = rows & np.isfinite(predicted)
    if not rows.any():
        return []
    models = {name: as_numbers(other.predicted) for name, other in others.items()}
    models = models or {"baseline: mean": np.full(len(truth), truth[rows].mean())}
    measures = {
        name: number_measures(truth[rows], values[rows])
        | {"RMSE": float(root_mean_squared_error(truth[rows], values[rows]))}
        for name, values in {"this model": predicted, **models}.items()
    }
    caption = (
        f"{int(rows.sum()):,} bags; R2 and Spearman are better when higher, MAE and RMSE when lower"
    )
    bags = np.flatnonzero(rows)
    ax = axes("observed", "predicted", diagonal=True)
    link_points(ax.scatter(truth[bags], predicted[bags], c=[DOTS] * len(bags), s=16), bags.tolist())
    titles = [
        f"{subject.bag_names[i]}: observed {truth[i]:.4g}, predicted {predicted[i]:.4g}"
        for i in bags
    ]
    alt = f"Predicted against observed numbers of {len(bags):,} bags."
    shown = "Each point is a bag, which it opens; on the line predicted and observed are equal."
    parts = _comparison(measures, caption, "MAE", "mean absolute error")
    return [*parts, Figure(ax.figure, alt, shown, titles)]
