"""PosteriorDisplay: how sure is the model of the label of each instance?"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bagwise._validation import check_bags
from bagwise.bags import Bags
from bagwise.exceptions import InputError
from bagwise.extras import import_extra
from bagwise.inspection._axes import new_axes
from bagwise.inspection._tables import _class_names, _with_background, instance_model

NAMED_COLOURS = 9  # as many as the eye distinguishes; the rest of the labels are drawn in grey
SMALLEST_NAMED = 0.12  # share of a bar in which a label is written, if all of them fit
INCHES_PER_LETTER = 0.075  # of small print


@dataclass(eq=False)
class PosteriorDisplay:
    """Show the probabilities of the labels of a few instances, one stacked bar per instance.

    Make one with `from_estimator` or `from_predictions`: the instances of one bag, or those of all
    bags of whose label the model is least certain.

    Parameters
    ----------
    proba : ndarray of shape (n_shown, n_labels)
        The probabilities; a row per bar.
    names : sequence of str of length n_shown
        What is written beside each bar.
    labels : sequence of length n_labels
        The label of each column.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes with the plot.
    figure_ : matplotlib Figure
        The figure with the axes.

    Examples
    --------
    >>> from bagwise.annotation import ORedLogisticRegression
    >>> from bagwise.inspection import PosteriorDisplay
    >>> bags = [[[0.0], [1.1]], [[0.2]], [[0.9]]]
    >>> model = ORedLogisticRegression().fit(bags, [{"owl", "wren"}, {"owl"}, {"wren"}])
    >>> PosteriorDisplay.from_estimator(model, bags, [{"owl", "wren"}, {"owl"}, {"wren"}])
    ... # doctest: +SKIP
    """

    proba: NDArray[Any]
    names: Sequence[str]
    labels: Sequence[Any] | NDArray[Any]

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        label_sets: Any = None,
        *,
        bag: int | None = None,
        max_instances: int = 12,
        classes: ArrayLike | None = None,
        ax: Any = None,
    ) -> Self:
        """Compute the probabilities of the instances and plot them.

        Parameters
        ----------
        estimator : estimator
            A fitted annotator with ``annotate_proba`` (:class:`ORedLogisticRegression
            <bagwise.annotation.ORedLogisticRegression>`), or a pipeline that ends in one. Without
            `label_sets` any model with ``predict_proba_instances``.
        X : Bags or anything accepted as bags
            The bags.
        label_sets : 0/1 array of shape (n_bags, n_classes) or list of sets, default=None
            The label sets of the bags. By default no bag is labelled, and each instance is
            predicted by itself.
        bag : int, default=None
            The bag to show, by its place. By default the least certain instances of all bags.
        max_instances : int, default=12
            How many instances are shown at most.
        classes : array-like of shape (n_classes,), default=None
            Names to show instead of the values of ``classes_``, in their order.
        ax : matplotlib Axes, default=None
            Where to plot; a new figure by default.

        Returns
        -------
        PosteriorDisplay
        """
        model, bags = instance_model(estimator, X)
        method = "predict_proba_instances" if label_sets is None else "annotate_proba"
        if bags is None or not hasattr(model, method):
            raise InputError(f"{type(model).__name__} has no {method}: nothing to show.")
        known = () if label_sets is None else (label_sets,)
        proba = getattr(model, method)(bags, *known)
        labels = _with_background(model, _class_names(model, classes))
        return cls.from_predictions(
            bags, proba, labels=labels, bag=bag, max_instances=max_instances, ax=ax
        )

    @classmethod
    def from_predictions(
        cls,
        bags: Any,
        proba: NDArray[Any],
        *,
        labels: ArrayLike | None = None,
        bag: int | None = None,
        max_instances: int = 12,
        ax: Any = None,
    ) -> Self:
        """Plot probabilities that are known already.

        Parameters
        ----------
        bags : Bags or anything accepted as bags
            The bags.
        proba : ndarray of shape (n_instances, n_labels)
            The probabilities of each instance, aligned with ``bags.instances``.
        labels : array-like of shape (n_labels,), default=None
            The label of each column; its number by default.
        bag : int, default=None
            The bag to show, by its place. By default the least certain instances of all bags.
        max_instances : int, default=12
            How many instances are shown at most.
        ax : matplotlib Axes, default=None
            Where to plot; a new figure by default.

        Returns
        -------
        PosteriorDisplay
        """
        bags, proba = check_bags(None, bags, reset=True, allow_nan=True), np.asarray(proba)
        if proba.ndim != 2 or len(proba) != bags.n_instances:
            raise InputError(
                f"proba has shape {proba.shape}, and the bags have {bags.n_instances} instances: "
                "give a row of probabilities each."
            )
        columns = np.arange(proba.shape[1]) if labels is None else np.asarray(labels)
        if len(columns) != proba.shape[1]:
            raise InputError(f"{len(columns)} labels were given for {proba.shape[1]} columns.")
        rows = _shown_rows(bags, proba, bag)[:max_instances]
        return cls(proba[rows], _row_names(bags, rows, bag), columns).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> Self:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to plot; a new figure by default.

        Returns
        -------
        PosteriorDisplay
        """
        ax = new_axes(ax, 6.4, 1.0 + 0.32 * len(self.proba))
        palette = import_extra("matplotlib", extra="plot").colormaps["Set3"].colors
        palette = [colour for colour in palette if len(set(colour)) > 1]  # grey is for the rest
        mass = self.proba.sum(axis=0)
        shown = np.flatnonzero(mass > 0)
        coloured = shown[np.argsort(-mass[shown], kind="stable")][:NAMED_COLOURS].tolist()
        colours = dict(zip(coloured, palette, strict=False))
        texts = [str(label) for label in self.labels]
        inside = self._fit_inside(texts, ax)
        places, left = np.arange(len(self.proba)), np.zeros(len(self.proba))
        for column in shown.tolist():
            widths = self.proba[:, column]
            bars = ax.barh(
                places, widths, left=left, height=0.72, label=texts[column],
                color=colours.get(column, "0.85"), edgecolor="white", linewidth=0.8,
            )  # fmt: skip
            for bar in bars if inside else ():
                if bar.get_width() >= SMALLEST_NAMED:
                    ax.annotate(
                        texts[column], bar.get_center(), ha="center", va="center",
                        fontsize="small", color="#1d2126", parse_math=False, clip_on=True,
                    )  # fmt: skip
            left += widths
        if not inside:
            named = [bars for bars, k in zip(ax.containers, shown, strict=True) if k in colours]
            legend = ax.legend(
                handles=named, frameon=False, fontsize="small", ncols=3, loc="lower left",
                bbox_to_anchor=(0, 1), borderaxespad=0.2, handlelength=1.2,
            )  # fmt: skip
            for text in legend.get_texts():
                text.set_parse_math(False)
        ax.set_yticks(places, self.names, parse_math=False)
        ax.set_ylim(len(places) - 0.4, -0.6)
        ax.set_xlim(0, 1)
        ax.set_xlabel("probability")
        ax.spines[["top", "right", "left"]].set_visible(False)
        ax.tick_params(axis="y", length=0)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _fit_inside(self, texts: Sequence[str], ax: Any) -> bool:
        """Whether each label that would be written fits into its part of the bar."""
        letters = ax.get_window_extent().width / ax.figure.dpi / INCHES_PER_LETTER
        smallest = np.where(self.proba >= SMALLEST_NAMED, self.proba, np.inf).min(axis=0)
        return all(len(text) < letters * low for text, low in zip(texts, smallest, strict=True))


def _shown_rows(bags: Bags, proba: NDArray[Any], bag: int | None) -> NDArray[np.int64]:
    """All rows of the bag; else all rows, the least certain first."""
    if bag is None:
        return np.argsort(proba.max(axis=1), kind="stable")
    if not -len(bags) <= bag < len(bags):
        raise InputError(f"there is no bag {bag}: {len(bags)} bags were given.")
    first = bags.offsets[bag % len(bags)]
    return np.arange(first, first + bags.sizes[bag])


def _row_names(bags: Bags, rows: NDArray[np.int64], bag: int | None) -> list[str]:
    owners = bags.bag_index[rows]
    inside = rows - bags.offsets[owners]
    if bag is not None:
        return [f"row {row}" for row in inside]
    ids = [f"bag {i}" for i in owners] if bags.ids is None else bags.ids[owners]
    return [f"{name}, row {row}" for name, row in zip(ids, inside, strict=True)]
