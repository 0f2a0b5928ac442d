"""KeyInstanceDisplay: the instances of a few bags as images, the key instance framed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bagwise._validation import check_bags
from bagwise.bags import Bags
from bagwise.exceptions import InputError
from bagwise.extras import import_extra
from bagwise.inspection._tables import key_instance_table


@dataclass(eq=False)
class KeyInstanceDisplay:
    """Show the instances of a few bags as images, one bag per row, the key instance framed.

    Make one with `from_estimator` or `from_predictions`, for instances whose features are the
    pixels of an image.

    Parameters
    ----------
    images : sequence of ndarray of shape (n_instances_in_bag, height, width) or (..., 3)
        The images of each bag.
    keys : sequence of int
        The row of the key instance inside each bag.
    titles : sequence of str
        What is written beside each bag.

    Attributes
    ----------
    figure_ : matplotlib Figure
        The figure.
    axes_ : ndarray of matplotlib Axes
        One per place of the grid.

    Examples
    --------
    >>> from bagwise.classification import SingleInstanceClassifier
    >>> from bagwise.inspection import KeyInstanceDisplay
    >>> bags = [[[0.0] * 4], [[1.0] * 4, [0.0] * 4]]
    >>> model = SingleInstanceClassifier().fit(bags, ["dark", "bright"])
    >>> KeyInstanceDisplay.from_estimator(model, bags, image_shape=(2, 2))  # doctest: +SKIP
    """

    images: Sequence[NDArray[Any]]
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
            How many bags are shown at most.
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
        """Show key instances that are known already.

        Parameters
        ----------
        bags : Bags or anything accepted as bags
            The bags; the first `max_bags` are shown.
        keys : array-like of shape (n_bags,)
            The row of the key instance inside each bag.
        labels : array-like of shape (n_bags,), default=None
            What is written below the name of each bag.
        image_shape : tuple of int
            The shape of an image, ``(height, width)`` or ``(height, width, 3)``.
        max_bags : int, default=6
            How many bags are shown at most.
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
