"""The evaluation section of a report: predictions compared with labels."""

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

from bagwise._common.types import Array, Bools
from bagwise.exceptions import InputError, LabelError
from bagwise.labels import Labels
from bagwise.model_selection import HeldOut
from bagwise.model_selection._measures import area_under_roc, label_measures, label_set_measures
from bagwise.report._charts import N_HUES, Curve, curves
from bagwise.report._page import Section, SideBySide, Table
from bagwise.report._subject import Subject

MOST_CLASSES = 16  # of a confusion matrix; for more, the most frequent errors are listed
MOST_ROWS = 60
_ROC_POINTS = 200

_OPTIMISTIC = (
    "these metrics are optimistic: they are measured on the training data. Use {unit}s it was not "
    "fitted on, or cross-validate (bagwise report --folds 5; held_out= in Python)."
)


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

    @property
    def ranked(self) -> list[int]:
        """The labels for which all bags have a score, so that a ROC curve can be drawn."""
        if self.scores is None:
            return []
        return np.flatnonzero(np.isfinite(self.scores).all(axis=0)).tolist()

    def ranking_of(self, k: int) -> tuple[Bools, Array] | None:
        """Which bags have a label, and their scores; None if all bags have it, or none."""
        if self.scores is None:
            return None
        carries = self.truth[:, k] == 1 if self.has_sets else self.truth == k
        score = self.scores[:, k]
        if not 0 < carries.sum() < len(carries) or not np.isfinite(score).all():
            return None
        return carries, score

    def per_label(self, measure: Any, labels: list[int]) -> list[float | None]:
        """A measure of the ranking of the bags for each of these labels."""
        found = [self.ranking_of(k) for k in labels]
        return [None if ranking is None else float(measure(*ranking)) for ranking in found]

    def auc(self) -> float | None:
        """The area under the ROC curve, the mean over the labels."""
        areas = [area for area in self.per_label(area_under_roc, self.ranked) if area is not None]
        return float(np.mean(areas)) if areas else None

    def measures(self) -> dict[str, float | None]:
        """The metrics of one model."""
        if self.has_sets:
            return {} if self.scores is None else {**label_set_measures(self.truth, self.scores)}
        return label_measures(self.truth, self.predicted) | {"AUC": self.auc()}


def evaluation_section(
    subject: Subject, held_out: HeldOut | None, seen: Bools | None
) -> Section | None:
    """Compare predictions with known labels.

    Parameters
    ----------
    subject : Subject
        The model, the bags, their labels and the predictions.
    held_out : HeldOut or None
        Predictions by models that were not fitted on the bags; the metrics are then of these.
    seen : ndarray of bool of shape (n_bags,) or None
        Which bags the model was fitted on, if that is known.

    Returns
    -------
    Section or None
    """
    known, predicted, unit = subject.known, subject.predicted, subject.unit
    if known is None or predicted is None:
        return None
    if known.has_sets and not predicted.has_sets:
        raise LabelError(
            "the model predicts one label per bag, and y holds label sets: give one label per "
            "bag, or none."
        )
    baselines = {}
    if held_out is None:
        fair, how = _not_in_training(known, seen, unit)
        scores, proba = subject.raw_scores, subject.raw_proba
        assessed = _assess(fair, predicted, scores, proba, subject.classes)
    else:
        assessed = _assess_held_out(subject, held_out)
        baselines = {
            f"baseline: {name}": _assess_held_out(subject, other)
            for name, other in held_out.baselines.items()
        }
        how = (
            f"Metrics by {held_out.how}: each {unit} was predicted by a model that was "
            "not fitted on it."
        )
    parts: list[Any] = [how, _comparison(assessed, baselines or _plain_baseline(assessed), unit)]
    parts += _not_better(assessed, baselines)
    table = _label_table(assessed, unit)
    parts.append(table if assessed.has_sets else SideBySide([_confusions(assessed, unit), table]))
    drawings = [d for d in (_roc(assessed), _calibration(assessed)) if d is not None]
    return Section("Evaluation", *parts, *([SideBySide(drawings)] if drawings else []))


