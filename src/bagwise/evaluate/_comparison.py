"""What an evaluation returns: scores of one or several models, their differences and ranks."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from bagwise._common.extras import import_extra
from bagwise._common.types import Array, Floats
from bagwise.evaluate._held_out_bags import N_DRAWS, HeldOutBags, add_row
from bagwise.evaluate._measures import MEASURES, check_name, is_lower_better
from bagwise.exceptions import InputError, counted

OWN = MEASURES.values()
_SURE = 0.95  # smallest probability at which models are called equal
_LATEX = {ord(c): f"\\{c}" for c in "&%$#_{}"} | {ord("<"): "$<$", ord("\\"): r"\textbackslash{}"}
_LIKELY = 0.75  # smallest probability at which one is "probably better"


# Training parts of different folds overlap, so the scores of folds are correlated and the usual
# t-test finds differences where there are none. The corrected one uses the variance of the mean
# difference that Nadeau and Bengio derived for resampling: (1/J + n_test/n_train) s^2, for J folds
# whose differences have the variance s^2.
class TTest(NamedTuple):
    """The result of `corrected_t_test`; NaN for what cannot be estimated.

    Attributes
    ----------
    mean, lower, upper : float
        The mean difference, and the ends of its interval.
    p_value : float
        The two-sided p-value.
    worse, equal, better : float
        The probabilities that the mean difference is below -`rope`, between -`rope` and `rope`, and
        above `rope`.
    """

    mean: float
    lower: float
    upper: float
    p_value: float
    worse: float
    equal: float
    better: float


def corrected_t_test(
    differences: ArrayLike, *, test_ratio: float, confidence: float = 0.95, rope: float = 0.01
) -> TTest:
    """Test a mean difference between two models: the corrected resampled t-test.

    Its distribution is also the posterior of the Bayesian correlated t-test, which gives the
    probabilities that one model is better than, equal to or worse than the other.

    Parameters
    ----------
    differences : array-like of shape (n_folds,)
        Differences between the scores of two models, fold by fold.
    test_ratio : float
        The number of test bags divided by the number of training bags: 1/4 for five folds.
    confidence : float, default=0.95
        The confidence of the interval.
    rope : float, default=0.01
        The region of practical equivalence: a difference of at most this counts as equal.

    Returns
    -------
    TTest
        If all differences are zero, the interval has width zero and the p-value is 1. Everything
        but the mean is NaN for one fold, or the same difference other than zero in all folds.

    References
    ----------
    Nadeau, Bengio. Inference for the generalization error. Machine Learning 52, 2003.

    Benavoli, Corani, Demšar, Zaffalon. Time for a change: a tutorial for comparing multiple
    classifiers through Bayesian analysis. JMLR 18, 2017.

    Examples
    --------
    >>> from bagwise.evaluate import corrected_t_test
    >>> result = corrected_t_test([0.02, 0.05, -0.01, 0.03, 0.01], test_ratio=0.25)
    >>> round(result.mean, 3), round(result.p_value, 3), round(result.better, 2)
    (0.02, 0.253, 0.73)
    """
    values = np.asarray(differences, dtype=float)
    if values.ndim != 1 or not len(values) or not (np.abs(values) < 1e100).all():
        raise InputError(f"differences of shape {values.shape}: expected a finite number per fold.")
    if not (0 < test_ratio < np.inf and 0 < confidence < 1 and 0 <= rope < np.inf):
        raise InputError(
            f"test_ratio is {test_ratio}, confidence {confidence} and rope {rope}: expected "
            "numbers above 0 (0.25 for five folds), between 0 and 1, and of at least 0."
        )
    values = np.where(np.abs(values) < 1e-12, 0.0, values)  # smaller values are rounding errors
    n_folds, mean = len(values), float(values.mean())
    if not values.any():
        return TTest(0.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0)
    if n_folds < 2 or np.ptp(values) <= 1e-9 * np.abs(values).max():  # the folds do not vary
        return TTest(mean, *[float("nan")] * 6)
    scale = np.sqrt((1 / n_folds + test_ratio) * values.var(ddof=1))
    posterior = stats.t(n_folds - 1, loc=mean, scale=scale)
    lower, upper = map(float, posterior.interval(confidence))
    p_value = 2 * float(min(posterior.cdf(0), posterior.sf(0)))
    worse, better = float(posterior.cdf(-rope)), float(posterior.sf(rope))
    return TTest(mean, lower, upper, p_value, worse, max(0.0, 1 - worse - better), better)


@dataclass(frozen=True)
class Evaluation:
    """The scores of a model, fold by fold.

    Attributes
    ----------
    name : str
        The model.
    scores : dict of str to list of float
        The scores of each measure, one per fold; NaN if the measure is undefined in a fold.
    seconds : list of float
        The time to fit and to score, one per fold.
    held_out : HeldOutBags or None
        The predictions for the held-out bags; None if only scores are known.
    """

    name: str
    scores: Mapping[str, list[float]]
    seconds: list[float]
    held_out: HeldOutBags | None = field(default=None, repr=False)

    def mean(self, measure: str) -> float | None:
        """The mean of a measure over the folds; None if the model lacks it in all folds."""
        return self._over_folds(np.mean, measure)

    def std(self, measure: str) -> float | None:
        """The standard deviation of a measure over the folds; None if the model lacks it."""
        return self._over_folds(np.std, measure)

    def summary(self) -> dict[str, Any]:
        """The evaluation as plain values, e.g. for JSON; None if a score is undefined."""
        measures = {
            measure: {
                "mean": self.mean(measure),
                "sd": self.std(measure),
                "folds": [None if np.isnan(value) else value for value in values],
            }
            for measure, values in self.scores.items()
        }
        return {"name": self.name, **measures, "seconds": float(np.sum(self.seconds))}

    def predictions(self) -> dict[str, Array]:
        """Return the predictions for the held-out bags, a row per bag and repeat.

        Returns
        -------
        dict of str to ndarray
            ``id`` of the bag, ``repeat`` and ``fold`` (from 1), its ``group`` if there are groups,
            ``method``, the true ``label`` (or number), the ``predicted`` one, and, if the model has
            them, ``score`` and ``probability`` of the second of two classes, otherwise
            ``score:<class>`` and ``probability:<class>`` of each class.
        """
        return self._rows.table(self.name)

    def intervals(
        self,
        *,
        confidence: float = 0.95,
        n_draws: int = N_DRAWS,
        random_state: int = 0,
        with_value: bool = False,
    ) -> dict[str, tuple[float, ...]]:
        """Compute an interval of each measure, by bootstrap over groups of bags.

        Each draw consists of as many groups (such as patients; without groups: bags) as there are,
        with replacement. The measure is computed in each fold from the predictions for the bags
        that were drawn, and averaged over the folds. The interval thus describes the uncertainty
        that comes from the number of test bags; the models are not refitted. Numbers of all folds
        are measured together: the R2 of the few bags of a fold varies too much. If an interval of a
        share, such as accuracy or AUC, reaches 0 or 1, where percentiles fail, it is extended by
        Wilson's interval.

        Parameters
        ----------
        confidence : float, default=0.95
            The confidence of the intervals.
        n_draws : int, default=1000
            Number of draws; 200 for scorers of scikit-learn, numbers in intervals and times.
        random_state : int, default=0
            Seed of the draws.
        with_value : bool, default=False
            Whether the value comes before the ends: for numbers that of all folds together, which
            is not the mean of the folds.

        Returns
        -------
        dict of str to tuple of float
            The ends of the interval of each measure that a fold defines; NaN if most draws do not
            define it.
        """
        others = [m for m in self.scores if not any(m.partition(" of ")[0] in k for k in OWN)]
        how: Any = {"confidence": confidence, "n_draws": n_draws, "seed": random_state}
        own = self._rows.intervals(**how) | (self._rows.intervals(others, **how) if others else {})
        defined = [name for name in self.scores if self.mean(name) is not None]
        return {name: own[name][not with_value :] for name in defined if name in own}

    def by(
        self, values: ArrayLike, *, confidence: float = 0.95, random_state: int = 0
    ) -> dict[str, list[Any]]:
        """Measure the model on parts of the bags, such as each hospital.

        The held-out bags of a part are measured together, whatever their folds (with several
        repeats, the mean over the repeats), because a fold may have few of them.

        Parameters
        ----------
        values : array-like of shape (n_bags,)
            The part of each bag, such as the name of its hospital.
        confidence, random_state
            As for `intervals`.

        Returns
        -------
        dict of str to list
            A row per part: ``part``, ``bags``, and each measure with the ``lower`` and ``upper``
            end of its interval.
        """
        rows, parts = self._rows, np.asarray(values)
        n_bags = rows.position.max() + 1
        if parts.ndim != 1 or len(parts) < n_bags:
            raise InputError(f"values have shape {parts.shape}: expected one for each bag.")
        own = parts[rows.position]
        columns: dict[str, list[Any]] = {}
        for part in np.unique(own).tolist():
            held = rows.take(own == part)
            row = {"part": part, "bags": len(np.unique(held.position))}
            found = held.intervals(by=held.repeat, confidence=confidence, seed=random_state)
            add_row(columns, row, found)
        return columns

    def per_class(self, *, confidence: float = 0.95, random_state: int = 0) -> dict[str, list[Any]]:
        """Measure each class against all others, on all held-out bags together.

        Parameters
        ----------
        confidence, random_state
            As for `intervals`.

        Returns
        -------
        dict of str to list
            A row per class: ``label``, ``bags``, sensitivity (recall), specificity, precision, F1,
            AUC and average precision, each with its ``lower`` and ``upper`` end.
        """
        return self._rows.per_class(confidence=confidence, seed=random_state)

    @property
    def _rows(self) -> HeldOutBags:
        if self.held_out is None:
            raise InputError(f"{self.name} has scores only: there are no held-out predictions.")
        return self.held_out

    def _over_folds(self, statistic: Callable[..., Any], measure: str) -> float | None:
        if not any(measure in known for known in MEASURES.values()):
            check_name(measure, self.scores, "measure")
        values = np.array(self.scores.get(measure, []), dtype=float)
        values = values[~np.isnan(values)]
        return float(statistic(values)) if len(values) else None


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
        Mean over the folds of the ratio of test bags to training bags.
    """

    evaluations: Sequence[Evaluation]
    test_ratio: float

    def __len__(self) -> int:
        return len(self.evaluations)

    def __getitem__(self, index: Any) -> Any:
        return self.evaluations[index]

    def __repr__(self) -> str:
        return f"Comparison({self.table()})"

    @property
    def names(self) -> list[str]:
        """The names of the models."""
        return [evaluation.name for evaluation in self]

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
        columns = {"method": self.names}
        for measure in self.measures:
            pairs = [(cell(each.mean(measure)), cell(each.std(measure))) for each in self]
            columns[measure] = [" ± ".join(filter(None, pair)) for pair in pairs]
        columns["time"] = [f"{sum(evaluation.seconds):.1f} s" for evaluation in self]
        return columns

    def predictions(self) -> dict[str, Array]:
        """Return the predictions of all models for the held-out bags, one below the other.

        Returns
        -------
        dict of str to ndarray
            As for `Evaluation.predictions`; empty cells are None.
        """
        tables = [evaluation.predictions() for evaluation in self]
        none = np.full(len(tables[0]["id"]), None)
        names = dict.fromkeys(name for table in tables for name in table)
        return {n: np.concatenate([table.get(n, none) for table in tables]) for n in names}

    def numbers(self, measure: str | None = None) -> dict[str, Array]:
        """Collect what `table` shows as numbers, with the differences from the first model.

        Parameters
        ----------
        measure : str, default=None
            The measure of the differences, see `differences`.

        Returns
        -------
        dict of str to ndarray
            A row per model: ``method``; each measure and its standard deviation over the folds
            (``AUC sd``); ``difference`` from the first model with its interval (``lower``,
            ``upper``) and ``p_value``; ``seconds``. None for what is undefined.
        """
        columns: dict[str, list[Any]] = {"method": self.names}
        for name in self.measures:
            columns[name] = [found.mean(name) for found in self]
            columns[f"{name} sd"] = [found.std(name) for found in self]
        tests = [found.summary() for found in self.differences(measure)]  # the first has none
        for name in ("mean", "lower", "upper", "p_value"):
            head = "difference" if name == "mean" else name
            columns[head] = [None, *(found[name] for found in tests)]
        columns["seconds"] = [sum(found.seconds) for found in self]
        return {name: np.array(values, dtype=object) for name, values in columns.items()}

    def to_frame(self, measure: str | None = None) -> Any:
        """Return `numbers` as a pandas data frame.

        Parameters
        ----------
        measure : str, default=None
            The measure of the differences; by default AUC if it is defined, else the first one.

        Returns
        -------
        pandas.DataFrame
        """
        frame = import_extra("pandas", extra="frames").DataFrame(self.numbers(measure))
        return frame.astype(dict.fromkeys(frame.columns[1:], float))

    def to_latex(self, measure: str | None = None) -> str:
        """Return two tables for a paper (LaTeX with booktabs): the scores, and the differences.

        Parameters
        ----------
        measure : str, default=None
            The measure of the differences, see `differences`.

        Returns
        -------
        str
            The mean of each measure with its interval (see `Evaluation.intervals`); then the
            differences from the first model, if there are others. Undefined cells are empty.
        """
        rows, folds = [["method", *self.measures]], counted(len(self[0].seconds), "fold")
        for each in self:
            ends = each.intervals() if each.held_out else {}
            rows.append([each.name, *(cell(each.mean(m), *ends.get(m, ())) for m in self.measures)])
        text = _latex(rows, f"Means over {folds}, with 95% intervals by bootstrap.")
        tests = [["method", "difference", "p"]]
        for d in (found := self.differences(measure)):
            p_value = "< 0.001" if d.p_value < 0.001 else cell(d.p_value)
            tests.append([d.name, cell(d.mean, d.lower, d.upper), p_value])
        if found:
            about = f"{found[0].measure} minus that of {self[0].name}, positive if better"
            text += _latex(tests, f"{about}, with 95% intervals: corrected resampled t-test.")
        return text

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
            if models have neither; quadratic kappa for grades, R2 for numbers.
        reference : str, default=None
            The name of a model; the first by default.
        rope : float, default=0.01
            The region of practical equivalence: a difference of at most this counts as equal.
        confidence : float, default=0.95
            The confidence of the intervals.

        Returns
        -------
        list of Difference
            One per other model, in their order: ``name``, ``reference``, ``measure``, ``n_folds``,
            the fields of `corrected_t_test` (``mean`` is positive if the model is better) and a
            ``verdict``; ``str`` describes it in a sentence.
        """
        measure, reference = self.known_measure(measure), reference or self[0].name
        check_name(reference, self.names, "model")
        other = _scores(self[self.names.index(reference)], measure)
        settings: Any = {"rope": rope, "confidence": confidence}
        found = []
        for each in (each for each in self if each.name != reference):
            scores = _scores(each, measure)
            if len(scores) != len(other):
                raise InputError(
                    f"{len(scores)} and {len(other)} folds: a comparison needs the same folds."
                )
            gains = (other - scores) if is_lower_better(measure) else (scores - other)
            gains, test = gains[~np.isnan(gains)], TTest(*[np.nan] * 7)
            if len(gains):
                test = corrected_t_test(gains, test_ratio=self.test_ratio, **settings)
            found.append(Difference(each.name, reference, measure, len(gains), *test, **settings))
        return found

    def known_measure(self, measure: str | None = None) -> str:
        """Return a measure, by default the one that models are compared by; refuse unknown ones."""
        if measure is not None:
            check_name(measure, self.measures, "measure")
            return measure
        usual = ("quadratic kappa", "AUC", "average precision", "accuracy", "R2", "C index")
        defined = (m for m in usual if any(evaluation.mean(m) is not None for evaluation in self))
        return next(defined, self.measures[0])


def _scores(evaluation: Evaluation, measure: str) -> Floats:
    return np.array(evaluation.scores.get(measure, [np.nan] * len(evaluation.seconds)))


def cell(value: float | None, *ends: float, digits: int = 3) -> str:
    """A number and its interval, if they are defined: "0.853 (0.801 to 0.902)"."""
    if value is None or np.isnan(value):
        return ""
    shown = " to ".join(f"{end:.{digits}f}" for end in ends if not np.isnan(end))
    return f"{value:.{digits}f}" + (f" ({shown})" if shown else "")


def _latex(rows: Sequence[Sequence[str]], caption: str) -> str:
    head, *lines = (" & ".join(c.translate(_LATEX) for c in row) + r" \\" for row in rows)
    lines = [r"\toprule", head, r"\midrule", *lines, r"\bottomrule", r"\end{tabular}"]
    start = rf"\begin{{table}}\caption{{{caption.translate(_LATEX)}}}\begin{{tabular}}"
    text = "\n".join([f"{start}{{{'l' * len(rows[0])}}}", *lines, r"\end{table}", ""])
    return re.sub(r"(?<![\w-])-(?=\d)", "$-$", text)  # minus


# Ranks of models over several data sets


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
    >>> from bagwise.evaluate._comparison import critical_difference
    >>> round(critical_difference(4, 14), 2)
    1.25
    """
    if n_models < 2 or not 0 < alpha < 1:
        raise InputError(
            f"{n_models} models, alpha {alpha}: expected at least 2 models, and alpha from 0 to 1."
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
    sign = -1.0 if is_lower_better(measure) else 1.0
    means = {evaluation.name: evaluation.mean(measure) for evaluation in given}
    return {model: np.nan if mean is None else sign * mean for model, mean in means.items()}


def _friedman(places: Floats) -> float:
    if places.shape[1] < 3:
        return float("nan")
    if np.ptp(places) == 0:  # all models are equal on all data sets
        return 1.0
    return float(stats.friedmanchisquare(*places.T).pvalue)
