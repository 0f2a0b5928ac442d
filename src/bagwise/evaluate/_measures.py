"""Measures of models of bags, for labels, grades, label sets, numbers, intervals and times."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_ndtr
from scipy.stats import norm, spearmanr
from sklearn import metrics as sk

from bagwise import metrics
from bagwise._common.types import Array, Bools, Floats
from bagwise.base._pipelines import final_estimator, predicts_numbers, survival_functions
from bagwise.exceptions import InputError, counted, did_you_mean
from bagwise.labels import Intervals, LabelCounts
from bagwise.solvers.censored import concordance
from bagwise.solvers.survival import step_values
from bagwise.validation import are_times

LOWER_IS_BETTER = {"log loss", "one-error", "coverage", "MAE", "integrated Brier"}
MEASURES = {
    "labels": ("accuracy", "balanced accuracy", "AUC", "log loss"),
    "label sets": ("one-error", "coverage", "average precision", "log loss"),
    "numbers": ("R2", "MAE", "Spearman"),
    "intervals": ("C index", "log-likelihood", "MAE", "within bounds"),
    "times": ("C index", "Uno's C", "integrated Brier"),
}
MEASURES["grades"] = ("quadratic kappa", "MAE", "within one", *MEASURES["labels"])
OF_RANKS = {"AUC", "C index", "Uno's C", "Spearman"}
METHODS = ("predict", "decision_function", "predict_proba")


def check_name(name: Any, known: Iterable[str], what: str) -> None:
    """Refuse a name that is not known, with the known ones and those that are similar."""
    if name not in (known := list(known)):
        raise InputError(
            f"Unknown {what} {name!r}.{did_you_mean(name, known)} Choose from {', '.join(known)}."
        )


def kind_of(y: Any, *, numbers: bool, grades: bool = False) -> str:
    """The kind of the targets, a key of `MEASURES`."""
    if numbers:
        return "intervals" if isinstance(y, Intervals) else "times" if are_times(y) else "numbers"
    return "label sets" if y.ndim > 1 else "grades" if grades else "labels"


def as_sets(y: Any) -> Any:
    """Return y; label sets for counts of labels, by which they are scored."""
    return y.indicator if isinstance(y, LabelCounts) else y


def is_lower_better(measure: str) -> bool:
    """Whether a measure, perhaps of one of several targets ("MAE of logP"), is an error."""
    return measure.partition(" of ")[0] in LOWER_IS_BETTER


def check_scoring(scoring: str | Iterable[str] | None, kind: str) -> list[str] | None:
    """Return the names of the requested scores, without duplicates; refuse unknown names.

    Parameters
    ----------
    scoring : str, iterable of str or None
        Measures of bagwise, or scorers of scikit-learn.
    kind : str
        What is known of the bags, a key of `MEASURES`.

    Returns
    -------
    list of str or None
    """
    if not scoring:
        return None
    listed = isinstance(scoring, Iterable) and not isinstance(scoring, str | Mapping)
    names: list[Any] = list(scoring) if listed else [scoring]
    known = [*MEASURES[kind], *sk.get_scorer_names()]
    for name in names:
        if name not in known:
            raise InputError(
                f"Unknown score {name!r} for {kind}.{did_you_mean(name, known)} Choose from "
                f"{', '.join(MEASURES[kind])}, or a scorer of scikit-learn, by its name."
            )
    return list(dict.fromkeys(names))


def scores_of(
    model: Any, bags: Any, y: Array, *, classes: Array, scoring: Sequence[str] | None, **how: Any
) -> tuple[dict[str, float], dict[str, Array]]:
    """Compute the scores named by `scoring` for a fitted model; by default all of bagwise.

    `classes` are the sorted labels of all folds: each fold has the same measures, even if its
    training part lacks a label. `how` are further arguments of `measures_of`: `order`, the labels
    as grades, lowest first; `targets`, the names of several numbers; `whole`, the times of all
    folds. Returns the scores, and the predictions by method.
    """
    kind = kind_of(y, numbers=predicts_numbers(model), grades=how.get("order") is not None)
    own, is_class = MEASURES[kind], kind in ("labels", "grades")
    found = predictions_of(model, bags, classes if is_class else None)
    if (whole := how.get("whole")) is not None:
        curves = survival_functions(model, bags)
        found["survival"] = np.array([step_values(c.x, c.y, time_grid(whole)) for c in curves])
    measures: dict[str, float] = {}
    if scoring is None or not set(own).isdisjoint(scoring):
        measures = measures_of(found, y, kind=kind, classes=classes, **how)
    if scoring is not None:
        measures = {
            name: measures.get(name, np.nan)
            if name in own
            else _scikit_learn_score(name, model, bags, y, classes)
            for name in scoring
        }
    return measures, found


def predictions_of(model: Any, bags: Any, classes: Array | None) -> dict[str, Array]:
    """Call the methods that a fitted model has.

    With `classes`, a class that the model was not trained on has a column too: the score minus
    infinity, the probability 0. What is not one result per bag is refused.
    """
    found = {m: np.atleast_1d(getattr(model, m)(bags)) for m in METHODS if hasattr(model, m)}
    own: Any = getattr(model, "classes_", classes)
    for method, values in found.items():
        if fault := _fault(method, values, len(bags), classes, own):
            of = type(final_estimator(model))
            raise InputError(f"{of.__module__}:{of.__qualname__}.{method} returned {fault}.")
    if classes is not None and len(own) < len(classes):
        for method in found.keys() - {"predict"}:
            values = found[method]
            if values.ndim == 1:  # two classes
                values = np.column_stack([-values, values])
            fill = -np.inf if method == "decision_function" else 0.0
            found[method] = np.full((len(values), len(classes)), fill)
            found[method][:, np.searchsorted(classes, own)] = values
    return found


def _fault(method: str, values: Array, n_bags: int, classes: Array | None, own: Any) -> str:
    """What is wrong with the results of a method, perhaps of a class of the user; else empty."""
    if len(values) != n_bags:
        return f"{counted(len(values), 'value')} for {counted(n_bags, 'bag')}: return one per bag"
    if method == "predict" and classes is not None:
        other = sorted({*values.ravel().tolist()}.difference(known := classes.tolist()), key=str)
        return f"the label {other[0]!r}: expected one of {str(known)[1:-1]}" if other else ""
    proba, columns = method == "predict_proba", values[:1].size
    if classes is not None and columns != len(own) and (proba or columns > 1 or len(own) > 2):
        return f"{counted(columns, 'column')} for {len(own)} classes: return one per class"
    if values.dtype.kind not in "biuf":
        return f"values of type {values.dtype}: expected numbers"
    # Of a label that all training bags have, or none, a set has an infinite score.
    endless = classes is None and method == "decision_function"
    wrong, kind = np.isnan(values) if endless else ~np.isfinite(values), "finite numbers"
    if proba:
        wrong, kind = ~(abs(values - 0.5) < 0.5 + 1e-6), "probabilities from 0 to 1"
    return f"{values[wrong].flat[0]}: expected {kind}" if wrong.any() else ""


def measures_of(
    found: Mapping[str, Array],
    y: Any,
    *,
    kind: str,
    classes: Array,
    order: Sequence[Any] | None = None,
    targets: Sequence[Any] = (),
    whole: Array | None = None,
) -> dict[str, float]:
    """Compare predictions of bags, by method, with what is true of the bags."""
    if kind == "intervals":
        return interval_measures(y, found["predict"])
    if kind == "times":
        return time_measures(y, found["predict"], found.get("survival"), whole)
    if kind == "numbers":
        measures = number_measures(y, found["predict"])
        for k, name in enumerate(targets):
            alone = number_measures(y[:, k], found["predict"][:, k])
            measures |= {f"{measure} of {name}": value for measure, value in alone.items()}
        return measures
    proba, scores = found.get("predict_proba"), found.get("decision_function")
    if scores is None and proba is not None:  # a class that was not trained on has no rank
        scores = np.where(proba.any(axis=0), proba, -np.inf)
    if kind == "label sets":
        y = as_sets(y)
        measures = label_set_measures(y, np.asarray(scores))
        return measures if proba is None else measures | {"log loss": label_set_log_loss(y, proba)}
    measures = {} if order is None else grade_measures(y, found["predict"], order)
    measures |= label_measures(y, found["predict"])
    if scores is not None:
        measures["AUC"] = mean_area_under_roc(y, scores, classes)
    if proba is not None:
        # A class without training bags has probability 0: one test bag would dominate the mean.
        trained = classes[proba.any(axis=0)]
        defined = np.isin(y, trained).all()
        measures["log loss"] = float(sk.log_loss(y, proba, labels=classes)) if defined else np.nan
    return measures


def _scikit_learn_score(name: str, model: Any, bags: Any, y: Array, classes: Array) -> float:
    try:
        return float(sk.get_scorer(name)(model, bags, y))
    except (ValueError, TypeError, AttributeError) as error:
        if y.ndim == 1 and not predicts_numbers(model) and len(np.unique(y)) < len(classes):
            return np.nan  # undefined in this fold, as for the measures of bagwise
        final = type(final_estimator(model)).__name__
        raise InputError(f"{name} cannot be computed for {final}: {error}") from error


def number_measures(truth: Array, predicted: Array) -> dict[str, float]:
    """Compare predicted numbers with the true ones; NaN if a measure is undefined.

    Of several numbers per bag, in columns, the means.
    """
    if truth.ndim == 2:
        each = [number_measures(*columns) for columns in zip(truth.T, predicted.T, strict=True)]
        return {name: float(np.mean([found[name] for found in each])) for name in each[0]}
    varies = len(truth) > 1 and np.ptp(truth) > 0
    ranked = varies and np.ptp(predicted) > 0
    return {
        "R2": float(sk.r2_score(truth, predicted)) if varies else np.nan,
        "MAE": float(sk.mean_absolute_error(truth, predicted)),
        "Spearman": float(spearmanr(truth, predicted).statistic) if ranked else np.nan,
    }


def interval_measures(truth: Intervals, predicted: Array) -> dict[str, float]:
    """Compare predicted numbers with intervals of the true ones.

    The log-likelihood, a mean over the bags, is that of normal errors of the deviation that makes
    it largest: of the density for exact numbers, of the probability of the interval for others. MAE
    is of the exact numbers, "within bounds" the share of the others whose prediction is possible.
    """
    (lower, upper), exact = (truth.lower - predicted, truth.upper - predicted), truth.exact
    flip = lower > 0  # the tail that is small, for accuracy
    a, b = np.where(flip, -upper, lower), np.where(flip, -lower, upper)
    ends = np.array([lower, upper])
    largest = float(np.abs(ends[np.isfinite(ends)]).max()) or 1.0

    def loss(log_scale: float) -> float:
        scale = np.exp(log_scale)
        with np.errstate(divide="ignore", invalid="ignore"):
            low, high = log_ndtr(a / scale), log_ndtr(b / scale)
            inside = high + np.log1p(-np.exp(np.minimum(low - high, 0)))
        return -float(np.mean(np.where(exact, norm.logpdf(lower, scale=scale), inside)))

    bounds = np.log(largest) + np.log([1e-6, 10])
    best = minimize_scalar(loss, bounds=bounds, method="bounded")
    ranked, possible = concordance(truth.lower, truth.upper, predicted), (lower <= 0) & (upper >= 0)
    found = {"C index": ranked, "log-likelihood": -float(best.fun)}
    found["MAE"] = float(mean_of_defined(np.abs(lower[exact])))
    return found | {"within bounds": float(mean_of_defined(possible[~exact]))}


def time_grid(whole: Array) -> Floats:
    """Times at which survival is compared: the middle four fifths of those of events."""
    return np.unique(np.quantile(whole["time"][whole["event"]], np.linspace(0.1, 0.9, 50)))


def time_measures(
    truth: Array, risk: Array, survival: Array | None = None, whole: Array | None = None
) -> dict[str, float]:
    """Compare predicted risks, and survival at `time_grid`, with times to an event.

    `whole` are times, such as those of all folds, that give the distribution of censoring.
    """
    whole = truth if whole is None else whole
    found = {
        "C index": metrics.concordance_index(truth, risk),
        "Uno's C": metrics.concordance_index(truth, risk, censoring=whole),
    }
    grid = time_grid(whole) if whole["event"].any() else np.zeros(0)
    if survival is not None and len(grid) > 1:
        error = metrics.integrated_brier_score(truth, survival, grid, censoring=whole)
        found["integrated Brier"] = error
    return found


def grade_measures(truth: Array, predicted: Array, order: Sequence[Any]) -> dict[str, float]:
    """Compare predicted grades with the true ones; errors are counted in grades."""
    position = {grade: k for k, grade in enumerate(order)}
    a, b = (np.array([position[v] for v in grades.tolist()]) for grades in (truth, predicted))
    varies = len(np.unique([a, b])) > 1
    kappa = float(sk.cohen_kappa_score(a, b, weights="quadratic")) if varies else np.nan
    errors = np.abs(a - b)
    within = float(np.mean(errors <= 1))
    return {"quadratic kappa": kappa, "MAE": float(errors.mean()), "within one": within}


def label_measures(truth: Array, predicted: Array) -> dict[str, float]:
    """Compare predicted labels with the true ones.

    Balanced accuracy is the mean recall of the classes that are present, so that it is defined for
    a fold without one of the classes.
    """
    present = {"labels": np.unique(truth), "average": "macro", "zero_division": 0}
    return {
        "accuracy": float(sk.accuracy_score(truth, predicted)),
        "balanced accuracy": float(sk.recall_score(truth, predicted, **present)),
    }


def label_set_measures(truth: Array, scores: Array) -> dict[str, float]:
    """Compare the ranking of the labels by their scores with the true label sets."""
    return {
        "one-error": metrics.one_error(truth, scores),
        "coverage": metrics.coverage(truth, scores),
        "average precision": metrics.average_precision(truth, scores),
    }


def label_set_log_loss(truth: Array, proba: Array) -> float:
    """Mean binary log loss over all labels and bags, without what is unknown (-1)."""
    proba = np.clip(proba, 1e-15, 1 - 1e-15)
    return float(-np.mean(np.where(truth == 1, np.log(proba), np.log1p(-proba))[truth >= 0]))


def area_under_roc(positive: Bools, scores: Array) -> float:
    """Area under the ROC curve; NaN if one class is absent or a score is not finite."""
    defined = 0 < positive.sum() < len(positive) and bool(np.isfinite(scores).all())
    return float(sk.roc_auc_score(positive, scores)) if defined else np.nan


def mean_area_under_roc(truth: Array, scores: Array, classes: Array) -> float:
    """Area under the ROC curve: for the second of two classes, else the mean over the classes.

    Each of several classes is ranked against all others. Classes whose area is undefined are left
    out of the mean; NaN if no class is left.
    """
    columns = scores[:, None] if scores.ndim == 1 else scores
    if len(classes) == 2:
        return area_under_roc(truth == classes[1], columns[:, -1])
    areas = [area_under_roc(truth == label, columns[:, k]) for k, label in enumerate(classes)]
    return float(mean_of_defined(areas))


def mean_of_defined(parts: Sequence[Any]) -> Any:
    """Mean over the parts in which a measure is defined; NaN if there is none."""
    return np.ma.filled(np.ma.masked_invalid(parts).mean(axis=0), np.nan)


def ranked_in_folds(measure: Any, fold: Array, *columns: Any) -> dict[str, float]:
    """Measures of all bags; those of ranks are means over the folds, each of one model.

    Ranks of predictions by several models would compare the models: the mean of the training part
    is higher where the numbers that were held out are lower.
    """
    found: dict[str, float] = measure(*columns)
    parts = [measure(*(column[fold == k] for column in columns)) for k in np.unique(fold)]
    ranked = found.keys() & OF_RANKS
    return found | {n: float(mean_of_defined([part[n] for part in parts])) for n in ranked}
