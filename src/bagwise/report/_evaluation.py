"""The evaluation section of a report: predictions compared with labels."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import (
    average_precision_score,
    brier_score_loss,
    precision_recall_fscore_support,
    roc_auc_score,
    roc_curve,
)

from bagwise.exceptions import InputError
from bagwise.labels import Labels
from bagwise.model_selection import HeldOut
from bagwise.model_selection._measures import label_measures, label_set_measures
from bagwise.report._charts import N_HUES, Curve, curves
from bagwise.report._page import Section, SideBySide, Table
from bagwise.report._predictions import Predictions
from bagwise.report._subject import Subject

MOST_CLASSES = 16  # of a confusion matrix; beyond, the commonest mistakes are listed
MOST_ROWS = 60
_ROC_POINTS = 200


@dataclass(frozen=True)
class Assessment:
    """Predictions and the truth for the bags whose label is known.

    Attributes
    ----------
    truth, predicted : ndarray of shape (n_bags,) or (n_bags, n_names)
        Places in `names`; or label sets as zeros and ones. No prediction is -1.
    scores : ndarray of shape (n_bags, n_names) or None
        A score per label, minus infinity for labels the model does not know; two classes have one
        column, that of the second.
    proba : ndarray of shape (n_bags, n_names) or None
        Probabilities.
    names : list of str
        The labels.
    """

    truth: NDArray[Any]
    predicted: NDArray[Any] | None
    scores: NDArray[Any] | None
    proba: NDArray[Any] | None
    names: list[str]

    @property
    def has_sets(self) -> bool:
        """Whether bags have label sets."""
        return self.truth.ndim == 2

    @property
    def ranked(self) -> list[int]:
        """The labels whose ROC curve is shown: the second of two, else every one."""
        return [1] if self.scores is not None and self.scores.shape[1] == 1 else list(
            range(len(self.names))
        )  # fmt: skip

    def ranking_of(self, k: int) -> tuple[NDArray[np.bool_], NDArray[Any]] | None:
        """Which bags carry a label, and their scores; None where all do, or none."""
        if self.scores is None:
            return None
        carries = self.truth[:, k] == 1 if self.has_sets else self.truth == k
        score = self.scores[:, 0 if self.scores.shape[1] == 1 else k]
        if not 0 < carries.sum() < len(carries) or not np.isfinite(score).all():
            return None
        return carries, score

    def auc(self) -> float | None:
        """The area under the ROC curve, the mean over the labels."""
        found = [self.ranking_of(k) for k in self.ranked]
        areas = [roc_auc_score(*each) for each in found if each is not None]
        return float(np.mean(areas)) if areas else None

    def measures(self) -> dict[str, float | None]:
        """The figures of one model."""
        if self.has_sets:
            return {} if self.scores is None else {**label_set_measures(self.truth, self.scores)}
        return label_measures(self.truth, self.predicted) | {"AUC": self.auc()}


def assess(known: Labels, predictions: Predictions) -> Assessment:
    """Compare the predictions of a model with the labels.

    Parameters
    ----------
    known : Labels
        The labels.
    predictions : Predictions
        The predictions.

    Returns
    -------
    Assessment
    """
    return _assessment(known, predictions.predicted, predictions.raw_scores, predictions.raw_proba)


def assess_held_out(known: Labels, held_out: HeldOut, subject: Subject) -> Assessment:
    """Compare held-out predictions with the labels.

    Parameters
    ----------
    known : Labels
        The labels.
    held_out : HeldOut
        The predictions.
    subject : Subject
        The model, whose classes the predictions are in.

    Returns
    -------
    Assessment
    """
    predicted = subject.labels(held_out.predicted)
    if len(predicted) != len(subject.bags):
        raise InputError(
            f"{len(predicted)} held-out predictions were given for {len(subject.bags)} bags: "
            "give one each."
        )
    return _assessment(known, predicted, held_out.scores, held_out.probabilities)


def _assessment(known: Labels, predicted: Labels | None, scores: Any, proba: Any) -> Assessment:
    rows, n_names = known.known, len(known.names)
    assert predicted is not None
    has_sets = predicted.has_sets
    truth = known.indicator if has_sets else known.codes
    if scores is None and proba is not None:
        scores = proba[:, 1] if proba.shape[1] == 2 and not has_sets else proba
    table = None if scores is None else scores.reshape(len(scores), -1)
    if table is not None and table.shape[1] != 1:
        table = _widened(table, n_names, -np.inf)
    predictions = _widened(predicted.indicator, n_names, 0) if has_sets else predicted.codes
    return Assessment(
        truth[rows],
        predictions[rows],
        None if table is None else np.asarray(table, dtype=float)[rows],
        None if proba is None else _widened(proba, n_names, 0.0)[rows],
        known.names,
    )


def _widened(table: NDArray[Any], n_columns: int, fill: float) -> NDArray[Any]:
    """Columns for the labels that the model does not know."""
    missing = n_columns - table.shape[1]
    return np.pad(table, ((0, 0), (0, missing)), constant_values=fill) if missing > 0 else table


def evaluation_section(
    assessed: Assessment, how: str, baselines: Mapping[str, Assessment], unit: str
) -> Section:
    """Show how well a model does.

    Parameters
    ----------
    assessed : Assessment
        The predictions of the model, and the truth.
    how : str
        Which bags it predicted.
    baselines : mapping of str to Assessment
        The plain baselines.
    unit : {"bag", "row"}
        What the model is about.

    Returns
    -------
    Section
    """
    parts: list[Any] = [how, _comparison(assessed, baselines, unit)]
    if assessed.has_sets:
        parts += [_label_table(assessed, unit)]
    else:
        parts += [SideBySide([_confusions(assessed, unit), _class_table(assessed, unit)])]
    drawings = [d for d in (_roc(assessed), _calibration(assessed)) if d is not None]
    return Section("How well it does", parts + ([SideBySide(drawings)] if drawings else []))


def plain_baseline(assessed: Assessment) -> tuple[str, Assessment]:
    """A baseline without features: the commonest label, or the labels by their frequency.

    Parameters
    ----------
    assessed : Assessment
        The truth, of which the frequencies are taken.

    Returns
    -------
    name : str
    assessed : Assessment
    """
    n, n_names = len(assessed.truth), len(assessed.names)
    if assessed.has_sets:
        shares = np.tile(np.mean(assessed.truth == 1, axis=0), (n, 1))
        return "baseline: labels by frequency", Assessment(
            assessed.truth, None, shares, None, assessed.names
        )
    common = int(np.bincount(assessed.truth, minlength=n_names).argmax())
    predicted = np.full(n, common)
    return "baseline: commonest label", Assessment(
        assessed.truth, predicted, None, None, assessed.names
    )


def _comparison(assessed: Assessment, baselines: Mapping[str, Assessment], unit: str) -> Table:
    columns: dict[str, list[Any]] = {"model": ["this model", *baselines]}
    rows = [assessed.measures(), *(baseline.measures() for baseline in baselines.values())]
    for name in rows[0]:
        columns[name] = [row.get(name) for row in rows]
    if assessed.has_sets:
        caption = "One-error and coverage are better when lower, average precision when higher"
    else:
        caption = f"{len(assessed.truth):,} labelled {unit}s; higher is better"
    return Table(columns, caption)


def _confusions(assessed: Assessment, unit: str) -> Table:
    """The confusion matrix; of many classes, the commonest mistakes."""
    predicted = assessed.predicted
    assert predicted is not None
    present = np.union1d(assessed.truth, predicted[predicted >= 0])
    if len(present) > MOST_CLASSES:
        pairs = np.column_stack([assessed.truth, predicted])[assessed.truth != predicted]
        found, counts = np.unique(pairs, axis=0, return_counts=True)
        order = np.argsort(-counts, kind="stable")[:15]
        names = [*assessed.names, "none"]  # -1 is the last
        columns = {
            "label": [names[found[i, 0]] for i in order],
            "predicted": [names[found[i, 1]] for i in order],
            f"{unit}s": counts[order].tolist(),
        }
        return Table(columns, "The commonest mistakes")
    counts = np.zeros((len(assessed.names),) * 2, dtype=int)
    labelled = predicted >= 0
    np.add.at(counts, (assessed.truth[labelled], predicted[labelled]), 1)
    matrix = counts[np.ix_(present, present)]
    shares = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    table: dict[str, list[Any]] = {"label ↓ predicted →": [assessed.names[k] for k in present]}
    for column, k in enumerate(present):
        table[_free(assessed.names[k], table)] = matrix[:, column].tolist()
    return Table(
        table, f"Confusion matrix: {unit}s by label and prediction", shades=shares.tolist()
    )


def _free(name: str, taken: Mapping[str, Any]) -> str:
    """A heading that no other column has."""
    while name in taken:
        name += " "
    return name


def _class_table(assessed: Assessment, unit: str) -> Table:
    labels = np.arange(len(assessed.names))
    precision, recall, f1, support = precision_recall_fscore_support(
        assessed.truth, assessed.predicted, labels=labels, zero_division=0
    )
    order = np.flatnonzero(support)
    order = order[np.argsort(-support[order], kind="stable")][:MOST_ROWS]
    columns: dict[str, list[Any]] = {
        "label": [assessed.names[k] for k in order],
        f"{unit}s": support[order].tolist(),
        "precision": precision[order].tolist(),
        "recall": recall[order].tolist(),
        "F1": f1[order].tolist(),
    }
    if len(assessed.ranked) > 1 and assessed.scores is not None:
        columns["AUC"] = [_area(assessed, k) for k in order.tolist()]
    return Table(columns, _partly("Label by label", len(order), int((support > 0).sum())))


def _label_table(assessed: Assessment, unit: str) -> Table:
    """Label by label, for label sets: the rarest labels are where models fail."""
    counts = (assessed.truth == 1).sum(axis=0)
    order = np.flatnonzero(counts)
    order = order[np.argsort(-counts[order], kind="stable")][:MOST_ROWS]
    precision, recall, f1, _ = precision_recall_fscore_support(
        assessed.truth, assessed.predicted, labels=None, zero_division=0
    )
    columns: dict[str, list[Any]] = {
        "label": [assessed.names[k] for k in order],
        f"{unit}s": counts[order].tolist(),
        "precision": precision[order].tolist(),
        "recall": recall[order].tolist(),
        "F1": f1[order].tolist(),
    }
    if assessed.scores is not None:
        columns["AUC"] = [_area(assessed, k) for k in order.tolist()]
        columns["average precision"] = [_precision(assessed, k) for k in order.tolist()]
    return Table(columns, _partly("Label by label", len(order), int((counts > 0).sum())))


def _partly(caption: str, shown: int, n: int) -> str:
    return caption if shown == n else f"{caption}: the {shown} commonest of {n}"


def _area(assessed: Assessment, k: int) -> float | None:
    found = assessed.ranking_of(k)
    return None if found is None else float(roc_auc_score(*found))


def _precision(assessed: Assessment, k: int) -> float | None:
    found = assessed.ranking_of(k)
    return None if found is None else float(average_precision_score(*found))


def _roc(assessed: Assessment) -> Any:
    found = {k: assessed.ranking_of(k) for k in assessed.ranked}
    lines = []
    for k, ranking in found.items():
        if ranking is not None:
            false, true, _ = roc_curve(*ranking)
            rows = np.unique(np.linspace(0, len(false) - 1, _ROC_POINTS).astype(int))
            lines.append(Curve(assessed.names[k], false[rows], true[rows]))
    if not lines or len(lines) > N_HUES:
        return None  # a tangle: the table has the areas
    area = assessed.auc()
    one = f"of “{lines[0].name}”" if len(lines) == 1 else "of each label against the others"
    return curves(
        lines,
        x_label="false positive rate",
        y_label="true positive rate",
        caption=f"ROC curve {one}. Area {area:.3f}; the dashed line is guessing.",
        alt=f"ROC curve {one}, area under it {area:.3f}.",
        unit_square=True,
    )


def _calibration(assessed: Assessment) -> Any:
    """Calibration: observed frequency against predicted probability, in ten bins."""
    if assessed.proba is None or assessed.has_sets:
        return None
    proba, truth = assessed.proba, assessed.truth
    if proba.shape[1] == 2:
        chance, right = proba[:, 1], truth == 1
        what, of = f"probability of “{assessed.names[1]}”", f"share of “{assessed.names[1]}”"
    else:
        chance, right = proba.max(axis=1), proba.argmax(axis=1) == truth
        what, of = "probability of the predicted label", "share predicted right"
    if not np.isfinite(chance).all():
        return None
    bins = np.minimum((chance * 10).astype(int), 9)
    filled = np.unique(bins)
    x = [float(chance[bins == b].mean()) for b in filled]
    y = [float(right[bins == b].mean()) for b in filled]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of one class only
        brier = brier_score_loss(right.astype(int), chance, pos_label=1)
    return curves(
        [Curve("", x, y, dots=True)],
        x_label=what,
        y_label=of,
        caption="Calibration: on the dashed line predicted and observed frequencies agree. "
        f"Brier score {brier:.3f}.",
        alt=f"Calibration curve, Brier score {brier:.3f}.",
        unit_square=True,
    )
