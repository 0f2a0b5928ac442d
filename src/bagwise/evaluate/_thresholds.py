"""Thresholds of the score of a bag for a given sensitivity, specificity or precision."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bagwise._common.types import Array, Bools, Floats
from bagwise.evaluate._comparison import cell
from bagwise.evaluate._held_out_bags import N_DRAWS, draws_of, intervals_of_class
from bagwise.exceptions import InputError

RATES = ("sensitivity", "specificity", "precision")
PARTS = 10  # the rates are those of each part, at the threshold of the others
TINY = 1e-9  # relative; 20 * 0.95 may be above 19


@dataclass(frozen=True)
class Threshold:
    """A threshold of scores, and the rates to expect of it.

    Attributes
    ----------
    value : float
        A bag is positive if its score is at least this.
    rate : str
        The rate that was asked for: "sensitivity", "specificity" or "precision".
    wanted : float
        Its least value on the held-out bags.
    rates : dict of str to list of three floats
        Each rate, with the ends of its 95% interval by bootstrap over groups. Each tenth of the
        groups is judged by the threshold of the others, so that the rates are not optimistic.
    n_positive, n_negative : int
        The number of held-out bags.
    """

    value: float
    rate: str
    wanted: float
    rates: dict[str, list[float]]
    n_positive: int
    n_negative: int

    def summary(self) -> dict[str, Any]:
        """The threshold as plain values, e.g. for JSON or a model file; None instead of NaN."""
        plain = {n: [None if np.isnan(v) else v for v in ends] for n, ends in self.rates.items()}
        return asdict(self) | {"rates": plain}

    def __str__(self) -> str:
        """Describe the threshold and its rates in one sentence."""
        found = (f"{name} {cell(*ends)}" for name, ends in self.rates.items())
        return (
            f"threshold {self.value:.4g} for a {self.rate} of {self.wanted:g}; to expect: "
            f"{', '.join(found)}; {self.n_positive} positive and {self.n_negative} negative bags."
        )


def choose_threshold(
    y: ArrayLike,
    scores: ArrayLike,
    *,
    sensitivity: float | None = None,
    specificity: float | None = None,
    precision: float | None = None,
    pos_label: Any = None,
    groups: ArrayLike | None = None,
    random_state: int = 0,
) -> Threshold:
    """Choose the threshold of the scores of held-out bags that reaches a rate.

    Parameters
    ----------
    y : array-like of shape (n_bags,)
        The labels, of two classes.
    scores : array-like of shape (n_bags,)
        Scores or probabilities of the positive class, by models that were not fitted on the bags,
        such as ``held_out_predictions(...).scores``.
    sensitivity, specificity, precision : float, default=None
        One of them: its least value on these bags. The threshold is the highest with this
        sensitivity, or the lowest with this specificity or precision.
    pos_label : object, default=None
        The positive label; the larger one by default.
    groups : array-like of shape (n_bags,), default=None
        The group of each bag, such as its patient.
    random_state : int, default=0
        Seed of the parts and of the bootstrap.

    Returns
    -------
    Threshold
        ``value``, and ``rates`` with intervals.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.evaluate import choose_threshold
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(200) % 2
    >>> found = choose_threshold(y, y + rng.normal(size=200), sensitivity=0.95)
    >>> round(found.value, 2), [round(end, 2) for end in found.rates["sensitivity"]]
    (-0.4, [0.94, 0.89, 0.98])
    """
    given = dict(zip(RATES, (sensitivity, specificity, precision), strict=True))
    rate, wanted = check_rate(given)
    labels, values = np.asarray(y), np.asarray(scores, dtype=float)
    classes = np.unique(labels)
    if len(classes) != 2 or values.shape != labels.shape or not np.isfinite(values).all():
        raise InputError(
            f"{len(classes)} labels, and scores of shape {values.shape} for {labels.shape} labels: "
            "expected two labels, and one finite score of the positive one for each bag."
        )
    positive = labels == (classes[1] if pos_label is None else pos_label)
    if positive.all() or not positive.any():
        raise InputError(f"pos_label={pos_label!r}: expected one of {classes.tolist()}.")
    units = np.unique(np.arange(len(labels)) if groups is None else groups, return_inverse=True)[1]
    order = np.random.RandomState(random_state).permutation(units.max() + 1)
    part, said = order[units] % PARTS, np.zeros(len(labels), dtype=bool)
    for k in np.unique(part):
        others = part != k
        if len(np.unique(positive[others])) < 2:
            raise InputError("all bags of one class are in few groups: give more groups.")
        said[~others] = values[~others] >= lowest(positive[others], values[others], rate, wanted)
    W = draws_of(units, N_DRAWS, random_state)
    found = intervals_of_class(positive, said, None, units, W, 0.95)
    rates = {name: list(found[name]) for name in RATES}
    value = lowest(positive, values, rate, wanted)
    counts = int(positive.sum()), int((~positive).sum())
    return Threshold(value, rate, wanted, rates, *counts)


def check_rate(given: dict[str, float | None]) -> tuple[str, float]:
    """The one rate that was given; an error if there is none, or several."""
    found = [(name, value) for name, value in given.items() if value is not None]
    if len(found) != 1 or not 0 < found[0][1] < 1:
        raise InputError(f"got {dict(found)}: expected one of {', '.join(RATES)}, between 0 and 1.")
    return found[0]


def lowest(positive: Bools, scores: Floats, rate: str, wanted: float) -> float:
    """The threshold that reaches a rate with the best of the other rates."""
    if rate == "sensitivity":
        own = np.sort(scores[positive])[::-1]
        return float(own[int(np.ceil(wanted * len(own) * (1 - TINY))) - 1])
    levels: Array = np.unique(scores)
    order = np.argsort(scores, kind="stable")
    start = np.searchsorted(scores[order], levels)  # the first bag that is said to be positive
    hits = np.append(positive[order][::-1].cumsum()[::-1], 0)[start]
    said = len(scores) - start
    if rate == "specificity":
        n_negative = (~positive).sum()
        reached = 1 - (said - hits) / n_negative >= wanted * (1 - TINY)
        levels = np.append(levels, np.nextafter(levels[-1], np.inf))
        reached = np.append(reached, True)
    else:
        reached = hits / said >= wanted * (1 - TINY)
    if not reached.any():
        raise InputError(f"no threshold reaches a {rate} of {wanted:g} on the held-out bags.")
    return float(levels[int(reached.argmax())])
