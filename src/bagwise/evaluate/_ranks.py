"""Ranks of models over several data sets."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy import stats

from bagwise._common.types import Floats
from bagwise.evaluate._comparison import Comparison
from bagwise.evaluate._measures import LOWER_IS_BETTER
from bagwise.exceptions import InputError


@dataclass(frozen=True)
class Ranks:
    """The ranks of models on several data sets; rank 1 is the best.

    Attributes
    ----------
    models, data_sets : list of str
        The names of the models and of the data sets.
    ranks : ndarray of shape (n_data_sets, n_models)
        The rank of each model on each data set; equal scores share their mean rank.
    p_value : float
        The p-value of the Friedman test that all models are equal. NaN for two models, for which
        the test is not defined.
    critical_difference : float
        Models whose mean ranks differ by less do not differ significantly (Nemenyi test).
    alpha : float
        The level of that test.
    """

    models: list[str]
    data_sets: list[str]
    ranks: Floats
    p_value: float
    critical_difference: float
    alpha: float

    @property
    def mean_ranks(self) -> Floats:
        """The mean rank of each model over the data sets."""
        return self.ranks.mean(axis=0)

    def groups(self) -> list[list[str]]:
        """Return the largest groups of models that do not differ significantly, best first.

        Returns
        -------
        list of list of str
            At least two models each, by mean rank.
        """
        order = np.argsort(self.mean_ranks, kind="stable")
        means = self.mean_ranks[order]
        # A group starts at each model, and ends before the first model that is too far from it.
        ends = np.searchsorted(means, means + self.critical_difference, side="left")
        spans = [(i, int(end)) for i, end in enumerate(ends) if end - i > 1]
        largest = [(i, end) for i, end in spans if not any(j < i and e >= end for j, e in spans)]
        return [[self.models[k] for k in order[i:end]] for i, end in largest]


def critical_difference(n_models: int, n_data_sets: int, *, alpha: float = 0.05) -> float:
    """Compute the critical difference of mean ranks, by the Nemenyi test.

    Parameters
    ----------
    n_models, n_data_sets : int
        Number of models, and of data sets.
    alpha : float, default=0.05
        The level of the test: the probability to find a difference among equal models.

    Returns
    -------
    float

    References
    ----------
    Demšar. Statistical comparisons of classifiers over multiple data sets. JMLR 7, 2006.

    Examples
    --------
    >>> from bagwise.evaluate._ranks import critical_difference
    >>> round(critical_difference(4, 14), 2)
    1.25
    """
    if n_models < 2 or not 0 < alpha < 1:
        raise InputError(
            f"{n_models} models and alpha {alpha}: expected at least 2 models, and alpha between "
            "0 and 1, such as 0.05."
        )
    # The quantile for infinitely many degrees of freedom; Demsar's Table 5 divides it by sqrt(2).
    q = stats.studentized_range.ppf(1 - alpha, n_models, np.inf) / np.sqrt(2)
    return float(q * np.sqrt(n_models * (n_models + 1) / (6 * n_data_sets)))


def ranks(
    scores: Mapping[str, Comparison | Mapping[str, float]],
    *,
    measure: str | None = None,
    alpha: float = 0.05,
) -> Ranks:
    """Rank models on several data sets: mean ranks, Friedman test, critical difference.

    Parameters
    ----------
    scores : mapping of str to Comparison, or to mapping of str to float
        For each data set the result of `compare`, or a score per model, higher being better. All
        data sets need the same models.
    measure : str, default=None
        The measure by which the models of a `Comparison` are ranked; by default that of
        `Comparison.differences`.
    alpha : float, default=0.05
        The level of the Nemenyi test.

    Returns
    -------
    Ranks

    References
    ----------
    Demšar. Statistical comparisons of classifiers over multiple data sets. JMLR 7, 2006.

    Examples
    --------
    >>> from bagwise.evaluate import ranks
    >>> found = ranks({"Musk1": {"nsk": 0.9, "sil": 0.8}, "Fox": {"nsk": 0.6, "sil": 0.5}})
    >>> found.models, found.mean_ranks.tolist()
    (['nsk', 'sil'], [1.0, 2.0])
    """
    tables = {name: _means(given, measure) for name, given in scores.items()}
    models = list(next(iter(tables.values()), {}))
    for name, table in tables.items():
        found = [model for model, score in table.items() if np.isfinite(score)]
        if set(found) != set(models):
            raise InputError(
                f"{name} has scores of {', '.join(found)}, the first data set lists "
                f"{', '.join(models)}: rank the same models on all data sets."
            )
    distance = critical_difference(len(models), len(tables), alpha=alpha)
    values = np.array([[table[model] for model in models] for table in tables.values()])
    places = stats.rankdata(-values, axis=1)
    return Ranks(models, list(tables), places, _friedman(places), distance, alpha)


def _means(given: Comparison | Mapping[str, float], measure: str | None) -> dict[str, float]:
    if not isinstance(given, Comparison):
        return {model: float(score) for model, score in given.items()}
    measure = given.known_measure(measure)
    sign = -1.0 if measure in LOWER_IS_BETTER else 1.0
    means = {evaluation.name: evaluation.mean(measure) for evaluation in given}
    return {model: np.nan if mean is None else sign * mean for model, mean in means.items()}


def _friedman(places: Floats) -> float:
    if places.shape[1] < 3:
        return float("nan")
    if np.ptp(places) == 0:  # all models are equal on all data sets
        return 1.0
    return float(stats.friedmanchisquare(*places.T).pvalue)
