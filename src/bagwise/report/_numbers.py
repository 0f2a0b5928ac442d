"""The report on a regressor: observed and predicted numbers, their errors, and contributions."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from bagwise._common.types import Array, Bools, Floats
from bagwise.bags import Bags
from bagwise.exceptions import InputError
from bagwise.model_selection import HeldOut
from bagwise.model_selection._measures import number_measures
from bagwise.report._charts import scatter
from bagwise.report._page import Section, SideBySide, Table
from bagwise.report._subject import Subject

MOST_ERRORS = 15  # bags that are listed

_OPTIMISTIC = (
    "these errors are optimistic: they are measured on the training data. Use bags it was not "
    "fitted on, or cross-validate (bagwise report --folds 5; held_out= in Python)."
)


def target_section(subject: Subject) -> Section | None:
    """Summarise the distribution of the target."""
    truth = subject.true_numbers
    if truth is None:
        return None
    known = truth[np.isfinite(truth)]
    facts = {
        "known": len(known),
        "unknown": len(truth) - len(known),
        "mean": float(known.mean()),
        "standard deviation": float(known.std()),
        "smallest": float(known.min()),
        "median": float(np.median(known)),
        "largest": float(known.max()),
    }
    return Section("The numbers", Table({"": list(facts), "value": [*facts.values()]}, "Target"))


def number_section(
    subject: Subject, held_out: HeldOut | None, seen: Bools | None
) -> Section | None:
    """Compare predicted with known numbers.

    Parameters
    ----------
    subject : Subject
        The model, the bags, their numbers and the predictions.
    held_out : HeldOut or None
        Predictions by models that were not fitted on the bags; the errors are then of these.
    seen : ndarray of bool of shape (n_bags,) or None
        Which bags the model was fitted on, if that is known.

    Returns
    -------
    Section or None
    """
    truth, predicted = subject.true_numbers, subject.predicted_numbers
    if truth is None or predicted is None:
        return None
    assessed, baselines = np.isfinite(truth), {}
    if held_out is not None:
        predicted = as_numbers(held_out.predicted, subject.bags)
        assessed &= np.isfinite(predicted)
        baselines = {
            f"baseline: {name}": as_numbers(other.predicted, subject.bags)
            for name, other in held_out.baselines.items()
        }
        how = (
            f"Errors by {held_out.how}: each bag was predicted by a model that was not fitted on "
            "it."
        )
    else:
        assessed, how = _not_in_training(assessed, seen)
    if not assessed.any():
        return None
    if not baselines:
        baselines = {"baseline: mean": np.full(len(truth), truth[assessed].mean())}
    models = {"this model": predicted} | baselines
    parts: list[Any] = [how, _measures(models, truth, assessed)]
    own = number_measures(truth[assessed], predicted[assessed])["MAE"]
    for name, other in baselines.items():
        rival = number_measures(truth[assessed], other[assessed])["MAE"]
        if rival <= own and not np.array_equal(other, predicted):
            parts.append(
                f"The model is not better than the {name.replace(':', '')}: mean absolute error "
                f"{own:.3f} against {rival:.3f}."
            )
    bags = np.flatnonzero(assessed)
    titles = [
        f"{subject.bag_names[i]}: observed {truth[i]:.4g}, predicted {predicted[i]:.4g}"
        for i in bags
    ]
    plot = scatter(
        truth[bags],
        predicted[bags],
        bags.tolist(),
        titles,
        x_label="observed",
        y_label="predicted",
        caption="Each point is a bag; on the line predicted and observed are equal.",
        alt=f"Predicted against observed numbers of {len(bags):,} bags.",
    )
    parts.append(SideBySide([plot, _largest_errors(subject, truth, predicted, bags)]))
    return Section("Evaluation", *parts)


def errors_of(subject: Subject, held_out: HeldOut | None) -> Floats | None:
    """The absolute error of each bag, NaN if its number is unknown."""
    if subject.true_numbers is None or subject.predicted_numbers is None:
        return None
    predicted = subject.predicted_numbers
    if held_out is not None:
        predicted = as_numbers(held_out.predicted, subject.bags)
    return np.abs(predicted - subject.true_numbers)


def as_numbers(values: Array, bags: Bags) -> Floats:
    """Held-out predictions as numbers, NaN if there is none."""
    listed = np.asarray(values).tolist()
    if len(listed) != len(bags):
        raise InputError(
            f"{len(listed)} held-out predictions were given for {len(bags)} bags: give one each."
        )
    return np.array([np.nan if v is None else float(v) for v in listed])


def _not_in_training(assessed: Bools, seen: Bools | None) -> tuple[Bools, str]:
    if seen is None:
        return assessed, "If the model was fitted on these bags, " + _OPTIMISTIC
    if not (assessed & ~seen).any():
        return assessed, "The model was fitted on these bags, so " + _OPTIMISTIC
    if not seen.any():
        return assessed, "The model was not fitted on any of these bags."
    new = assessed & ~seen
    return new, (
        f"Errors are computed on the {int(new.sum()):,} bags that the model was not fitted on; "
        f"{int(seen.sum()):,} others are training data."
    )


def _measures(models: Mapping[str, Floats], truth: Floats, assessed: Bools) -> Table:
    rows = [number_measures(truth[assessed], found[assessed]) for found in models.values()]
    squares = [np.sqrt(np.mean((truth - found)[assessed] ** 2)) for found in models.values()]
    columns: dict[str, list[Any]] = {"model": list(models)}
    columns |= {name: [row[name] for row in rows] for name in rows[0]}
    columns["RMSE"] = [float(value) for value in squares]
    n_bags = int(assessed.sum())
    caption = f"{n_bags:,} bags; R2 and Spearman are better when higher, MAE and RMSE when lower"
    return Table(columns, caption)


def _largest_errors(subject: Subject, truth: Floats, predicted: Floats, bags: Array) -> Table:
    errors = np.abs(truth - predicted)[bags]
    worst = bags[np.argsort(-errors, kind="stable")[:MOST_ERRORS]]
    columns = {
        "bag": [subject.bag_names[i] for i in worst],
        "observed": truth[worst].tolist(),
        "predicted": predicted[worst].tolist(),
        "error": (predicted - truth)[worst].tolist(),
    }
    return Table(columns, "The largest errors", bags=worst.tolist())
