"""Displays of fits: the objective by iteration, and the scores of methods by fold."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from bagwise._common.types import Array
from bagwise.base._pipelines import final_estimator
from bagwise.exceptions import InputError
from bagwise.inspection._axes import AxesDisplay, plain_frame, plain_legend


@dataclass(eq=False)
class ObjectiveDisplay(AxesDisplay):
    """Show the objective of one fit, or of several, against the iteration.

    Create it with `from_estimator` or `from_predictions`.

    Parameters
    ----------
    curves : mapping of str to ndarray of shape (n_iter,)
        The objective after each iteration, by the name of the model.
    excess : bool, default=False
        Whether to show how far each curve is above the lowest value of all, on a logarithmic axis,
        instead of the objective itself. Only models with the same objective are comparable.

    Attributes
    ----------
    {plot_}

    Examples
    --------
    >>> from bagwise.annotation import ORedLogisticRegression
    >>> from bagwise.inspection import ObjectiveDisplay
    >>> bags = [[[0.0], [1.1]], [[0.2]], [[0.9]]]
    >>> model = ORedLogisticRegression().fit(bags, [{"owl", "wren"}, {"owl"}, {"wren"}])
    >>> ObjectiveDisplay.from_estimator(model)  # doctest: +SKIP
    """

    curves: Mapping[str, Array]
    excess: bool = field(default=False, kw_only=True)

    @classmethod
    def from_estimator(cls, estimator: Any, *, excess: bool = False, ax: Any = None) -> Self:
        """Plot the objective curve of a fitted model.

        Parameters
        ----------
        estimator : estimator or mapping of str to estimator
            A fitted model with ``objective_curve_``, a pipeline or a search that ends in one; or
            several by name.
        excess : bool, default=False
            Whether to show how far each curve is above the lowest value of all.
        ax : matplotlib Axes, default=None
            Where to plot; a new figure by default.

        Returns
        -------
        ObjectiveDisplay
        """
        if not isinstance(estimator, Mapping):
            estimator = {type(final_estimator(estimator)).__name__: estimator}
        curves = {name: _curve(model) for name, model in estimator.items()}
        return cls.from_predictions(curves, excess=excess, ax=ax)

    @classmethod
    def from_predictions(
        cls, curves: ArrayLike | Mapping[str, ArrayLike], *, excess: bool = False, ax: Any = None
    ) -> Self:
        """Plot given curves.

        Parameters
        ----------
        curves : array-like of shape (n_iter,), or mapping of str to such
            The objective after each iteration; several by name.
        excess : bool, default=False
            Whether to show how far each curve is above the lowest value of all.
        ax : matplotlib Axes, default=None
            Where to plot; a new figure by default.

        Returns
        -------
        ObjectiveDisplay
        """
        if not isinstance(curves, Mapping):
            curves = {"objective": curves}
        values = {name: np.asarray(curve, dtype=float) for name, curve in curves.items()}
        for name, curve in values.items():
            if curve.ndim != 1 or not len(curve):
                raise InputError(
                    f"the curve of {name} has shape {curve.shape}: one value per iteration is "
                    "needed, and at least one iteration."
                )
        return cls(values, excess=excess).plot(ax=ax)

    def _size(self) -> tuple[float, float]:
        return 6.4, 4.0

    def _draw(self, ax: Any) -> None:
        lowest = min(curve.min() for curve in self.curves.values()) if self.excess else 0.0
        for name, curve in self.curves.items():
            above = curve - lowest
            if self.excess:
                above = np.where(above > 0, above, np.nan)  # log of 0
            few = len(curve) <= 30
            ax.plot(
                np.arange(1, len(curve) + 1), above, marker="o" if few else "", ms=4, label=name
            )
        ax.set_xlabel("iteration")
        ax.set_ylabel("objective minus its lowest value" if self.excess else "objective")
        if self.excess:
            ax.set_yscale("log")
        ax.xaxis.get_major_locator().set_params(integer=True)
        plain_frame(ax, grid="both")
        plain_legend(ax)


def _curve(model: Any) -> Array:
    last = final_estimator(model)
    if not hasattr(last, "objective_curve_"):
        raise InputError(
            f"{type(last).__name__} has no objective_curve_: it is not fitted, or not iterative."
        )
    return last.objective_curve_


@dataclass(eq=False)
class ComparisonDisplay(AxesDisplay):
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
    {plot_}

    Examples
    --------
    >>> from bagwise.inspection import ComparisonDisplay
    >>> display = ComparisonDisplay({"nsk": [0.9, 0.88], "majority class": [0.51, 0.5]})
    >>> display.plot()  # doctest: +SKIP
    """

    scores: Mapping[str, Sequence[float]]
    score_name: str = field(default="accuracy", kw_only=True)

    @classmethod
    def from_scores(
        cls, scores: Mapping[str, Sequence[float]], *, score_name: str = "accuracy", ax: Any = None
    ) -> Self:
        """Plot the scores of several methods, the first on top.

        Parameters
        ----------
        scores : mapping of str to sequence of float
            The scores of each method, one per fold.
        score_name : str, default="accuracy"
            Name of the score, for the axis.
        ax : matplotlib Axes, default=None
            Where to plot; a new figure by default.

        Returns
        -------
        ComparisonDisplay
        """
        return cls(scores, score_name=score_name).plot(ax=ax)

    def _size(self) -> tuple[float, float]:
        return 6.4, 1.0 + 0.42 * len(self.scores)

    def _draw(self, ax: Any) -> None:
        for place, values in enumerate(self.scores.values()):
            folds = np.full(len(values), place)
            ax.plot(values, folds, "o", color="#4a90d0", alpha=0.7, markersize=5, mew=0)
            ax.errorbar(
                np.mean(values), place, xerr=np.std(values),
                fmt="D", color="#d9762b", markersize=6, capsize=4, linewidth=1.6,
            )  # fmt: skip
        ax.set_yticks(range(len(self.scores)), list(self.scores), parse_math=False)
        ax.set_ylim(len(self.scores) - 0.5, -0.5)
        ax.set_xlabel(f"{self.score_name} (dots: folds; diamond: mean ± sd)")
        plain_frame(ax, grid="x")
