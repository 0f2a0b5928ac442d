"""Displays of instances: scores, images, features, probabilities of labels."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from bagwise._common.extras import import_extra
from bagwise._common.types import Array, Ints
from bagwise.bags import Bags
from bagwise.displays._base import MARK, Display, plain_legend, rows_of_dots
from bagwise.exceptions import InputError
from bagwise.predictions import Predictions
from bagwise.validation import check_bags

NAMED_COLOURS = 9  # that the eye distinguishes; other labels are grey


@dataclass(eq=False)
class InstanceScoreDisplay(Display):
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
    {ax_}
    {figure_}

    Examples
    --------
    >>> from bagwise.classification import SingleInstanceClassifier
    >>> from bagwise.displays import InstanceScoreDisplay
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
        cls, estimator: Any, X: Any, *, label: Any = None, max_bags: int = 20, **settings: Any
    ) -> Self:
        """Score the instances and plot them.

        Parameters
        ----------
        estimator : estimator
            A fitted classifier or regressor with ``score_instances``, or a pipeline that ends in
            one.
        X : Bags or anything accepted as bags
            The bags; the first `max_bags` are shown.
        label : object, default=None
            The class whose scores and key instances are shown. By default ``classes_[1]`` for a
            model with one score for two classes, else the class predicted for each bag.
        max_bags : int, default=20
            Maximum number of bags to show.
        **settings : object
            `score_name` and `ax`, as for `from_predictions`.

        Returns
        -------
        InstanceScoreDisplay
        """
        bags = check_bags(None, X, reset=True, allow_nan=True)[:max_bags]
        found = Predictions(estimator, bags)
        scores, name = found.instance_scores(), "instance score"
        keys = found.key_instance_table(label)
        if scores.ndim == 2:
            shown = keys["predicted" if label is None else "label"]
            columns = np.searchsorted(found.classes, shown)[bags.bag_index]
            scores = scores[np.arange(len(scores)), columns]
            name = f"score for {'the predicted class' if label is None else label}"
        elif not found.is_regressor:
            name = f"score for {found.classes[1]}"
        settings.setdefault("score_name", name)
        return cls.from_predictions(bags, scores, keys["key_instance"], **settings)

    @classmethod
    def from_predictions(cls, bags: Bags, scores: Any, keys: Any = None, **settings: Any) -> Self:
        """Plot given scores.

        Parameters
        ----------
        bags : Bags
            The bags.
        scores : ndarray of shape (n_instances,)
            The score of each instance, aligned with ``bags.instances``.
        keys : ndarray of shape (n_bags,), default=None
            The row of the key instance inside each bag; the highest score by default.
        **settings : object
            `score_name`, as for the class, and `ax`, the matplotlib Axes where to plot.

        Returns
        -------
        InstanceScoreDisplay
        """
        parts = bags.split(np.asarray(scores))
        marked = [int(part.argmax()) for part in parts] if keys is None else keys
        return cls.plotted(parts, marked, bags.names.tolist(), **settings)

    def _draw(self, ax: Any) -> None:
        tops = [part[key] for part, key in zip(self.scores, self.keys, strict=True)]
        rows_of_dots(ax, self.scores, tops, ("instance", "key instance"))
        ax.set_xlabel(self.score_name, parse_math=False)


@dataclass(eq=False)
class KeyInstanceDisplay(Display):
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
        Label of each row of images.

    Attributes
    ----------
    {ax_}
    {figure_}

    Examples
    --------
    >>> from bagwise.classification import SingleInstanceClassifier
    >>> from bagwise.displays import KeyInstanceDisplay
    >>> bags = [[[0.0] * 4], [[1.0] * 4, [0.0] * 4]]
    >>> model = SingleInstanceClassifier().fit(bags, ["dark", "bright"])
    >>> KeyInstanceDisplay.from_estimator(model, bags, image_shape=(2, 2))  # doctest: +SKIP
    """

    images: Sequence[Array]
    keys: Sequence[int]
    titles: Sequence[str]

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, *, label: Any = None, max_bags: int = 6, **settings: Any
    ) -> Self:
        """Find the key instances and show them among the others.

        Parameters
        ----------
        estimator : estimator
            A fitted classifier with ``key_instances``, or a pipeline that ends in one.
        X : Bags or anything accepted as bags
            The bags; the first `max_bags` are shown.
        label : object, default=None
            The class to explain; by default the class predicted for the bag.
        max_bags : int, default=6
            Maximum number of bags to show.
        **settings : object
            `image_shape` and `ax`, as for `from_predictions`.

        Returns
        -------
        KeyInstanceDisplay
        """
        bags = check_bags(None, X, reset=True, accept_sparse=False)[:max_bags]
        table = Predictions(estimator, bags).key_instance_table(label)
        labels = table["predicted" if label is None else "label"]
        return cls.from_predictions(bags, table["key_instance"], labels, **settings)

    @classmethod
    def from_predictions(
        cls, bags: Any, keys: Any, labels: Any = None, *, image_shape: Any, ax: Any = None
    ) -> Self:
        """Show given key instances.

        Parameters
        ----------
        bags : Bags or anything accepted as bags
            The bags.
        keys : array-like of shape (n_bags,)
            The row of the key instance inside each bag.
        labels : array-like of shape (n_bags,), default=None
            Label below the name of each bag.
        image_shape : tuple of int
            The shape of an image, ``(height, width)`` or ``(height, width, 3)``.
        ax : matplotlib Axes, default=None
            Where to plot; a new figure by default.

        Returns
        -------
        KeyInstanceDisplay
        """
        shown = check_bags(None, bags, reset=True, accept_sparse=False)
        if np.prod(image_shape) != shown.n_features:
            raise InputError(
                f"image_shape is {image_shape}, and an instance has {shown.n_features} features."
            )
        titles = [f"{'bag ' if shown.ids is None else ''}{name}" for name in shown.names.tolist()]
        if labels is not None:
            titles = [f"{title}\n{label}" for title, label in zip(titles, labels, strict=True)]
        return cls([bag.reshape(-1, *image_shape) for bag in shown], keys, titles).plot(ax=ax)

    def _size(self) -> tuple[float, float]:
        return 1.2 + 0.55 * max(map(len, self.images)), 0.62 * len(self.images)

    def _draw(self, ax: Any) -> None:
        patches = import_extra("matplotlib.patches", extra="plot")
        height, width = self.images[0].shape[1:3]
        step_x, step_y = 1.12 * width, 1.12 * height
        frame: Any = {"fill": False, "edgecolor": MARK, "linewidth": 3}
        for row, (images, key) in enumerate(zip(self.images, self.keys, strict=True)):
            for place, image in enumerate(images):
                x, y = place * step_x, row * step_y
                ax.imshow(image, cmap="gray_r", extent=(x, x + width, y + height, y))
            ax.add_patch(patches.Rectangle((key * step_x, row * step_y), width, height, **frame))
        rows = np.arange(len(self.titles)) * step_y + height / 2
        ax.set_yticks(rows, self.titles, fontsize="small", parse_math=False)
        ax.set(xticks=[], aspect="equal", xlim=(-0.1 * width, max(map(len, self.images)) * step_x))
        ax.set_ylim(len(self.images) * step_y, -0.1 * height)
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)


