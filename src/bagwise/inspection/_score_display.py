"""InstanceScoreDisplay: the instances of each bag along the axis of their scores."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bagwise._validation import check_bags, check_label
from bagwise.bags import Bags
from bagwise.exceptions import InputError
from bagwise.inspection._axes import new_axes, plain_frame
from bagwise.inspection._tables import instance_model


@dataclass(eq=False)
class InstanceScoreDisplay:
    """Show the instances of each bag as dots along their scores, the key instance marked.

    Make one with `from_estimator` or `from_predictions`.

    Parameters
    ----------
    scores : sequence of ndarray
        The scores of the instances of each bag.
    keys : sequence of int
        The row of the key instance inside each bag.
    names : sequence of str
        The name of each bag.
    score_name : str, default="instance score"
        What a score means, for the axis.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes with the plot.
    figure_ : matplotlib Figure
        The figure with the axes.

    Examples
    --------
    >>> from bagwise.classification import SingleInstanceClassifier
    >>> from bagwise.inspection import InstanceScoreDisplay
    >>> bags = [[[0.0], [0.1]], [[0.2]], [[0.1], [3.0]], [[2.5]]]
    >>> model = SingleInstanceClassifier().fit(bags, ["no", "no", "yes", "yes"])
    >>> display = InstanceScoreDisplay.from_estimator(model, bags)  # doctest: +SKIP
    """

    scores: Sequence[NDArray[Any]]
    keys: Sequence[int] | NDArray[Any]
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
            Whose scores and key instances are shown. By default ``classes_[1]`` for a model with
            one score for two classes, else the class predicted for each bag.
        max_bags : int, default=20
            How many bags are shown at most.
        ax : matplotlib Axes, default=None
            Where to plot; a new figure by default.

        Returns
        -------
        InstanceScoreDisplay
        """
        shown = check_bags(None, X, reset=True, allow_nan=True)[:max_bags]
        model, bags = instance_model(estimator, shown)
        if bags is None or not hasattr(model, "score_instances"):
            raise InputError(f"{type(model).__name__} has no instance scores to show.")
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
        scores: NDArray[Any],
        keys: NDArray[Any] | None = None,
        *,
        score_name: str = "instance score",
        ax: Any = None,
    ) -> Self:
        """Plot scores that are known already.

        Parameters
        ----------
        bags : Bags
            The bags.
        scores : ndarray of shape (n_instances,)
            The score of each instance, aligned with ``bags.instances``.
        keys : ndarray of shape (n_bags,), default=None
            The row of the key instance inside each bag; the highest score by default.
        score_name : str, default="instance score"
            What a score means, for the axis.
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

    def plot(self, *, ax: Any = None) -> Self:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to plot; a new figure by default.

        Returns
        -------
        InstanceScoreDisplay
        """
        ax = new_axes(ax, 6.4, 1.2 + 0.28 * len(self.scores))
        places = np.repeat(np.arange(len(self.scores)), [len(part) for part in self.scores])
        tops = [part[key] for part, key in zip(self.scores, self.keys, strict=True)]
        ax.axvline(0, color="0.5", linewidth=0.8, linestyle=":", zorder=0)
        blue = {"color": "#4a90d0", "alpha": 0.75}
        ax.plot(np.concatenate(self.scores), places, "o", ms=5, mew=0, label="instance", **blue)
        rows = np.arange(len(tops))
        ax.plot(tops, rows, "D", color="#d9762b", ms=6, label="key instance")
        # A bag may be called "$x": that is a name, not a formula.
        ax.set_yticks(rows, self.names, parse_math=False)
        ax.set_ylim(len(tops) - 0.4, -0.6)
        ax.set_xlabel(self.score_name, parse_math=False)
        plain_frame(ax)
        ax.legend(
            frameon=False, loc="lower right", bbox_to_anchor=(1, 1), ncols=2, borderaxespad=0.2
        )
        self.ax_, self.figure_ = ax, ax.figure
        return self
