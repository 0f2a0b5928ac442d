"""Predictions for the held-out bags of an evaluation, and measures of them with intervals.

The bootstrap draws groups of bags, such as patients, with replacement. Most measures are computed
for all draws at once, from the number W[b, i] of times that draw b contains bag i.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from scipy.special import ndtr, ndtri, stdtrit
from sklearn import metrics as sk
from sklearn.base import BaseEstimator

from bagwise._common.types import Array, Bools, Floats, Ints
from bagwise.evaluate._measures import label_set_log_loss, label_set_measures, mean_of_defined
from bagwise.exceptions import InputError
from bagwise.labels import Intervals
from bagwise.validation import are_times, time_texts

N_DRAWS = 1000
N_SLOW = 200  # draws of measures that are computed one draw after the other
LARGEST = 2e7  # values of W
FEW = 10  # units whose intervals are also t intervals
TINY = 1e-12  # a smaller spread is a rounding error
# Measures between 0 and 1 of all bags; that of the balanced ones depends on the classes.
_SHARES = ("accuracy", "within one", "one-error", "average precision", "C index", "Uno's C")
Columns = dict[str, Array]


@dataclass(frozen=True, eq=False)
class HeldOutBags:
    """Predictions of one model for held-out bags: a row per bag and repeat.

    Attributes
    ----------
    found : dict of str to ndarray of shape (n_rows, ...)
        The results of ``predict``, ``decision_function`` and ``predict_proba``, if there are any.
    y : ndarray of shape (n_rows, ...) or Intervals
        What is true of the bags.
    names : ndarray of shape (n_rows,)
        The id of each bag.
    groups : ndarray of shape (n_rows,) or None
        Its group.
    position, fold, repeat : ndarray of int of shape (n_rows,)
        The position of the bag in the data, the fold that held it out, from 0, and how often it was
        held out before.
    classes : ndarray or None
        The labels of the columns; None for numbers.
    kind : str
        A key of `MEASURES`.
    measure : callable
        Computes all measures from predictions by method, and `y`.
    order : list or None
        The classes as grades.
    """

    found: Mapping[str, Array]
    y: Any
    names: Array
    groups: Array | None
    position: Ints
    fold: Ints
    repeat: Ints
    classes: Array | None
    kind: str
    measure: Callable[..., dict[str, float]]
    order: Sequence[Any] | None = None

    def __len__(self) -> int:
        return len(self.fold)

    def take(self, rows: Any) -> Self:
        """Select rows."""
        parts: Any = {"found": {method: values[rows] for method, values in self.found.items()}}
        names = ("y", "names", "position", "fold", "repeat")
        groups = None if self.groups is None else self.groups[rows]
        return replace(self, **parts, **{n: getattr(self, n)[rows] for n in names}, groups=groups)

    @property
    def is_labelled(self) -> bool:
        """Whether bags have one label each."""
        return self.kind in ("labels", "grades")

    # Tables

    def table(self, method: str) -> Columns:
        """A row per bag and repeat, with the name of the method: see `Evaluation.predictions`."""
        columns: Columns = {"id": self.names, "repeat": self.repeat + 1, "fold": self.fold + 1}
        if self.groups is not None:
            columns["group"] = self.groups
        columns["method"] = np.full(len(self), method)
        columns |= _named("label", self._shown(self.y))
        if "predict" in self.found:
            columns |= _named("predicted", self._shown(self.found["predict"]))
        for name, key in {"score": "decision_function", "probability": "predict_proba"}.items():
            if key in self.found and self.classes is not None:
                values = self.found[key].reshape(len(self), -1)
                if self.is_labelled and len(self.classes) == 2:
                    columns[name] = values[:, -1]
                else:
                    columns |= {f"{name}:{c}": values[:, k] for k, c in enumerate(self.classes)}
        return columns

    def _shown(self, values: Any) -> Array:
        if isinstance(values, Intervals):
            return np.array(values.texts)
        if are_times(values):
            return np.array(time_texts(values))
        if self.kind != "label sets" or self.classes is None:
            return np.asarray(values)
        sets = ((np.flatnonzero(row == 1)) for row in values)
        return np.array([";".join(str(self.classes[k]) for k in each) for each in sets])

    # Measures with intervals

    def intervals(
        self,
        wanted: Sequence[str] = (),
        *,
        by: Ints | None = None,
        confidence: float = 0.95,
        n_draws: int = N_DRAWS,
        seed: int = 0,
    ) -> dict[str, tuple[float, float, float]]:
        """Each measure and the ends of its interval; the mean over the parts of the rows.

        Parameters
        ----------
        wanted : sequence of str, default=()
            Names of scikit-learn's scorers, also.
        by : ndarray of int of shape (n_rows,), default=None
            The part of each row. By default the folds; for numbers the repeats, because the R2 of
            the few bags of a fold varies too much.
        confidence, n_draws, seed
            The confidence of the intervals, the number of draws, and their seed.
        """
        if by is None:
            by = self.repeat if self.kind == "numbers" else self.fold
        W, sizes = draws_of(self.units, n_draws, seed), self._sizes()
        parts = [self.take(by == k)._measured(W[:, by == k], wanted) for k in np.unique(by)]
        found = {name: mean_of_defined([part[name] for part in parts]) for name in parts[0]}
        n = len(np.unique(self.units))
        return {k: with_ends(values, confidence, n, sizes.get(k)) for k, values in found.items()}

    @property
    def units(self) -> Array:
        """What a draw contains or not: the group of each row, or else its bag."""
        return self.position if self.groups is None else self.groups

    def _sizes(self) -> dict[str, float]:
        """The size of the sample behind each measure that is a share."""
        sizes: dict[str, float] = dict.fromkeys(_SHARES, len(np.unique(self.units)))
        if self.kind == "intervals":
            sizes["within bounds"] = len(np.unique(self.units[~self.y.exact]))
        if self.is_labelled:
            counts = [len(np.unique(self.units[self.y == label])) for label in np.unique(self.y)]
            balanced = len(counts) ** 2 / sum(1 / n for n in counts)
            sizes |= {"balanced accuracy": balanced, "AUC": balanced}
        return sizes

    def _measured(self, W: Ints, wanted: Sequence[str]) -> dict[str, Floats]:
        """Every measure for each draw."""
        weighted = {"labels": _of_labels, "grades": _of_labels, "label sets": _of_sets}
        weighted["numbers"] = _of_numbers
        if self.kind in weighted and not wanted:
            return weighted[self.kind](self, W)
        W = W[: N_SLOW + 1]
        own = [self._again(np.repeat(np.arange(len(self)), w), wanted) for w in W]
        names = dict.fromkeys(name for each in own for name in each)
        return {n: np.array([each.get(n, np.nan) for each in own]) for n in names}

    def _again(self, rows: Ints, wanted: Sequence[str]) -> dict[str, float]:
        """Measures of some rows, some of them several times."""
        if not len(rows):
            return {}
        part = self.take(rows)
        found = {} if wanted else part.measure(part.found, part.y)
        bags = np.arange(len(rows))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of draws without a class
            for name in wanted:
                try:
                    found[name] = float(sk.get_scorer(name)(_Replayed(part), bags, part.y))
                except (ValueError, TypeError, AttributeError):
                    found[name] = np.nan
        return found

    def per_class(self, *, confidence: float = 0.95, seed: int = 0) -> dict[str, list[Any]]:
        """Measures of each class against all others, with intervals: see `Evaluation.per_class`."""
        if self.classes is None:
            raise InputError("the target is a number: there are no classes to measure.")
        W, columns = draws_of(self.units, N_DRAWS, seed), dict[str, list[Any]]()
        for k, (label, true, said, scores) in enumerate(self.each_class()):
            row: dict[str, Any] = {"label": label, "bags": int(true[self.repeat == 0].sum())}
            known = W * self.known(k)
            of_class = intervals_of_class(true, said, scores, self.units, known, confidence)
            add_row(columns, row, of_class)
        return columns

    def known(self, k: int) -> Bools:
        """Of which bags it is known whether they have a class."""
        known: Bools = self.y[:, k] >= 0 if self.kind == "label sets" else np.ones(len(self), bool)
        return known

    def each_class(self) -> Iterator[tuple[Any, Bools, Bools, Floats | None]]:
        """Each class: whether bags have it and are predicted to have it, and their scores of it."""
        assert self.classes is not None
        scores = self.found.get("decision_function", self.found.get("predict_proba"))
        columns = None if scores is None else scores.reshape(len(self), -1)
        two = self.is_labelled and len(self.classes) == 2
        for k, label in enumerate(np.asarray(self.classes).tolist()):
            own = None
            if columns is not None:
                own = columns[:, -1] * (2 * k - 1) if two else columns[:, k]
            if self.is_labelled:
                yield label, self.y == label, self.found["predict"] == label, own
            else:
                said = self.found.get("predict")
                if said is None:  # a model that only scores labels
                    said = np.asarray(scores) > (0 if "decision_function" in self.found else 0.5)
                yield label, self.y[:, k] == 1, said[:, k] == 1, own


class _Replayed(BaseEstimator):
    """A fitted model of the rows of a table of predictions, for scikit-learn's scorers."""

    def __init__(self, rows: HeldOutBags) -> None:
        self.rows, self.classes_ = rows, rows.classes
        for name in rows.found:
            setattr(self, name, self._named(name))

    def _named(self, name: str) -> Any:
        def method(rows: Ints) -> Array:
            return self.rows.found[name][rows]

        method.__name__ = name  # by which scikit-learn tells scores from probabilities
        return method

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type = "classifier" if self.rows.classes is not None else "regressor"
        return tags