@dataclass(eq=False)
class KeyFeatureDisplay(Display):
    """Show what distinguishes the key instance of a bag: its features and the others'.

    Create it with `from_estimator` or `from_predictions`. Features are in standard deviations over
    the instances of all given bags; those in which the key instance is farthest from the mean of
    the other instances of its bag come first.

    Parameters
    ----------
    values : ndarray of shape (n_instances_in_bag, n_features)
        The standardised features of the bag, as shown.
    key : int
        The row of the key instance.
    names : sequence of str
        The names of the features.
    title : str, default=""
        Title of the plot.

    Attributes
    ----------
    {ax_}
    {figure_}

    Examples
    --------
    >>> from bagwise.classification import SingleInstanceClassifier
    >>> from bagwise.displays import KeyFeatureDisplay
    >>> bags = [[[0.0, 1.0], [0.1, 0.0]], [[0.2, 1.0]], [[0.1, 0.5], [3.0, 0.5]], [[2.5, 0.0]]]
    >>> model = SingleInstanceClassifier().fit(bags, ["no", "no", "yes", "yes"])
    >>> KeyFeatureDisplay.from_estimator(model, bags, bag=2)  # doctest: +SKIP
    """

    values: Array
    key: int
    names: Sequence[str]
    title: str = ""

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, *, bag: Any = 0, label: Any = None, **settings: Any
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
        **settings : object
            `max_features` and `ax`, as for `from_predictions`.

        Returns
        -------
        KeyFeatureDisplay
        """
        bags = check_bags(None, X, reset=True, accept_sparse=False)
        place = _place_of(bags, bag)
        table = Predictions(estimator, bags[[place]]).key_instance_table(label)
        answer = table["predicted" if label is None else "label"][0]
        shown = f"{answer:.4g}" if isinstance(answer, float | np.floating) else str(answer)
        title = f"{bags.names[place]}: {shown}"
        key = int(table["key_instance"][0])
        return cls.from_predictions(bags, key, bag=place, title=title, **settings)

    @classmethod
    def from_predictions(
        cls, bags: Any, key: int, *, bag: Any = 0, max_features: int = 15, **settings: Any
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
        max_features : int, default=15
            Maximum number of features to show.
        **settings : object
            `title`, by default the name of the bag, and `ax`, the matplotlib Axes where to plot.

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
        settings.setdefault("title", str(bags.names[place]))
        return cls.plotted(values[:, chosen], int(key), [names[j] for j in chosen], **settings)

    def _draw(self, ax: Any) -> None:
        others = list(np.delete(self.values, self.key, axis=0).T)
        rows_of_dots(ax, others, self.values[self.key], ("other", "key instance"))
        ax.set_xlabel("standard deviations from the mean")
        ax.set_title(self.title, loc="left", fontsize="medium", parse_math=False)


def _place_of(bags: Bags, bag: Any) -> int:
    """The position of a bag, given its position or its id."""
    if isinstance(bag, int | np.integer) and not isinstance(bag, bool):
        found = np.arange(len(bags))[bag : bag + 1 or None]
    else:
        found = np.flatnonzero([name == bag for name in bags.names.tolist()])
    if not len(found):
        raise InputError(f"there is no bag {bag!r}: give the id of a bag, or its position.")
    return int(found[0])


@dataclass(eq=False)
class PosteriorDisplay(Display):
    """Show the probabilities of the labels of a few instances, one stacked bar per instance.

    Create it with `from_estimator` or `from_predictions`. It shows the instances of one bag, or the
    least certain instances of all bags.

    Parameters
    ----------
    proba : ndarray of shape (n_shown, n_labels)
        The probabilities; a row per bar.
    names : sequence of str of length n_shown
        Label of each bar.
    labels : sequence of length n_labels
        The label of each column.

    Attributes
    ----------
    {ax_}
    {figure_}

    Examples
    --------
    >>> from bagwise.annotation import ORedLogisticRegression
    >>> from bagwise.displays import PosteriorDisplay
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
        cls, estimator: Any, X: Any, label_sets: Any = None, *, classes: Any = None, **settings: Any
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
        classes : array-like of shape (n_classes,), default=None
            Names to show instead of the values of ``classes_``, in their order.
        **settings : object
            `bag`, `max_instances` and `ax`, as for `from_predictions`.

        Returns
        -------
        PosteriorDisplay
        """
        found = Predictions(estimator, X, classes=classes)
        method = "predict_proba_instances" if label_sets is None else "annotate_proba"
        if found.seen is None or not hasattr(found.estimator, method):
            name = type(found.estimator).__name__
            raise InputError(f"{name} has no {method}: there is nothing to show.")
        known = () if label_sets is None else (label_sets,)
        proba = getattr(found.estimator, method)(found.seen, *known)
        return cls.from_predictions(found.bags, proba, labels=found.label_names, **settings)

    @classmethod
    def from_predictions(
        cls, bags: Any, proba: Any, *, bag: Any = None, max_instances: int = 12, **settings: Any
    ) -> Self:
        """Plot given probabilities.

        Parameters
        ----------
        bags : Bags or anything accepted as bags
            The bags.
        proba : ndarray of shape (n_instances, n_labels)
            The probabilities of each instance, aligned with ``bags.instances``.
        bag : int or object, default=None
            The position of the bag to show, or its id. By default the least certain instances of
            all bags.
        max_instances : int, default=12
            Maximum number of instances to show.
        **settings : object
            `labels`, by default the numbers of the columns, and `ax`, the matplotlib Axes where to
            plot.

        Returns
        -------
        PosteriorDisplay
        """
        bags, proba = check_bags(None, bags, reset=True, allow_nan=True), np.asarray(proba)
        labels = settings.setdefault("labels", range(proba.shape[1]))
        if proba.shape != (bags.n_instances, len(labels)):
            raise InputError(
                f"proba has shape {proba.shape}: expected a row for each of the {bags.n_instances} "
                f"instances, and a column for each of the {len(labels)} labels."
            )
        if bag is None:
            rows = np.argsort(proba.max(axis=1), kind="stable")[:max_instances]
        else:
            rows = np.flatnonzero(bags.bag_index == _place_of(bags, bag))[:max_instances]
        return cls.plotted(proba[rows], _row_names(bags, rows, bag), **settings)

    def _draw(self, ax: Any) -> None:
        palette = import_extra("matplotlib", extra="plot").colormaps["Set3"].colors
        palette = [colour for colour in palette if len(set(colour)) > 1]  # grey is for other labels
        mass, left = self.proba.sum(axis=0), np.zeros(len(self.proba))
        shown = np.flatnonzero(mass > 0)
        coloured = shown[np.argsort(-mass[shown], kind="stable")][:NAMED_COLOURS].tolist()
        colours = dict(zip(coloured, palette, strict=False))
        for k in shown.tolist():
            style: dict[str, Any] = {"color": colours.get(k, "0.85"), "edgecolor": "white"}
            style |= {"height": 0.72, "linewidth": 0.8, "label": str(self.labels[k])}
            ax.barh(range(len(left)), self.proba[:, k], left=left, **style)
            left += self.proba[:, k]
        named = [bars for bars, k in zip(ax.containers, shown, strict=True) if k in colours]
        place: Any = {"loc": "lower left", "bbox_to_anchor": (0, 1), "borderaxespad": 0.2}
        plain_legend(ax, handles=named, fontsize="small", ncols=3, handlelength=1.2, **place)
        ax.set(xlim=(0, 1), xlabel="probability")
        ax.spines[["top", "right", "left"]].set_visible(False)
        ax.tick_params(axis="y", length=0)


def _row_names(bags: Bags, rows: Ints, bag: Any) -> list[str]:
    owners = bags.bag_index[rows]
    inside = [f"row {row}" for row in rows - bags.offsets[owners]]
    if bag is not None:
        return inside
    what = "bag " if bags.ids is None else ""
    return [f"{what}{name}, {row}" for name, row in zip(bags.names[owners], inside, strict=True)]
