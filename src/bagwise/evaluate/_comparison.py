"""Comparison of several models on the same folds."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bagwise._common.types import Floats
from bagwise.evaluate._evaluation import Evaluation, evaluations, predict_numbers
from bagwise.evaluate._folds import Seed, Splitter, prepare
from bagwise.evaluate._measures import LOWER_IS_BETTER, did_you_mean
from bagwise.evaluate._significance import TTest, corrected_t_test
from bagwise.exceptions import InputError

_SURE = 0.95  # smallest probability at which models are called equal
_LIKELY = 0.75  # smallest probability at which one is "probably better"


@dataclass(frozen=True)
class Difference:
    """How much better a model is than the reference, in one measure.

    Attributes
    ----------
    name, reference : str
        The two models.
    measure : str
        The measure.
    n_folds : int
        The number of folds in which both models have this measure.
    mean : float
        The mean difference; positive if the model is better, also for measures that are better
        when lower. NaN without folds.
    lower, upper : float
        The ends of its interval, by the corrected resampled t-test (see `corrected_t_test`). NaN
        if it cannot be estimated: one fold, or the same difference in all folds.
    p_value : float
        The p-value of that test; NaN likewise.
    worse, equal, better : float
        The probabilities that the model is worse than, equal to (within `rope`) or better than the
        reference; NaN likewise.
    rope : float
        The region of practical equivalence.
    confidence : float
        The confidence of the interval.
    """

    name: str
    reference: str
    measure: str
    n_folds: int
    mean: float
    lower: float
    upper: float
    p_value: float
    worse: float
    equal: float
    better: float
    rope: float
    confidence: float

    def summary(self) -> dict[str, Any]:
        """The difference as plain values, e.g. for JSON; None instead of NaN."""
        values = asdict(self)
        return {k: None if isinstance(v, float) and np.isnan(v) else v for k, v in values.items()}

    @property
    def verdict(self) -> str:
        """One of "better", "probably better", "equal", "unclear", "probably worse" and "worse".

        "better" and "worse": the interval does not contain 0, or there is none. "equal": the
        probability of a difference within `rope` is at least 95%. "probably": the larger of the
        other two probabilities is at least 75%.
        """
        word = "better" if self.mean > 0 else "worse"
        if self.equal >= _SURE:
            return "equal"
        if not self.n_folds:
            return "unclear"
        if np.isnan(self.p_value) or not self.lower <= 0 <= self.upper:
            return word
        return f"probably {word}" if max(self.better, self.worse) >= _LIKELY else "unclear"

    @property
    def size(self) -> str:
        """The size of the difference, with its interval: "by 0.02 AUC (95% interval ...)"."""
        text = f"by {abs(self.mean):.3f} {self.measure}"
        if np.isnan(self.p_value):
            return text
        # The interval has the sign of the stated size: for "worse by 0.02" it is negated.
        lower, upper = (self.lower, self.upper) if self.mean > 0 else (-self.upper, -self.lower)
        return f"{text} ({100 * self.confidence:g}% interval {lower:.3f} to {upper:.3f})"

    def __str__(self) -> str:
        """Describe the difference in one sentence."""
        if not self.n_folds:
            return f"{self.name}: no fold has the {self.measure} of both it and {self.reference}."
        folds = f"in {'the only fold' if self.n_folds == 1 else f'all {self.n_folds} folds'}"
        if self.mean == 0 and self.equal == 1:
            return f"{self.name}: the same {self.measure} as {self.reference} {folds}."
        word = "better" if self.mean > 0 else "worse"
        start = {
            "equal": f"as good as {self.reference} within {self.rope:g}, {word}",
            "unclear": f"no clear difference from {self.reference}, {word}",
        }.get(self.verdict, f"{self.verdict} than {self.reference}")
        if np.isnan(self.p_value):
            return f"{self.name}: {start} {self.size} {folds}: no interval."
        return (
            f"{self.name}: {start} {self.size}; probability better: {self.better:.0%}, equal "
            f"within {self.rope:g}: {self.equal:.0%}, worse: {self.worse:.0%}."
        )


@dataclass(frozen=True, repr=False)
class Comparison(Sequence[Evaluation]):
    """The evaluations of several models on the same folds: a sequence of `Evaluation`.

    Parameters
    ----------
    evaluations : sequence of Evaluation
        One per model, all on the same folds.
    test_ratio : float
        Mean over the folds of the number of test bags divided by that of training bags.

    Examples
    --------
    >>> from bagwise.classification import CitationKNN, SetKernelSVM
    >>> from bagwise.datasets import make_bags
    >>> from bagwise.evaluate import compare
    >>> data = make_bags(n_bags=40, random_state=0)
    >>> models = {"nsk": SetKernelSVM(), "citation-knn": CitationKNN()}
    >>> comparison = compare(models, data.bags, data.y, cv=4, repeats=2)
    >>> comparison.table()["method"]
    ['nsk', 'citation-knn']
    >>> (difference,) = comparison.differences("accuracy")
    >>> difference.n_folds
    8
    """

    evaluations: Sequence[Evaluation]
    test_ratio: float

    def __len__(self) -> int:
        return len(self.evaluations)

    def __getitem__(self, index: Any) -> Any:
        return self.evaluations[index]

    def __repr__(self) -> str:
        measure = self.measures[0]
        means = [(evaluation.name, evaluation.mean(measure)) for evaluation in self]
        found = [f"{name} {'undefined' if m is None else f'{m:.3f}'}" for name, m in means]
        return f"Comparison({measure}: {', '.join(found)})"

    @property
    def measures(self) -> list[str]:
        """The measures that are available for at least one model."""
        return list(dict.fromkeys(m for evaluation in self for m in evaluation.scores))

    def table(self) -> dict[str, list[str]]:
        """Make a table: mean and standard deviation of each measure, and the time.

        Returns
        -------
        dict of str to list of str
            The cells of each column, by its heading; empty if a measure is undefined.
        """
        columns = {"method": [evaluation.name for evaluation in self]}
        for measure in self.measures:
            columns[measure] = [_cell(evaluation, measure) for evaluation in self]
        columns["time"] = [f"{sum(evaluation.seconds):.1f} s" for evaluation in self]
        return columns

    def differences(
        self,
        measure: str | None = None,
        *,
        reference: str | None = None,
        rope: float = 0.01,
        confidence: float = 0.95,
    ) -> list[Difference]:
        """Compare each model with a reference.

        Parameters
        ----------
        measure : str, default=None
            The measure to compare. By default AUC, average precision for label sets, and accuracy
            if models have neither.
        reference : str, default=None
            The name of a model; the first by default.
        rope : float, default=0.01
            The region of practical equivalence: a difference of at most this counts as equal.
        confidence : float, default=0.95
            The confidence of the intervals.

        Returns
        -------
        list of Difference
            One per other model, in their order.
        """
        measure = self.known_measure(measure)
        names = [evaluation.name for evaluation in self]
        if reference is not None and reference not in names:
            raise InputError(f"Unknown model {reference!r}. Choose from {', '.join(names)}.")
        other = self[0 if reference is None else names.index(reference)]
        return [
            _difference(evaluation, other, measure, self.test_ratio, rope, confidence)
            for evaluation in self
            if evaluation is not other
        ]

    def known_measure(self, measure: str | None = None) -> str:
        """Return a measure, by default the one that models are compared by; refuse unknown ones."""
        if measure is None:
            for usual in ("AUC", "average precision", "accuracy", "R2"):
                if any(evaluation.mean(usual) is not None for evaluation in self):
                    return usual
            return self.measures[0]
        if measure not in self.measures:
            raise InputError(
                f"Unknown measure {measure!r}.{did_you_mean(measure, self.measures)} Choose from "
                f"{', '.join(self.measures)}."
            )
        return measure


def compare(
    models: Mapping[str, Any],
    X: Any,
    y: ArrayLike,
    *,
    cv: Splitter = 5,
    repeats: int = 1,
    groups: ArrayLike | None = None,
    scoring: str | Iterable[str] | None = None,
    random_state: Seed = 0,
    n_jobs: int | None = None,
    after_fold: Callable[[], None] = lambda: None,
) -> Comparison:
    """Evaluate several models by cross-validation on the same folds.

    Parameters
    ----------
    models : mapping of str to estimator
        The models by their names; they are cloned.
    X, y, cv, repeats, groups, scoring, random_state, n_jobs
        As for `evaluate`.
    after_fold : callable, default: does nothing
        Called after each model has been scored on a fold, e.g. to show progress.

    Returns
    -------
    Comparison
        The evaluations in the order of `models`, and their differences.

    See Also
    --------
    ranks : Compare models over several data sets.
    """
    if not isinstance(models, Mapping):
        raise InputError(
            f"models is of type {type(models).__name__}: expected a dict of models by name, such "
            'as {"nsk": SetKernelSVM()}.'
        )
    if not models:
        raise InputError("no models were given: give at least one, by its name.")
    numbers = predict_numbers(models)
    prepared = prepare(
        X, y, cv, groups, repeats=repeats, random_state=random_state, numbers=numbers
    )
    found = evaluations(models, prepared, scoring=scoring, n_jobs=n_jobs, after_fold=after_fold)
    ratio = float(np.mean([len(test) / len(train) for train, test in prepared.folds]))
    return Comparison(found, ratio)


def _difference(
    model: Evaluation,
    reference: Evaluation,
    measure: str,
    test_ratio: float,
    rope: float,
    confidence: float,
) -> Difference:
    scores, others = _scores(model, measure), _scores(reference, measure)
    if len(scores) != len(others):
        raise InputError(
            f"{model.name} has {len(scores)} folds and {reference.name} {len(others)}: a "
            "comparison needs the same folds."
        )
    gains = (others - scores) if measure in LOWER_IS_BETTER else (scores - others)
    gains = gains[~np.isnan(gains)]
    found = TTest(*[np.nan] * 7)
    if len(gains):
        found = corrected_t_test(gains, test_ratio=test_ratio, confidence=confidence, rope=rope)
    return Difference(model.name, reference.name, measure, len(gains), *found, rope, confidence)


def _scores(evaluation: Evaluation, measure: str) -> Floats:
    return np.array(evaluation.scores.get(measure, [np.nan] * len(evaluation.seconds)))


def _cell(evaluation: Evaluation, measure: str) -> str:
    mean = evaluation.mean(measure)
    return "" if mean is None else f"{mean:.3f} ± {evaluation.std(measure):.3f}"
