"""The evaluation section of a report: predictions compared with labels, or with numbers."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.calibration import calibration_curve
from sklearn.metrics import (
    average_precision_score,
    classification_report,
    roc_curve,
)

from bagwise._common.types import Array, Bools, Floats
from bagwise.displays._base import DOTS, plain_legend
from bagwise.exceptions import InputError, LabelError
from bagwise.labels import Labels
from bagwise.model_selection import HeldOut
from bagwise.model_selection._measures import (
    area_under_roc,
    label_measures,
    label_set_measures,
    number_measures,
)
from bagwise.predictions import Predictions
from bagwise.report._page import Figure, Section, Table
from bagwise.report._plots import axes, link_points

MOST_CLASSES = 16  # of a confusion matrix
MOST_CURVES = 12
MOST_ROWS = 60
MOST_ERRORS = 15  # bags that are listed


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
    if subject.is_regressor:
        parts = _of_numbers(subject, known, rows, found, others)
    else:
        parts = _of_labels(subject, known, rows, found, others)
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
    optimistic = (
        f"these {what} are optimistic: they are measured on the training data. Use {unit}s it was "
        "not fitted on, or cross-validate (bagwise report --folds 5; held_out= in Python)."
    )
    if seen is None:
        return known, f"If the model was fitted on these {unit}s, {optimistic}"
    new, labelled = known & ~seen, "labelled " if what == "metrics" else ""
    if not new.any():
        return known, f"The model was fitted on these {unit}s, so {optimistic}"
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
    value, sign = own.get(decisive), -1 if decisive == "MAE" else 1
    return [Table(table, caption)] + [
        f"The model is not better than the {name.replace(':', '')}: {called} {value:.3f} against "
        f"{row[decisive]:.3f}."
        for name, row in measures.items()
        if name != "this model" and value is not None and row.get(decisive) is not None
        if sign * row[decisive] >= sign * value
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
            return {} if self.scores is None else {**label_set_measures(self.truth, self.scores)}
        areas = list(self.per_label(area_under_roc).values())
        area = float(np.mean(areas)) if areas else None
        return label_measures(self.truth, self.predicted) | {"AUC": area}


def _of_labels(
    subject: Predictions, known: Labels, rows: Bools, found: HeldOut, others: dict[str, HeldOut]
) -> list[Any]:
    unit, has_sets = subject.unit, known.has_sets
    assessed = _assess(subject, known, rows, found)
    measures: dict[str, Mapping[str, Any]] = {"this model": assessed.measures()}
    if others:
        for name, other in others.items():
            measures[name] = _assess(subject, known, rows, other).measures()
    elif has_sets:  # a baseline without features: labels by frequency, or the most common one
        shares = np.tile(np.mean(assessed.truth == 1, axis=0), (len(assessed.truth), 1))
        plain = replace(assessed, scores=shares)
        measures["baseline: labels by frequency"] = plain.measures()
    else:
        commonest = np.full(len(assessed.truth), np.bincount(assessed.truth).argmax())
        measures["baseline: most common label"] = label_measures(assessed.truth, commonest)
    caption = f"{len(assessed.truth):,} labelled {unit}s; higher is better"
    if has_sets:
        caption = "One-error and coverage are better when lower, average precision when higher"
    own = {name for name, value in measures["this model"].items() if value is not None}
    order = ("AUC", "average precision", "accuracy")
    decisive = next((name for name in order if name in own), "")
    tables = [] if has_sets else [_confusions(assessed, unit)]
    tables.append(_label_table(assessed, unit))
    drawings = [d for d in (_roc(assessed), _calibration(assessed)) if d is not None]
    parts = _comparison(measures, caption, decisive if others else "", decisive)
    return [*parts, tables, *([drawings] if drawings else [])]


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


def _confusions(assessed: _Assessment, unit: str) -> Table:
    """The confusion matrix; for many classes, the most frequent errors."""
    known = assessed.predicted >= 0
    truth, predicted = assessed.truth[known], assessed.predicted[known]
    present = np.union1d(assessed.truth, predicted)
    if len(present) > MOST_CLASSES:
        pairs = np.column_stack([truth, predicted])[truth != predicted]
        found, counts = np.unique(pairs, axis=0, return_counts=True)
        order = np.argsort(-counts, kind="stable")[:15]
        names = np.array(assessed.names, dtype=object)[found[order]].T.tolist()
        columns = dict(
            zip(("label", "predicted", f"{unit}s"), [*names, counts[order].tolist()], strict=True)
        )
        return Table(columns, "The most frequent errors")
    matrix = np.zeros((len(present), len(present)), dtype=int)
    np.add.at(matrix, (np.searchsorted(present, truth), np.searchsorted(present, predicted)), 1)
    shares = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    table: dict[str, list[Any]] = {"label ↓ predicted →": [assessed.names[k] for k in present]}
    for k, column in zip(present, matrix.T, strict=True):
        heading = assessed.names[k]
        while heading in table:  # a label may have the name of another column
            heading += " "
        table[heading] = column.tolist()
    caption = f"Confusion matrix: {unit}s by label and prediction"
    return Table(table, caption, shades=shares.tolist())


def _label_table(assessed: _Assessment, unit: str) -> Table:
    """Metrics of each label, most common first."""
    labels = range(len(assessed.names))
    found = classification_report(
        assessed.truth, assessed.predicted, labels=labels, target_names=[str(k) for k in labels],
        output_dict=True, zero_division=0,
    )  # fmt: skip
    present = [k for k in labels if found[str(k)]["support"]]
    order = sorted(present, key=lambda k: -found[str(k)]["support"])[:MOST_ROWS]
    columns: dict[str, list[Any]] = {"label": [assessed.names[k] for k in order]}
    columns[f"{unit}s"] = [int(found[str(k)]["support"]) for k in order]
    for name in ("precision", "recall", "F1"):
        columns[name] = [found[str(k)][name.replace("F1", "f1-score")] for k in order]
    if len(assessed.rankings) > (not assessed.has_sets):
        areas = assessed.per_label(area_under_roc)
        columns["AUC"] = [areas.get(k) for k in order]
    if assessed.has_sets and assessed.rankings:
        precisions = assessed.per_label(average_precision_score)
        columns["average precision"] = [precisions.get(k) for k in order]
    more = f": the {len(order)} most common of {len(present)}" if len(order) < len(present) else ""
    return Table(columns, f"Metrics of each label{more}")


def _roc(assessed: _Assessment) -> Figure | None:
    rankings = assessed.rankings
    if not rankings or len(rankings) > MOST_CURVES:
        return None  # unreadable: the table has the areas
    area = np.mean(list(assessed.per_label(area_under_roc).values()))
    ax = axes("false positive rate", "true positive rate", diagonal=True)
    for k, ranking in rankings.items():
        ax.plot(*roc_curve(*ranking)[:2], label=assessed.names[k])
    one = "of each label against the others"
    if len(rankings) == 1:
        one = f"of “{assessed.names[next(iter(rankings))]}”"
    else:
        plain_legend(ax, fontsize="small")
    caption = f"ROC curve {one}. Area {area:.3f}; the dashed line is random guessing."
    return Figure(ax.figure, f"ROC curve {one}, area under it {area:.3f}.", caption)


def _calibration(assessed: _Assessment) -> Figure | None:
    """Calibration: observed frequency against predicted probability, in ten bins."""
    proba, truth, names = assessed.proba, assessed.truth, assessed.names
    if proba is None or assessed.has_sets or not np.isfinite(proba).all():
        return None
    if proba.shape[1] == 2:
        chance, right = proba[:, 1], truth == 1
        ax = axes(f"probability of “{names[1]}”", f"share of “{names[1]}”", diagonal=True)
    else:
        chance, right = proba.max(axis=1), proba.argmax(axis=1) == truth
        ax = axes(
            "probability of the predicted label", "share of correct predictions", diagonal=True
        )
    observed, expected = calibration_curve(right, chance.clip(0, 1), n_bins=10)
    ax.plot(expected, observed, marker="o")
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
    measures = {}
    for name, values in ({"this model": predicted} | models).items():
        measures[name] = number_measures(truth[rows], values[rows])
        measures[name]["RMSE"] = float(np.sqrt(np.mean((truth - values)[rows] ** 2)))
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
    shown = "Each point is a bag; on the line predicted and observed are equal."
    worst = bags[np.argsort(-np.abs(truth - predicted)[bags], kind="stable")[:MOST_ERRORS]]
    errors = {
        "bag": [subject.bag_names[i] for i in worst],
        "observed": truth[worst].tolist(),
        "predicted": predicted[worst].tolist(),
        "error": (predicted - truth)[worst].tolist(),
    }
    table = Table(errors, "The largest errors", bags=worst.tolist())
    parts = _comparison(measures, caption, "MAE", "mean absolute error")
    return [*parts, [Figure(ax.figure, alt, shown, titles), table]]