def _named(name: str, values: Array) -> Columns:
    """A column, or one for each of several numbers."""
    if values.ndim == 1:
        return {name: values}
    return {f"{name}:{k}": column for k, column in enumerate(values.T)}


def add_row(columns: dict[str, list[Any]], row: dict[str, Any], found: Mapping[str, Any]) -> None:
    """Add a row to a table: its first cells, then each measure and the ends of its interval."""
    for name, ends in found.items():
        row |= dict(zip((name, f"{name} lower", f"{name} upper"), ends, strict=True))
    for name, value in row.items():
        columns.setdefault(name, []).append(value)


def with_ends(
    values: Floats, confidence: float, n_units: int, size: float | None
) -> tuple[float, float, float]:
    """The value of the sample and the ends of its interval; NaN if few of the draws define it.

    Percentiles of draws of few units are too narrow: they are expanded as t quantiles are
    (Hesterberg 2015, section 4.2). They fail at 0 and 1: all draws of perfect predictions are
    perfect. An interval that reaches 0 or 1 is extended by Wilson's interval of a share, of a
    sample of `size`.
    """
    value, draws = float(values[0]), values[1:]
    defined = draws[np.isfinite(draws)]
    if len(defined) * 2 < len(draws) or np.isnan(value):
        return value, np.nan, np.nan
    expanded = np.sqrt(n_units / (n_units - 1)) * stdtrit(n_units - 1, (1 + confidence) / 2)
    lower, upper = np.quantile(defined, (ndtr(-expanded), ndtr(expanded)))
    if n_units < FEW:  # their draws are few, too
        half = expanded * defined.std()
        lower, upper = min(lower, value - half), max(upper, value + half)
    if size is not None and (lower <= TINY or upper >= 1 - TINY):
        z2 = ndtri((1 + confidence) / 2) ** 2 / size
        half = np.sqrt(z2 * value * (1 - value) + z2**2 / 4)
        low, high = (value + z2 / 2 + np.array([-half, half])) / (1 + z2)
        lower, upper = max(0.0, min(lower, low)), min(1.0, max(upper, high))
    return value, float(lower), float(upper)