def _not_in_training(known: Labels, seen: Bools | None, unit: str) -> tuple[Labels, str]:
    """The labels of the bags for the metrics, and a sentence about their bias."""
    if seen is None:
        start = f"The model predicted the {unit}s of this report. If it was fitted on them, "
        return known, start + _OPTIMISTIC.format(unit=unit)
    new = known.known & ~seen
    if not new.any():
        start = f"The model was fitted on these {unit}s, so "
        return known, start + _OPTIMISTIC.format(unit=unit)
    if not seen.any():
        return known, f"The model was not fitted on any of these {unit}s."
    return known.without(seen), (
        f"Metrics are computed on the {int(new.sum()):,} labelled {unit}s that the model was not "
        f"fitted on; {int(seen.sum()):,} others are training data."
    )


def _assess_held_out(subject: Subject, held_out: HeldOut) -> _Assessment:
    predicted = subject.labels(held_out.predicted)
    if len(predicted) != len(subject.bags):
        raise InputError(
            f"{len(predicted)} held-out predictions were given for {len(subject.bags)} bags: "
            "give one each."
        )
    assert subject.known is not None
    own = subject.classes if held_out.classes is None else np.asarray(held_out.classes).tolist()
    return _assess(subject.known, predicted, held_out.scores, held_out.probabilities, own)


def _assess(
    known: Labels, predicted: Labels, scores: Any, proba: Any, own: list[Any]
) -> _Assessment:
    """Reorder predictions for the classes `own` by the known labels."""
    rows, has_sets = known.known, predicted.has_sets
    if scores is None and proba is not None:
        scores = proba[:, 1] if proba.shape[1] == 2 and not has_sets else proba
    return _Assessment(
        (known.indicator if has_sets else known.codes)[rows],
        _by_label(predicted.indicator, own, known, 0) if has_sets else predicted.codes[rows],
        _by_label(scores, own, known, -np.inf),
        _by_label(proba, own, known, 0.0),
        known.names,
    )


def _by_label(values: Any, own: list[Any], known: Labels, fill: float) -> Any:
    """A column per known label, for the labelled bags; a single column is for the last class.

    None if the columns do not represent classes but, for example, pairs of classes.
    """
    if values is None:
        return None
    values = np.asarray(values).reshape(len(values), -1)[known.known]
    if values.shape[1] not in (1, len(own)):
        return None
    table = np.full((len(values), len(known.names)), fill, dtype=np.result_type(values, fill))
    places = {label: k for k, label in enumerate(known.classes.tolist())}
    for label, column in zip(own[-values.shape[1] :], values.T, strict=False):
        if label in places:
            table[:, places[label]] = column
    return table


def _plain_baseline(assessed: _Assessment) -> dict[str, _Assessment]:
    """A baseline without features: the most common label, or labels by their frequency."""
    truth, names = assessed.truth, assessed.names
    if assessed.has_sets:
        shares = np.tile(np.mean(truth == 1, axis=0), (len(truth), 1))
        return {"baseline: labels by frequency": _Assessment(truth, None, shares, None, names)}
    commonest = np.full(len(truth), np.bincount(truth).argmax())
    return {"baseline: most common label": _Assessment(truth, commonest, None, None, names)}


def _comparison(assessed: _Assessment, baselines: Mapping[str, _Assessment], unit: str) -> Table:
    columns: dict[str, list[Any]] = {"model": ["this model", *baselines]}
    rows = [assessed.measures(), *(baseline.measures() for baseline in baselines.values())]
    for name in rows[0]:
        columns[name] = [row.get(name) for row in rows]
    if assessed.has_sets:
        caption = "One-error and coverage are better when lower, average precision when higher"
    else:
        caption = f"{len(assessed.truth):,} labelled {unit}s; higher is better"
    return Table(columns, caption)


