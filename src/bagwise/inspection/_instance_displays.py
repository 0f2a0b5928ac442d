"""Displays of instances: their scores, their images, the probabilities of their labels."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from bagwise._common.types import Array, Ints
from bagwise._validation import check_bags, check_label
from bagwise.bags import Bags
from bagwise.base._pipelines import instance_model, predicts_numbers
from bagwise.exceptions import InputError
from bagwise.extras import import_extra
from bagwise.inspection._axes import AxesDisplay, plain_frame, plain_legend
from bagwise.inspection._tables import (
    class_names,
    key_instance_table,
    scoring_model,
    with_background,
)

NAMED_COLOURS = 9  # that the eye distinguishes; other labels are grey
SMALLEST_NAMED = 0.12  # smallest share of a bar with its label inside, if all labels fit
INCHES_PER_LETTER = 0.075  # of small print


@dataclass(eq=False)
class InstanceScoreDisplay(AxesDisplay):
    """Show the instances of each bag as dots along their scores, the key instance marked.

    Create it with `from_estimator` or `from_predictions`.

    Parameters
    ----------
    scores : sequence of ndarray
        The scores of the instances of each bag.
    keys : sequence of int
        The row of the key instance inside each bag.
    names : sequence of str
        The name of each bag.
    score_name : str, default="instance score"
        Name of the score, for the axis.

    Attributes
    ----------
    {plot_}

    Examples
    --------
    >>> from bagwise.classification import SingleInstanceClassifier
    >>> from bagwise.inspection import InstanceScoreDisplay
    >>> bags = [[[0.0], [0.1]], [[0.2]], [[0.1], [3.0]], [[2.5]]]
    >>> model = SingleInstanceClassifier().fit(bags, ["no", "no", "yes", "yes"])
    >>> display = InstanceScoreDisplay.from_estimator(model, bags)  # doctest: +SKIP
    """

    scores: Sequence[Array]
    keys: Sequence[int] | Array
    names: Sequence[str]
    score_name: str = field(default="instance score", kw_only=True)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, *, label: Any = None, max_bags: int = 20, ax: Any = None
    ) -> Self:
        """Score the instances and plot them.

        Parameters
        ----------
        estimator : estimator
            A fitted classifier with ``score_instances``, or a pipeline that ends in one.
        X : Bags or anything accepted as bags
            The bags; the first `max_bags` are shown.
        label : object, default=None
            The class whose scores and key instances are shown. By default ``classes_[1]`` for a
            model with one score for two classes, else the class predicted for each bag.
        max_bags : int, default=20
            Maximum number of bags to show.
        ax : matplotlib Axes, default=None
            Where to plot; a new figure by default.

        Returns
        -------
        InstanceScoreDisplay
        """
        shown = check_bags(None, X, reset=True, allow_nan=True)[:max_bags]
        model, bags = scoring_model(estimator, shown)
        if predicts_numbers(model):
            keys = key_instance_table(model, bags, label=label)["key_instance"]  # rejects a label
            return cls.from_predictions(bags, model.score_instances(bags), keys, ax=ax)
        scores, keys = model.score_instances(bags), model.key_instances(bags, label=label)
        if scores.ndim == 1:
            which = f"for {model.classes_[1]}"
        elif label is not None:
            scores, which = scores[:, check_label(label, model.classes_)], f"for {label}"
        else:
            columns = np.searchsorted(model.classes_, model.predict(bags))[bags.bag_index]
            scores = np.take_along_axis(scores, columns[:, None], axis=1)[:, 0]
            which = "for the predicted class"
        return cls.from_predictions(bags, scores, keys, score_name=f"score {which}", ax=ax)

    @classmethod
    def from_predictions(
        cls,
        bags: Bags,
        scores: Array,
        keys: Array | None = None,
        *,
        score_name: str = "instance score",
        ax: Any = None,
    ) -> Self:
        """Plot given scores.

        Parameters
        ----------
        bags : Bags
            The bags.
        scores : ndarray of shape (n_instances,)
            The score of each instance, aligned with ``bags.instances``.
        keys : ndarray of shape (n_bags,), default=None
            The row of the key instance inside each bag; the highest score by default.
        score_name : str, default="instance score"
            Name of the score, for the axis.
        ax : matplotlib Axes, default=None
            Where to plot; a new figure by default.

        Returns
        -------
        InstanceScoreDisplay
        """
        parts = bags.split(np.asarray(scores))
        marked = [int(part.argmax()) for part in parts] if keys is None else keys
        display = cls(parts, marked, [str(name) for name in bags.names], score_name=score_name)
        return display.plot(ax=ax)

    def _size(self) -> tuple[float, float]:
        return 6.4, 1.2 + 0.28 * len(self.scores)

    def _draw(self, ax: Any) -> None:
        places = np.repeat(np.arange(len(self.scores)), [len(part) for part in self.scores])
        tops = [part[key] for part, key in zip(self.scores, self.keys, strict=True)]
        ax.axvline(0, color="0.5", linewidth=0.8, linestyle=":", zorder=0)
        blue = {"color": "#4a90d0", "alpha": 0.75}
        ax.plot(np.concatenate(self.scores), places, "o", ms=5, mew=0, label="instance", **blue)
        rows = np.arange(len(tops))
        ax.plot(tops, rows, "D", color="#d9762b", ms=6, label="key instance")
        # A bag may be called "$x", which is not a formula.
        ax.set_yticks(rows, self.names, parse_math=False)
        ax.set_ylim(len(tops) - 0.4, -0.6)
        ax.set_xlabel(self.score_name, parse_math=False)
        plain_frame(ax)
        plain_legend(ax, loc="lower right", bbox_to_anchor=(1, 1), ncols=2, borderaxespad=0.2)


@dataclass(eq=False)
class KeyInstanceDisplay:
    """Show the instances of a few bags as images, one bag per row, the key instance framed.

    Create it with `from_estimator` or `from_predictions`, for instances whose features are the
    pixels of an image.

    Parameters
    ----------
    images : sequence of ndarray of shape (n_instances_in_bag, height, width) or (..., 3)
        The images of each bag.
    keys : sequence of int
        The row of the key instance inside each bag.
    titles : sequence of str
        Text beside each bag.

    Attributes
    ----------
    figure_ : matplotlib Figure
        The figure.
    axes_ : ndarray of matplotlib Axes
        One per cell of the grid.

    Examples
    --------
    >>> from bagwise.classification import SingleInstanceClassifier
    >>> from bagwise.inspection import KeyInstanceDisplay
    >>> bags = [[[0.0] * 4], [[1.0] * 4, [0.0] * 4]]
    >>> model = SingleInstanceClassifier().fit(bags, ["dark", "bright"])
    >>> KeyInstanceDisplay.from_estimator(model, bags, image_shape=(2, 2))  # doctest: +SKIP
    """

    images: Sequence[Array]
    keys: Sequence[int]
    titles: Sequence[str]

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        image_shape: tuple[int, ...],
        label: Any = None,
        max_bags: int = 6,
        figure: Any = None,
    ) -> Self:
        """Find the key instances and show them among the others.

        Parameters
        ----------
        estimator : estimator
            A fitted classifier with ``key_instances``, or a pipeline that ends in one.
        X : Bags or anything accepted as bags
            The bags; the first `max_bags` are shown.
        image_shape : tuple of int
            The shape of an image, ``(height, width)`` or ``(height, width, 3)``.
        label : object, default=None
            The class to explain; by default the class predicted for the bag.
        max_bags : int, default=6
            Maximum number of bags to show.
        figure : matplotlib Figure, default=None
            Where to plot; a new figure by default.

        Returns
        -------
        KeyInstanceDisplay
        """
        bags = check_bags(None, X, reset=True, accept_sparse=False)[:max_bags]
        _check_image_shape(bags, image_shape)
        table = key_instance_table(estimator, bags, label=label)
        return cls.from_predictions(
            bags,
            table["key_instance"],
            table["predicted" if label is None else "label"],
            image_shape=image_shape,
            max_bags=max_bags,
            figure=figure,
        )

    @classmethod
    def from_predictions(
        cls,
        bags: Any,
        keys: ArrayLike,
        labels: ArrayLike | None = None,
        *,
        image_shape: tuple[int, ...],
        max_bags: int = 6,
        figure: Any = None,
    ) -> Self:
        """Show given key instances.

        Parameters
        ----------
        bags : Bags or anything accepted as bags
            The bags; the first `max_bags` are shown.
        keys : array-like of shape (n_bags,)
            The row of the key instance inside each bag.
        labels : array-like of shape (n_bags,), default=None
            Text below the name of each bag.
        image_shape : tuple of int
            The shape of an image, ``(height, width)`` or ``(height, width, 3)``.
        max_bags : int, default=6
            Maximum number of bags to show.
        figure : matplotlib Figure, default=None
            Where to plot; a new figure by default.

        Returns
        -------
        KeyInstanceDisplay
        """
        shown = check_bags(None, bags, reset=True, accept_sparse=False)[:max_bags]
        _check_image_shape(shown, image_shape)
        unnamed = [f"bag {i}" for i in range(len(shown))]
        titles = unnamed if shown.ids is None else [str(name) for name in shown.ids]
        if labels is not None:
            below = np.asarray(labels)[: len(shown)]
            titles = [f"{title}\n{label}" for title, label in zip(titles, below, strict=True)]
        images = [bag.reshape(-1, *image_shape) for bag in shown]
        return cls(images, np.asarray(keys)[: len(shown)].tolist(), titles).plot(figure=figure)

    def plot(self, *, figure: Any = None) -> Self:
        """Draw the display.

        Parameters
        ----------
        figure : matplotlib Figure, default=None
            Where to plot; a new figure by default.

        Returns
        -------
        KeyInstanceDisplay
        """
        n_rows, n_columns = len(self.images), max(len(images) for images in self.images)
        if figure is None:
            pyplot = import_extra("matplotlib.pyplot", extra="plot")
            size = (1.2 + 0.55 * n_columns, 0.62 * n_rows)
            figure = pyplot.figure(figsize=size, layout="constrained")
        axes = figure.subplots(n_rows, n_columns, squeeze=False)
        for row, images, key, title in zip(axes, self.images, self.keys, self.titles, strict=True):
            for place, ax in enumerate(row):
                ax.set(xticks=[], yticks=[])
                ax.spines[:].set_visible(place == key)
                ax.spines[:].set(color="#d9762b", linewidth=3)
                if place < len(images):
                    ax.imshow(images[place], cmap="gray_r")
                else:
                    ax.patch.set_visible(False)
            row[0].set_ylabel(
                title, rotation=0, ha="right", va="center", fontsize="small", parse_math=False
            )
        self.figure_, self.axes_ = figure, axes
        return self


def _check_image_shape(bags: Bags, image_shape: tuple[int, ...]) -> None:
    if int(np.prod(image_shape)) != bags.n_features:
        raise InputError(
            f"an image of shape {image_shape} has {int(np.prod(image_shape))} values, while "
            f"an instance has {bags.n_features} features."
        )


@dataclass(eq=False)
class KeyFeatureDisplay(AxesDisplay):
    """Show what distinguishes the key instance of a bag: its features and those of the others.

    Create it with `from_estimator` or `from_predictions`. Features are in standard deviations over
    the instances of all given bags; those in which the key instance is farthest from the mean of
    the other instances of its bag come first.

    Parameters
    ----------
    values : ndarray of shape (n_instances_in_bag, n_features)
        The standardised features of the bag, as shown.
    key : int
        The row of the key instance.
    feature_names : sequence of str
        The names of the features.
    title : str
        Title of the plot.

    Attributes
    ----------
    {plot_}

    Examples
    --------
    >>> from bagwise.classification import SingleInstanceClassifier
    >>> from bagwise.inspection import KeyFeatureDisplay
    >>> bags = [[[0.0, 1.0], [0.1, 0.0]], [[0.2, 1.0]], [[0.1, 0.5], [3.0, 0.5]], [[2.5, 0.0]]]
    >>> model = SingleInstanceClassifier().fit(bags, ["no", "no", "yes", "yes"])
    >>> KeyFeatureDisplay.from_estimator(model, bags, bag=2)  # doctest: +SKIP
    """

    values: Array
    key: int
    feature_names: Sequence[str]
    title: str = ""

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        bag: Any = 0,
        label: Any = None,
        max_features: int = 15,
        ax: Any = None,
    ) -> Self:
        """Find the key instance of a bag and show its features.

        Parameters
        ----------
        estimator : estimator
            A fitted classifier or regressor with ``key_instances``, or a pipeline that ends in one.
        X : Bags or anything accepted as bags
            The bags.
        bag : int or object, default=0
            The position of the bag, or its id.
        label : object, default=None
            The class to explain; by default the class predicted for the bag.
        max_features : int, default=15
            Maximum number of features to show.
        ax : matplotlib Axes, default=None
            Where to plot; a new figure by default.

        Returns
        -------
        KeyFeatureDisplay
        """
        bags = check_bags(None, X, reset=True, accept_sparse=False)
        place = _place_of(bags, bag)
        table = key_instance_table(estimator, bags[[place]], label=label)
        answer = table["predicted" if label is None else "label"][0]
        shown = f"{answer:.4g}" if isinstance(answer, float | np.floating) else str(answer)
        return cls.from_predictions(
            bags,
            int(table["key_instance"][0]),
            bag=place,
            title=f"{bags.names[place]}: {shown}",
            max_features=max_features,
            ax=ax,
        )

    @classmethod
    def from_predictions(
        cls,
        bags: Any,
        key: int,
        *,
        bag: Any = 0,
        title: str | None = None,
        max_features: int = 15,
        ax: Any = None,
    ) -> Self:
        """Show the features of a given key instance.

        Parameters
        ----------
        bags : Bags or anything accepted as bags
            The bags.
        key : int
            The row of the key instance inside its bag, such as the one with the largest of the
            `instance_attributions`.
        bag : int or object, default=0
            The position of the bag, or its id.
        title : str, default=None
            Title of the plot; the name of the bag by default.
        max_features : int, default=15
            Maximum number of features to show.
        ax : matplotlib Axes, default=None
            Where to plot; a new figure by default.

        Returns
        -------
        KeyFeatureDisplay
        """
        bags = check_bags(None, bags, reset=True, accept_sparse=False)
        place = _place_of(bags, bag)
        if not 0 <= key < bags.sizes[place]:
            raise InputError(f"key is {key}: {bags.name_of(place)} has {bags.sizes[place]} rows.")
        centre, scale = bags.instances.mean(axis=0), bags.instances.std(axis=0)
        values = (np.asarray(bags[place]) - centre) / np.where(scale > 0, scale, 1.0)
        others = np.delete(values, key, axis=0)
        apart = np.abs(values[key] - (others.mean(axis=0) if len(others) else 0.0))
        chosen = np.argsort(-apart, kind="stable")[:max_features]
        names = bags.feature_names or [f"x{j}" for j in range(bags.n_features)]
        title = str(bags.names[place]) if title is None else title
        return cls(values[:, chosen], int(key), [names[j] for j in chosen], title).plot(ax=ax)

    def _size(self) -> tuple[float, float]:
        return 6.4, 1.4 + 0.28 * len(self.feature_names)

    def _draw(self, ax: Any) -> None:
        rows = np.arange(len(self.feature_names))
        others = np.delete(self.values, self.key, axis=0)
        ax.axvline(0, color="0.5", linewidth=0.8, linestyle=":", zorder=0)
        blue = {"color": "#4a90d0", "alpha": 0.75}
        ax.plot(others.ravel(), np.tile(rows, len(others)), "o", ms=5, mew=0, label="other", **blue)
        ax.plot(self.values[self.key], rows, "D", color="#d9762b", ms=6, label="key instance")
        ax.set_yticks(rows, self.feature_names, parse_math=False)
        ax.set_ylim(len(rows) - 0.4, -0.6)
        ax.set_xlabel("standard deviations from the mean")
        ax.set_title(self.title, loc="left", fontsize="medium", parse_math=False)
        plain_frame(ax)
        plain_legend(ax, loc="lower right", bbox_to_anchor=(1, 1), ncols=2, borderaxespad=0.2)


def _place_of(bags: Bags, bag: Any) -> int:
    """The position of a bag, given its position or its id."""
    if isinstance(bag, int | np.integer) and not isinstance(bag, bool):
        if not -len(bags) <= bag < len(bags):
            raise InputError(f"bag is {bag}: there are {len(bags)} bags.")
        return int(bag) % len(bags)
    found = [i for i, name in enumerate(bags.names.tolist()) if name == bag]
    if not found:
        raise InputError(f"no bag is called {bag!r}: give the id of a bag, or its position.")
    return found[0]


@dataclass(eq=False)
class PosteriorDisplay(AxesDisplay):
    """Show the probabilities of the labels of a few instances, one stacked bar per instance.

    Create it with `from_estimator` or `from_predictions`. It shows the instances of one bag, or the
    least certain instances of all bags.

    Parameters
    ----------
    proba : ndarray of shape (n_shown, n_labels)
        The probabilities; a row per bar.
    names : sequence of str of length n_shown
        Text beside each bar.
    labels : sequence of length n_labels
        The label of each column.

    Attributes
    ----------
    {plot_}

    Examples
    --------
    >>> from bagwise.annotation import ORedLogisticRegression
    >>> from bagwise.inspection import PosteriorDisplay
    >>> bags = [[[0.0], [1.1]], [[0.2]], [[0.9]]]
    >>> model = ORedLogisticRegression().fit(bags, [{"owl", "wren"}, {"owl"}, {"wren"}])
    >>> PosteriorDisplay.from_estimator(model, bags, [{"owl", "wren"}, {"owl"}, {"wren"}])
    ... # doctest: +SKIP
    """

    proba: Array
    names: Sequence[str]
    labels: Sequence[Any] | Array

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
            The position of the bag to show. By default the least certain instances of all bags.
        max_instances : int, default=12
            Maximum number of instances to show.
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
            raise InputError(f"{type(model).__name__} has no {method}: there is nothing to show.")
        known = () if label_sets is None else (label_sets,)
        proba = getattr(model, method)(bags, *known)
        labels = with_background(model, class_names(model, classes))
        return cls.from_predictions(
            bags, proba, labels=labels, bag=bag, max_instances=max_instances, ax=ax
        )

    @classmethod
    def from_predictions(
        cls,
        bags: Any,
        proba: Array,
        *,
        labels: ArrayLike | None = None,
        bag: int | None = None,
        max_instances: int = 12,
        ax: Any = None,
    ) -> Self:
        """Plot given probabilities.

        Parameters
        ----------
        bags : Bags or anything accepted as bags
            The bags.
        proba : ndarray of shape (n_instances, n_labels)
            The probabilities of each instance, aligned with ``bags.instances``.
        labels : array-like of shape (n_labels,), default=None
            The label of each column; its number by default.
        bag : int, default=None
            The position of the bag to show. By default the least certain instances of all bags.
        max_instances : int, default=12
            Maximum number of instances to show.
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

    def _size(self) -> tuple[float, float]:
        return 6.4, 1.0 + 0.32 * len(self.proba)

    def _draw(self, ax: Any) -> None:
        palette = import_extra("matplotlib", extra="plot").colormaps["Set3"].colors
        palette = [colour for colour in palette if len(set(colour)) > 1]  # grey is for other labels
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
            plain_legend(
                ax, handles=named, fontsize="small", ncols=3, loc="lower left",
                bbox_to_anchor=(0, 1), borderaxespad=0.2, handlelength=1.2,
            )  # fmt: skip
        ax.set_yticks(places, self.names, parse_math=False)
        ax.set_ylim(len(places) - 0.4, -0.6)
        ax.set_xlim(0, 1)
        ax.set_xlabel("probability")
        ax.spines[["top", "right", "left"]].set_visible(False)
        ax.tick_params(axis="y", length=0)

    def _fit_inside(self, texts: Sequence[str], ax: Any) -> bool:
        """Whether every label fits into its part of a bar."""
        letters = ax.get_window_extent().width / ax.figure.dpi / INCHES_PER_LETTER
        smallest = np.where(self.proba >= SMALLEST_NAMED, self.proba, np.inf).min(axis=0)
        return all(len(text) < letters * low for text, low in zip(texts, smallest, strict=True))


def _shown_rows(bags: Bags, proba: Array, bag: int | None) -> Ints:
    """The rows of the bag; if it is None all rows, least certain first."""
    if bag is None:
        return np.argsort(proba.max(axis=1), kind="stable")
    if not -len(bags) <= bag < len(bags):
        raise InputError(f"there is no bag {bag}: {len(bags)} bags were given.")
    first = bags.offsets[bag % len(bags)]
    return np.arange(first, first + bags.sizes[bag])


def _row_names(bags: Bags, rows: Ints, bag: int | None) -> list[str]:
    owners = bags.bag_index[rows]
    inside = rows - bags.offsets[owners]
    if bag is not None:
        return [f"row {row}" for row in inside]
    ids = [f"bag {i}" for i in owners] if bags.ids is None else bags.ids[owners]
    return [f"{name}, row {row}" for name, row in zip(ids, inside, strict=True)]