def draws_of(unit: Array, n_draws: int, seed: int) -> Ints:
    """How often each draw contains each row, all rows of a unit together; first the sample itself.

    An array of shape (1 + n_draws, n_rows).
    """
    units, code = np.unique(unit, return_inverse=True)
    sample = np.ones((1, len(unit)), dtype=int)
    if len(units) < 2:  # nothing can be said: all measures are undefined
        return np.concatenate([sample, np.zeros_like(sample)])
    n_draws = max(N_SLOW, min(n_draws, int(LARGEST / len(unit))))
    shares = np.full(len(units), 1 / len(units))
    drawn = np.random.RandomState(seed).multinomial(len(units), shares, n_draws)
    return np.concatenate([sample, drawn[:, code]])


# Measures of weighted bags: W of shape (n_draws, n_bags)


def _share(values: Array, W: Ints) -> Floats:
    """Weighted mean of values, of those that are finite."""
    defined = np.isfinite(values)
    total = W @ defined
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(W @ np.where(defined, values, 0.0) / np.where(total > 0, total, np.nan))


def _of_labels(held: HeldOutBags, W: Ints) -> dict[str, Floats]:
    """Weighted `label_measures`, AUC and log loss, and for grades `grade_measures`."""
    y, predicted, classes = held.y, held.found["predict"], np.asarray(held.classes)
    found: dict[str, Floats] = {}
    if held.order is not None:
        found |= _of_grades(held, W)
    right = (predicted == y).astype(float)
    found["accuracy"] = _share(right, W)
    recalls = [_share(np.where(y == label, right, np.nan), W) for label in np.unique(y)]
    found["balanced accuracy"] = mean_of_defined(recalls)
    each = [(true, own) for _, true, _, own in held.each_class() if own is not None]
    if each:
        each = each[-1:] if len(classes) == 2 else each
        found["AUC"] = mean_of_defined([weighted_area(true, own, W) for true, own in each])
    proba = held.found.get("predict_proba")
    if proba is not None:
        own = np.take_along_axis(proba, np.searchsorted(classes, y)[:, None], axis=1)[:, 0]
        trained = np.isin(y, classes[proba.any(axis=0)]).all()
        losses = -np.log(np.clip(own / proba.sum(axis=1), np.finfo(float).eps, 1))
        found["log loss"] = _share(losses, W) if trained else np.full(len(W), np.nan)
    return found


