"""The evaluation section of a report: predictions compared with labels, or with numbers."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.calibration import calibration_curve
from sklearn.metrics import (
    average_precision_score,
    brier_score_loss,
    precision_recall_fscore_support,
    roc_curve,
)

from bagwise._common.types import Array, Bools, Floats
from bagwise.bags import Bags
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
from bagwise.report._plots import LineDisplay, PointDisplay

MOST_CLASSES = 16  # of a confusion matrix; for more, the most frequent errors are listed
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
    if subject.is_regressor:
        parts = _of_numbers(subject, held_out, seen)
    elif subject.known is None or subject.predicted is None:
        return None
    else:
        parts = _of_labels(subject, subject.known, subject.predicted, held_out, seen)
    return Section("Evaluation", *parts) if parts else None


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


def _not_better(own: float | None, others: Mapping[str, float | None], measure: str) -> list[str]:
    """A sentence for each baseline that the model does not beat; the larger value is better."""
    return [
        f"The model is not better than the {name.replace(':', '')}: {measure} {abs(own):.3f} "
        f"against {abs(rival):.3f}."
        for name, rival in others.items()
        if own is not None and rival is not None and rival >= own
    ]


# Labels -----------------------------------------------------------------------------------------


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
    predicted: Array | None
    scores: Array | None
    proba: Array | None
    names: list[str]

    @property
    def has_sets(self) -> bool:
        """Whether bags have label sets."""
        return self.truth.ndim == 2

    def ranking_of(self, k: int) -> tuple[Bools, Array] | None:
        """Which bags have a label, and their scores; None if all bags have it, or none."""
        if self.scores is None:
            return None
        carries = self.truth[:, k] == 1 if self.has_sets else self.truth == k
        score = self.scores[:, k]
        defined = 0 < carries.sum() < len(carries) and np.isfinite(score).all()
        return (carries, score) if defined else None

    def per_label(self, measure: Any, labels: Any) -> list[float | None]:
        """A measure of the ranking of the bags for each of these labels."""
        found = [self.ranking_of(k) for k in labels]
        return [None if ranking is None else float(measure(*ranking)) for ranking in found]

    def auc(self) -> float | None:
        """The area under the ROC curve, the mean over the labels."""
        areas = self.per_label(area_under_roc, range(len(self.names)))
        defined = [area for area in areas if area is not None]
        return float(np.mean(defined)) if defined else None

    def measures(self) -> dict[str, float | None]:
        """The metrics of one model."""
        if self.has_sets:
            return {} if self.scores is None else {**label_set_measures(self.truth, self.scores)}
        return label_measures(self.truth, self.predicted) | {"AUC": self.auc()}


def _of_labels(
    subject: Predictions,
    known: Labels,
    predicted: Labels,
    held_out: HeldOut | None,
    seen: Bools | None,
) -> list[Any]:
    if known.has_sets and not predicted.has_sets:
        raise LabelError(
            "the model predicts one label per bag, and y holds label sets: give one label per "
            "bag, or none."
        )
    unit = subject.unit
    rows, how = _fair(known.known, seen, held_out, unit, "metrics")

    def assess(found: HeldOut | None) -> _Assessment:
        if found is None:
            scores, proba = subject.call("decision_function"), subject.call("predict_proba")
            return _assess(known, rows, predicted, scores, proba, subject.classes.tolist())
        labels = subject.labels(found.predicted)
        if len(labels) != len(subject.bags):
            raise InputError(
                f"{len(labels)} held-out predictions were given for {len(subject.bags)} bags: "
                "give one each."
            )
        own = subject.classes if found.classes is None else np.asarray(found.classes)
        return _assess(known, rows, labels, found.scores, found.probabilities, own.tolist())

    assessed = assess(held_out)
    others = {} if held_out is None else held_out.baselines
    baselines = {f"baseline: {name}": assess(other) for name, other in others.items()}
    measured = {name: found.measures() for name, found in baselines.items()}
    own = assessed.measures()
    plain = measured or {name: b.measures() for name, b in _plain_baseline(assessed).items()}
    table: dict[str, list[Any]] = {"model": ["this model", *plain]}
    table |= {name: [own[name], *(m.get(name) for m in plain.values())] for name in own}
    caption = f"{len(assessed.truth):,} labelled {unit}s; higher is better"
    if assessed.has_sets:
        caption = "One-error and coverage are better when lower, average precision when higher"
    parts: list[Any] = [how, Table(table, caption)]
    order = ("AUC", "average precision", "accuracy")
    measure = next((name for name in order if own.get(name) is not None), "")
    rivals = {name: found.get(measure) for name, found in measured.items()}
    parts += _not_better(own.get(measure), rivals, measure)
    labels = _label_table(assessed, unit)
    parts.append(labels if assessed.has_sets else [_confusions(assessed, unit), labels])
    drawings = [d for d in (_roc(assessed), _calibration(assessed)) if d is not None]
    return [*parts, drawings] if drawings else parts


def _assess(
    known: Labels, rows: Bools, predicted: Labels, scores: Any, proba: Any, own: list[Any]
) -> _Assessment:
    """Reorder predictions for the classes `own` by the known labels."""
    has_sets = predicted.has_sets
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


def _plain_baseline(assessed: _Assessment) -> dict[str, _Assessment]:
    """A baseline without features: the most common label, or labels by their frequency."""
    truth, names = assessed.truth, assessed.names
    if assessed.has_sets:
        shares = np.tile(np.mean(truth == 1, axis=0), (len(truth), 1))
        return {"baseline: labels by frequency": _Assessment(truth, None, shares, None, names)}
    commonest = np.full(len(truth), np.bincount(truth).argmax())
    return {"baseline: most common label": _Assessment(truth, commonest, None, None, names)}


def _confusions(assessed: _Assessment, unit: str) -> Table:
    """The confusion matrix; for many classes, the most frequent errors."""
    truth, predicted = assessed.truth, assessed.predicted
    assert predicted is not None
    present = np.union1d(truth, predicted[predicted >= 0])
    if len(present) > MOST_CLASSES:
        pairs = np.column_stack([truth, predicted])[truth != predicted]
        found, counts = np.unique(pairs, axis=0, return_counts=True)
        order = np.argsort(-counts, kind="stable")[:15]
        names = np.array([*assessed.names, "none"], dtype=object)  # -1 is the last
        columns = dict(zip(("label", "predicted"), names[found[order]].T.tolist(), strict=True))
        return Table(columns | {f"{unit}s": counts[order].tolist()}, "The most frequent errors")
    counts = np.zeros((len(assessed.names),) * 2, dtype=int)
    np.add.at(counts, (truth[predicted >= 0], predicted[predicted >= 0]), 1)
    matrix = counts[np.ix_(present, present)]
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
    *measures, support = precision_recall_fscore_support(
        assessed.truth, assessed.predicted, labels=np.arange(len(assessed.names)), zero_division=0
    )
    present = np.flatnonzero(support)
    order = present[np.argsort(-support[present], kind="stable")][:MOST_ROWS].tolist()
    columns: dict[str, list[Any]] = {"label": [assessed.names[k] for k in order]}
    columns[f"{unit}s"] = support[order].tolist()
    for name, values in zip(("precision", "recall", "F1"), measures, strict=True):
        columns[name] = values[order].tolist()
    scores = assessed.scores
    ranked = 0 if scores is None else int(np.isfinite(scores).all(axis=0).sum())
    if (assessed.has_sets and ranked) or ranked > 1:
        columns["AUC"] = assessed.per_label(area_under_roc, order)
    if assessed.has_sets and ranked:
        columns["average precision"] = assessed.per_label(average_precision_score, order)
    caption = "Metrics of each label"
    if len(order) < len(present):
        caption += f": the {len(order)} most common of {len(present)}"
    return Table(columns, caption)


def _roc(assessed: _Assessment) -> Figure | None:
    lines = {}
    for k, name in enumerate(assessed.names):
        if (ranking := assessed.ranking_of(k)) is not None:
            lines[name] = roc_curve(*ranking)[:2]
    area = assessed.auc()
    if area is None or len(lines) > MOST_CURVES:
        return None  # unreadable: the table has the areas
    one = f"of “{next(iter(lines))}”" if len(lines) == 1 else "of each label against the others"
    display = LineDisplay(lines, "false positive rate", "true positive rate", diagonal=True)
    caption = f"ROC curve {one}. Area {area:.3f}; the dashed line is random guessing."
    return Figure(display.figure(), f"ROC curve {one}, area under it {area:.3f}.", caption)


def _calibration(assessed: _Assessment) -> Figure | None:
    """Calibration: observed frequency against predicted probability, in ten bins."""
    if assessed.proba is None or assessed.has_sets:
        return None
    proba, truth = assessed.proba, assessed.truth
    if proba.shape[1] == 2:
        chance, right = proba[:, 1], truth == 1
        what, of = f"probability of “{assessed.names[1]}”", f"share of “{assessed.names[1]}”"
    else:
        chance, right = proba.max(axis=1), proba.argmax(axis=1) == truth
        what, of = "probability of the predicted label", "share of correct predictions"
    if not np.isfinite(chance).all():
        return None
    observed, expected = calibration_curve(right, chance.clip(0, 1), n_bins=10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about a single class
        brier = brier_score_loss(right.astype(int), chance, pos_label=1)
    display = LineDisplay({"": (expected, observed)}, what, of, {"marker": "o"}, diagonal=True)
    caption = (
        "Calibration: on the dashed line predicted and observed frequencies agree. "
        f"Brier score {brier:.3f}."
    )
    return Figure(display.figure(), f"Calibration curve, Brier score {brier:.3f}.", caption)


# Numbers ----------------------------------------------------------------------------------------


def as_numbers(values: Array, bags: Bags) -> Floats:
    """Held-out predictions as numbers, NaN if there is none."""
    listed = np.asarray(values).tolist()
    if len(listed) != len(bags):
        raise InputError(
            f"{len(listed)} held-out predictions were given for {len(bags)} bags: give one each."
        )
    return np.array([np.nan if v is None else float(v) for v in listed])


def _of_numbers(subject: Predictions, held_out: HeldOut | None, seen: Bools | None) -> list[Any]:
    truth, predicted = subject.known_numbers, subject.numbers
    if truth is None or predicted is None:
        return []
    assessed, how = _fair(np.isfinite(truth), seen, held_out, "bag", "errors")
    models = {}
    if held_out is not None:
        predicted = as_numbers(held_out.predicted, subject.bags)
        assessed = assessed & np.isfinite(predicted)
        for name, other in held_out.baselines.items():
            models[f"baseline: {name}"] = as_numbers(other.predicted, subject.bags)
    if not assessed.any():
        return []
    models = models or {"baseline: mean": np.full(len(truth), truth[assessed].mean())}
    models = {"this model": predicted} | models
    rows = {}
    for name, found in models.items():
        error = (truth - found)[assessed]
        rows[name] = number_measures(truth[assessed], found[assessed])
        rows[name]["RMSE"] = float(np.sqrt(np.mean(error**2)))
    columns = {name: [row[name] for row in rows.values()] for name in rows["this model"]}
    caption = (
        f"{int(assessed.sum()):,} bags; R2 and Spearman are better when higher, MAE and RMSE when "
        "lower"
    )
    parts: list[Any] = [how, Table({"model": list(rows)} | columns, caption)]
    losses = {
        name: -row["MAE"]
        for name, row in rows.items()
        if not np.array_equal(models[name], predicted)
    }
    parts += _not_better(-rows["this model"]["MAE"], losses, "mean absolute error")
    bags = np.flatnonzero(assessed)
    points = {"": (truth[bags], predicted[bags])}
    plot = PointDisplay(points, "observed", "predicted", diagonal=True, links=bags.tolist())
    titles = [
        f"{subject.bag_names[i]}: observed {truth[i]:.4g}, predicted {predicted[i]:.4g}"
        for i in bags
    ]
    alt = f"Predicted against observed numbers of {len(bags):,} bags."
    caption = "Each point is a bag; on the line predicted and observed are equal."
    worst = bags[np.argsort(-np.abs(truth - predicted)[bags], kind="stable")[:MOST_ERRORS]]
    errors = {
        "bag": [subject.bag_names[i] for i in worst],
        "observed": truth[worst].tolist(),
        "predicted": predicted[worst].tolist(),
        "error": (predicted - truth)[worst].tolist(),
    }
    table = Table(errors, "The largest errors", bags=worst.tolist())
    return [*parts, [Figure(plot.figure(), alt, caption, titles), table]]