def _not_better(assessed: _Assessment, baselines: Mapping[str, _Assessment]) -> list[str]:
    """A sentence for each baseline that the model does not beat."""
    own = assessed.measures()
    for measure in ("AUC", "average precision", "accuracy"):
        if (value := own.get(measure)) is not None:
            break
    else:
        return []
    rivals = {name: baseline.measures().get(measure) for name, baseline in baselines.items()}
    return [
        f"The model is not better than the {name.replace(':', '')}: {measure} {value:.3f} against "
        f"{rival:.3f}."
        for name, rival in rivals.items()
        if rival is not None and rival >= value
    ]


def _confusions(assessed: _Assessment, unit: str) -> Table:
    """The confusion matrix; for many classes, the most frequent errors."""
    truth, predicted = assessed.truth, assessed.predicted
    assert predicted is not None
    present = np.union1d(truth, predicted[predicted >= 0])
    if len(present) > MOST_CLASSES:
        pairs = np.column_stack([truth, predicted])[truth != predicted]
        found, counts = np.unique(pairs, axis=0, return_counts=True)
        order = np.argsort(-counts, kind="stable")[:15]
        names = [*assessed.names, "none"]  # -1 is the last
        columns = {
            "label": [names[found[i, 0]] for i in order],
            "predicted": [names[found[i, 1]] for i in order],
            f"{unit}s": counts[order].tolist(),
        }
        return Table(columns, "The most frequent errors")
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
    return Table(
        table, f"Confusion matrix: {unit}s by label and prediction", shades=shares.tolist()
    )


def _label_table(assessed: _Assessment, unit: str) -> Table:
    """Metrics of each label, most common first."""
    precision, recall, f1, support = precision_recall_fscore_support(
        assessed.truth, assessed.predicted, labels=np.arange(len(assessed.names)), zero_division=0
    )
    present = np.flatnonzero(support)
    order = present[np.argsort(-support[present], kind="stable")][:MOST_ROWS].tolist()
    columns: dict[str, list[Any]] = {
        "label": [assessed.names[k] for k in order],
        f"{unit}s": support[order].tolist(),
        "precision": precision[order].tolist(),
        "recall": recall[order].tolist(),
        "F1": f1[order].tolist(),
    }
    if assessed.scores is not None and (assessed.has_sets or len(assessed.ranked) > 1):
        columns["AUC"] = assessed.per_label(area_under_roc, order)
        if assessed.has_sets:
            columns["average precision"] = assessed.per_label(average_precision_score, order)
    caption = "Metrics of each label"
    if len(order) < len(present):
        caption += f": the {len(order)} most common of {len(present)}"
    return Table(columns, caption)


def _roc(assessed: _Assessment) -> Any:
    lines = []
    for k in assessed.ranked:
        if (ranking := assessed.ranking_of(k)) is not None:
            false, true, _ = roc_curve(*ranking)
            rows = np.unique(np.linspace(0, len(false) - 1, _ROC_POINTS).astype(int))
            lines.append(Curve(assessed.names[k], false[rows], true[rows]))
    if not lines or len(lines) > N_HUES:
        return None  # unreadable: the table has the areas
    area = assessed.auc()
    one = f"of “{lines[0].name}”" if len(lines) == 1 else "of each label against the others"
    return curves(
        lines,
        x_label="false positive rate",
        y_label="true positive rate",
        caption=f"ROC curve {one}. Area {area:.3f}; the dashed line is random guessing.",
        alt=f"ROC curve {one}, area under it {area:.3f}.",
        unit_square=True,
    )


def _calibration(assessed: _Assessment) -> Any:
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
    return curves(
        [Curve("", expected, observed, dots=True)],
        x_label=what,
        y_label=of,
        caption="Calibration: on the dashed line predicted and observed frequencies agree. "
        f"Brier score {brier:.3f}.",
        alt=f"Calibration curve, Brier score {brier:.3f}.",
        unit_square=True,
    )