def _of_grades(held: HeldOutBags, W: Ints) -> dict[str, Floats]:
    place = {grade: k for k, grade in enumerate(held.order or ())}
    a, b = (
        np.array([place[v] for v in grades.tolist()], dtype=float)
        for grades in (held.y, held.found["predict"])
    )
    errors = np.abs(a - b)
    apart = _share(a**2, W) + _share(b**2, W) - 2 * _share(a, W) * _share(b, W)
    with np.errstate(invalid="ignore", divide="ignore"):
        kappa = np.where(apart > TINY, 1 - _share(errors**2, W) / apart, np.nan)
    within = (errors <= 1).astype(float)
    return {"quadratic kappa": kappa, "MAE": _share(errors, W), "within one": _share(within, W)}


def _of_sets(held: HeldOutBags, W: Ints) -> dict[str, Floats]:
    """Weighted means of the measures of each bag."""
    proba = held.found.get("predict_proba")
    scores = held.found.get("decision_function", proba)
    rows: list[dict[str, float]] = []
    for i in range(len(held)):
        one, known = slice(i, i + 1), (held.y[i] >= 0).any()
        rows.append(label_set_measures(held.y[one], np.asarray(scores)[one]) if known else {})
        if known and proba is not None:
            rows[-1]["log loss"] = label_set_log_loss(held.y[one], proba[one])
    names = dict.fromkeys(name for row in rows for name in row)
    return {n: _share(np.array([row.get(n, np.nan) for row in rows]), W) for n in names}


def _of_numbers(held: HeldOutBags, W: Ints) -> dict[str, Floats]:
    """Weighted `number_measures`; of several numbers the means, then those of each."""
    y, predicted = (v.reshape(len(v), -1) for v in (held.y, held.found["predict"]))
    each = [_of_number(*pair, W) for pair in zip(y.T, predicted.T, strict=True)]
    found = {name: np.mean([one[name] for one in each], axis=0) for name in each[0]}
    for k, one in enumerate(each if held.y.ndim > 1 else ()):
        target = (held.order or range(len(each)))[k]
        found |= {f"{name} of {target}": values for name, values in one.items()}
    return found


