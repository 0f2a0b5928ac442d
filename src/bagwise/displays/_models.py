"""Displays of models: objectives by iteration, scores by fold, differences and ranks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from sklearn.calibration import calibration_curve
from sklearn.metrics import precision_recall_curve, roc_curve

from bagwise._common.types import Array
from bagwise.base._pipelines import final_estimator
from bagwise.displays._base import DIAMOND, DOTS, MARK, Display, plain_frame, plain_legend
from bagwise.evaluate._comparison import Comparison, Difference, Evaluation, Ranks
from bagwise.evaluate._measures import check_name
from bagwise.exceptions import InputError


@dataclass(eq=False)
class ObjectiveDisplay(Display):
    """Show the objective of one fit, or of several, against the iteration.

    Create it with `from_estimator` or `from_predictions`.

    Parameters
    ----------
    curves : mapping of str to ndarray of shape (n_iter,)
        The objective after each iteration, by the name of the model.

    Attributes
    ----------
    {ax_}
    {figure_}

    Examples
    --------
    >>> from bagwise.annotation import ORedLogisticRegression
    >>> from bagwise.displays import ObjectiveDisplay
    >>> bags = [[[0.0], [1.1]], [[0.2]], [[0.9]]]
    >>> model = ORedLogisticRegression().fit(bags, [{"owl", "wren"}, {"owl"}, {"wren"}])
    >>> ObjectiveDisplay.from_estimator(model)  # doctest: +SKIP
    """

    curves: Mapping[str, Array]

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> Self:
        """Plot the objective curve of a fitted model.

        Parameters
        ----------
        estimator : estimator or mapping of str to estimator
            A fitted model with ``objective_curve_``, a pipeline or a search that ends in one; or
            several by name.
        ax : matplotlib Axes, default=None
            Where to plot; a new figure by default.

        Returns
        -------
        ObjectiveDisplay
        """
        if not isinstance(estimator, Mapping):
            estimator = {type(final_estimator(estimator)).__name__: estimator}
        steps = {name: final_estimator(model) for name, model in estimator.items()}
        for name, step in steps.items():
            if not hasattr(step, "objective_curve_"):
                raise InputError(f"{name} has no objective_curve_: it is not fitted, or has none.")
        curves = {name: step.objective_curve_ for name, step in steps.items()}
        return cls.from_predictions(curves, ax=ax)

    @classmethod
    def from_predictions(cls, curves: Any, *, ax: Any = None) -> Self:
        """Plot given curves.

        Parameters
        ----------
        curves : array-like of shape (n_iter,), or mapping of str to such
            The objective after each iteration; several by name.
        ax : matplotlib Axes, default=None
            Where to plot; a new figure by default.

        Returns
        -------
        ObjectiveDisplay
        """
        curves = curves if isinstance(curves, Mapping) else {"objective": curves}
        return cls({name: np.asarray(curve) for name, curve in curves.items()}).plot(ax=ax)

    def _size(self) -> tuple[float, float]:
        return 6.4, 4.0

    def _draw(self, ax: Any) -> None:
        for name, curve in self.curves.items():
            marker = "o" if len(curve) <= 30 else ""
            ax.plot(np.arange(1, len(curve) + 1), curve, marker=marker, ms=4, label=name)
        ax.set(xlabel="iteration", ylabel="objective")
        ax.xaxis.get_major_locator().set_params(integer=True)
        plain_frame(ax, grid="both")
        plain_legend(ax)


@dataclass(eq=False)
class ComparisonDisplay(Display):
    """Show the scores of several methods: a dot per fold, and mean ± one standard deviation.

    Create it with `from_scores`.

    Parameters
    ----------
    scores : mapping of str to sequence of float
        The scores of each method, one per fold.
    score_name : str, default="accuracy"
        Name of the score, for the axis.

    Attributes
    ----------
    {ax_}
    {figure_}

    Examples
    --------
    >>> from bagwise.displays import ComparisonDisplay
    >>> display = ComparisonDisplay({"nsk": [0.9, 0.88], "majority class": [0.51, 0.5]})
    >>> display.plot()  # doctest: +SKIP
    """

    scores: Mapping[str, Sequence[float]]
    score_name: str = field(default="accuracy", kw_only=True)

    @classmethod
    def from_scores(cls, scores: Mapping[str, Any], **settings: Any) -> Self:
        """Plot the scores of several methods, the first on top.

        Parameters
        ----------
        scores : mapping of str to sequence of float
            The scores of each method, one per fold.
        **settings : object
            `score_name`, as for the class, and `ax`, the matplotlib Axes where to plot.

        Returns
        -------
        ComparisonDisplay
        """
        return cls.plotted(scores, **settings)

    @property
    def names(self) -> Sequence[str]:
        """The methods."""
        return list(self.scores)

    def _draw(self, ax: Any) -> None:
        for place, values in enumerate(self.scores.values()):
            folds = np.full(len(values), place)
            ax.plot(values, folds, "o", color=DOTS, alpha=0.7, markersize=5, mew=0)
            ax.errorbar(np.mean(values), place, xerr=np.std(values), **DIAMOND)
        ax.set_xlabel(f"{self.score_name} (dots: folds; diamond: mean ± sd)")
        plain_frame(ax, grid="x")


AXES = {
    "roc": ("false positive rate", "true positive rate"),
    "precision-recall": ("recall", "precision"),
    "calibration": ("probability of the class", "share of bags of the class"),
}


@dataclass(eq=False)
class CurveDisplay(Display):
    """Show how well scores tell each class from all others: ROC, precision-recall or calibration.

    Create it with `from_evaluation` or `from_predictions`.

    Parameters
    ----------
    curves : mapping of str to two ndarrays
        The points of each curve, x and y, by the name of the class.
    kind : {"roc", "precision-recall", "calibration"}, default="roc"
        What the curves show. Calibration compares probabilities, in ten bins, with frequencies.

    Attributes
    ----------
    {ax_}
    {figure_}

    Examples
    --------
    >>> from bagwise.classification import CitationKNN
    >>> from bagwise.datasets import make_bags
    >>> from bagwise.displays import CurveDisplay
    >>> from bagwise.evaluate import evaluate
    >>> data = make_bags(n_bags=40, random_state=0)
    >>> found = evaluate(CitationKNN(), data.bags, data.y)
    >>> CurveDisplay.from_evaluation(found, kind="precision-recall")  # doctest: +SKIP
    """

    curves: Mapping[str, tuple[Array, Array]]
    kind: str = field(default="roc", kw_only=True)

    @classmethod
    def from_evaluation(cls, evaluation: Evaluation, *, kind: str = "roc", ax: Any = None) -> Self:
        """Plot the curves of the held-out bags of an evaluation, all folds together.

        Parameters
        ----------
        evaluation : Evaluation
            The result of `evaluate`, or one of `compare`.
        kind : {"roc", "precision-recall", "calibration"}, default="roc"
            What the curves show.
        ax : matplotlib Axes, default=None
            Where to plot; a new figure by default.

        Returns
        -------
        CurveDisplay
            A curve for the second of two classes, else for each class.
        """
        held = evaluation.held_out
        each = [] if held is None or held.classes is None else [*held.each_class()]
        proba = None if held is None else held.found.get("predict_proba")
        values: list[Any] = [own for *_, own in each]
        if kind == "calibration":
            values = [None] * len(each) if proba is None else [*proba.T]
        if not each or held is None or any(v is None for v in values):
            raise InputError(f"{evaluation.name} has no scores or probabilities of held-out bags.")
        rows = []
        for k, (label, true, *_) in enumerate(each):
            known = held.known(k)
            rows.append((str(label), true[known], values[k][known]))
        two = len(rows) == 2 and held.is_labelled
        return cls.from_predictions(rows[two:], kind=kind, ax=ax)

    @classmethod
    def from_predictions(cls, classes: Any, *, kind: str = "roc", ax: Any = None) -> Self:
        """Plot the curves of given scores.

        Parameters
        ----------
        classes : sequence of (str, ndarray of bool, ndarray of float)
            The name of each class, which bags have it, and their scores or probabilities of it. A
            class of all bags, or of none, is left out.
        kind : {"roc", "precision-recall", "calibration"}, default="roc"
            What the curves show.
        ax : matplotlib Axes, default=None
            Where to plot; a new figure by default.

        Returns
        -------
        CurveDisplay
        """
        check_name(kind, AXES, "kind of curves")
        defined = [row for row in classes if 0 < row[1].sum() < len(row[1])]
        curves = {name: curve(true, values, kind) for name, true, values in defined}
        return cls(curves, kind=kind).plot(ax=ax)

    def _size(self) -> tuple[float, float]:
        return 4.8, 4.4

    def _draw(self, ax: Any) -> None:
        marker = "o" if self.kind == "calibration" else ""
        for name, points in self.curves.items():
            ax.plot(*points, marker=marker, ms=4, label=name)
        if self.kind != "precision-recall":
            ax.axline((0, 0), slope=1, color="0.5", linestyle="--", linewidth=1)
        ax.set(**dict(zip(("xlabel", "ylabel"), AXES[self.kind], strict=True)))
        plain_frame(ax, grid="both")
        plain_legend(ax, fontsize="small")


def curve(true: Array, values: Array, kind: str) -> tuple[Array, Array]:
    """The points of a curve: x and y."""
    if kind == "roc":
        return roc_curve(true, values)[:2]
    if kind == "precision-recall":
        return precision_recall_curve(true, values)[1::-1]
    return calibration_curve(true, values.clip(0, 1), n_bins=10)[::-1]


@dataclass(eq=False)
class DifferenceDisplay(Display):
    """Show how much better or worse models are than a reference: the mean and its interval.

    The grey band is the region of practical equivalence. Create it with `from_comparison`.

    Parameters
    ----------
    differences : sequence of Difference
        The result of `Comparison.differences`, at least one.

    Attributes
    ----------
    {ax_}
    {figure_}

    Examples
    --------
    >>> from bagwise.displays import DifferenceDisplay
    >>> from bagwise.classification import CitationKNN, SetKernelSVM
    >>> from bagwise.datasets import make_bags
    >>> from bagwise.evaluate import compare
    >>> data = make_bags(n_bags=40, random_state=0)
    >>> models = {"nsk": SetKernelSVM(), "citation-knn": CitationKNN()}
    >>> comparison = compare(models, data.bags, data.y)
    >>> DifferenceDisplay.from_comparison(comparison)  # doctest: +SKIP
    """

    differences: Sequence[Difference]

    @classmethod
    def from_comparison(cls, comparison: Comparison, *, ax: Any = None, **settings: Any) -> Self:
        """Plot the differences of a comparison, the first model on top.

        Parameters
        ----------
        comparison : Comparison
            The result of `bagwise.evaluate.compare`, with at least two models.
        ax : matplotlib Axes, default=None
            Where to plot; a new figure by default.
        **settings : object
            `measure`, `reference`, `rope` and `confidence`, as for `Comparison.differences`.

        Returns
        -------
        DifferenceDisplay
        """
        found = comparison.differences(settings.pop("measure", None), **settings)
        if not found:
            raise InputError("the comparison has one model: expected at least two.")
        return cls(found).plot(ax=ax)

    @property
    def names(self) -> Sequence[str]:
        """The models."""
        return [found.name for found in self.differences]

    def _draw(self, ax: Any) -> None:
        first = self.differences[0]
        ax.axvspan(-first.rope, first.rope, color="0.5", alpha=0.2, linewidth=0)
        ax.axvline(0, color="0.4", linewidth=1)
        for place, found in enumerate(self.differences):
            reach = np.array([[found.mean - found.lower], [found.upper - found.mean]])
            ax.errorbar(found.mean, place, xerr=None if np.isnan(reach).any() else reach, **DIAMOND)
        ax.set_xlabel(
            f"{first.measure}: better than {first.reference} by\n({100 * first.confidence:g}% "
            f"intervals; grey: equal within {first.rope:g})",
            parse_math=False,
        )
        plain_frame(ax, grid="x")


@dataclass(eq=False)
class RankDisplay(Display):
    """Show the mean ranks of models over several data sets: a critical-difference diagram.

    A bar joins models that do not differ significantly (Nemenyi test). Create it with `from_ranks`.

    Parameters
    ----------
    ranks : Ranks
        The result of `bagwise.evaluate.ranks`.

    Attributes
    ----------
    {ax_}
    {figure_}

    Examples
    --------
    >>> from bagwise.displays import RankDisplay
    >>> from bagwise.evaluate import ranks
    >>> found = ranks({"Musk1": {"nsk": 0.9, "sil": 0.8}, "Fox": {"nsk": 0.6, "sil": 0.5}})
    >>> RankDisplay.from_ranks(found)  # doctest: +SKIP
    """

    ranks: Ranks

    @classmethod
    def from_ranks(cls, ranks: Ranks, *, ax: Any = None) -> Self:
        """Plot mean ranks, the best model on top.

        Parameters
        ----------
        ranks : Ranks
            The result of `bagwise.evaluate.ranks`.
        ax : matplotlib Axes, default=None
            Where to plot; a new figure by default.

        Returns
        -------
        RankDisplay
        """
        return cls(ranks).plot(ax=ax)

    @property
    def names(self) -> Sequence[str]:
        """The models, the best first."""
        order = np.argsort(self.ranks.mean_ranks, kind="stable")
        return [self.ranks.models[k] for k in order]

    def _draw(self, ax: Any) -> None:
        names = list(self.names)
        ax.plot(np.sort(self.ranks.mean_ranks), range(len(names)), "D", color=MARK, markersize=6)
        for number, group in enumerate(self.ranks.groups()):  # to the right of the frame
            rows = [names.index(group[0]) - 0.2, names.index(group[-1]) + 0.2]
            beside = {"transform": ax.get_yaxis_transform(), "clip_on": False, "color": DOTS}
            ax.plot([1.02 + 0.025 * number] * 2, rows, linewidth=4, solid_capstyle="butt", **beside)
        ax.set_xlim(0.9, len(names) + 0.1)
        ax.set_xlabel(
            f"mean rank on {len(self.ranks.data_sets)} data sets, 1 is the best\n(a bar joins "
            f"models closer than the critical difference, {self.ranks.critical_difference:.2f})"
        )
        plain_frame(ax, grid="x")