def _of_number(y: Floats, predicted: Floats, W: Ints) -> dict[str, Floats]:
    errors, y = y - predicted, y - y.mean()
    spread = _share(y**2, W) - _share(y, W) ** 2
    with np.errstate(invalid="ignore", divide="ignore"):
        fit = np.where(spread > TINY * np.max(y * y), 1 - _share(errors**2, W) / spread, np.nan)
        ranks = [_weighted_ranks(v, W) for v in (y, predicted)]
        a, b = (r - (W * r).sum(1, keepdims=True) / W.sum(1, keepdims=True) for r in ranks)
        norm = np.sqrt((W * a * a).sum(1) * (W * b * b).sum(1))
        ranked = np.where(norm > TINY, (W * a * b).sum(1) / norm, np.nan)
    return {"R2": fit, "MAE": _share(np.abs(errors), W), "Spearman": ranked}


def measures_of_class(
    true: Bools, said: Bools, scores: Floats | None, W: Ints
) -> dict[str, Floats]:
    """Measures of one class against all others."""
    found = {
        "sensitivity": _share(np.where(true, said, np.nan), W),
        "specificity": _share(np.where(true, np.nan, ~said), W),
        "precision": _share(np.where(said, true, np.nan), W),
    }
    both = W @ true + W @ said
    found["F1"] = np.where(both > 0, 2 * (W @ (true & said)) / np.maximum(both, 1), np.nan)
    if scores is not None:
        found["AUC"] = weighted_area(true, scores, W)
        found["average precision"] = _weighted_precision(true, scores, W)
    return found


def intervals_of_class(
    true: Bools, said: Bools, scores: Floats | None, units: Array, W: Ints, confidence: float
) -> dict[str, tuple[float, float, float]]:
    """Each of `measures_of_class` and the ends of its interval; W begins with the sample."""
    known = W[0] > 0
    own, other, found = (len(np.unique(units[known & rows])) for rows in (true, ~true, said))
    balanced = 4 * own * other / max(own + other, 1)
    sizes = {"specificity": other, "precision": found, "AUC": balanced}
    measures = measures_of_class(true, said, scores, W)
    n = len(np.unique(units[known]))
    return {k: with_ends(v, confidence, n, sizes.get(k, own)) for k, v in measures.items()}


def _at_values(values: Floats, *weights: Array) -> Iterator[Floats]:
    """Sums of weights at each distinct value, ascending: (n_draws, n_values)."""
    order = np.argsort(values, kind="stable")
    starts = np.flatnonzero(np.diff(values[order], prepend=np.nan) != 0)
    for each in weights:
        yield np.add.reduceat(each[:, order], starts, axis=1)


def weighted_area(true: Bools, scores: Floats, W: Ints) -> Floats:
    """Weighted `area_under_roc`; NaN for draws without one of the classes."""
    if not np.isfinite(scores).all():
        return np.full(len(W), np.nan)
    positive, negative = _at_values(scores, W * true, W * ~true)
    below = negative.cumsum(axis=1) - negative / 2
    pairs = positive.sum(axis=1) * negative.sum(axis=1)
    area = (positive * below).sum(axis=1)
    return np.where(pairs > 0, area / np.maximum(pairs, 1), np.nan)


def _weighted_precision(true: Bools, scores: Floats, W: Ints) -> Floats:
    """Weighted average precision."""
    if not np.isfinite(scores).all():
        return np.full(len(W), np.nan)
    positive, negative = _at_values(-scores, W * true, W * ~true)
    hits = positive.cumsum(axis=1)
    precision = hits / np.maximum(hits + negative.cumsum(axis=1), 1)
    total = positive.sum(axis=1)
    return np.where(total > 0, (positive * precision).sum(axis=1) / np.maximum(total, 1), np.nan)


def _weighted_ranks(values: Floats, W: Ints) -> Floats:
    """The mean rank of each value in each draw."""
    (counts,) = _at_values(values, W)
    ranks = counts.cumsum(axis=1) - (counts - 1) / 2
    return ranks[:, np.unique(values, return_inverse=True)[1]]
