"""Displays of clusters: a map of the instances, and the choice of the number of clusters."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from bagwise._common.types import Array
from bagwise.base._pipelines import instance_model
from bagwise.exceptions import InputError
from bagwise.extras import import_extra
from bagwise.inspection._axes import AxesDisplay, plain_frame, plain_legend

MOST_SHOWN = 2000


@dataclass(eq=False)
class ClusterMapDisplay(AxesDisplay):
    """Show instances as points of a plane, coloured by cluster, class or anything else.

    Create it with `from_estimator` or `from_predictions`; `from_embedding` creates several displays
    with one layout.

    Parameters
    ----------
    points : ndarray of shape (n_shown, 2)
        Positions of the instances.
    groups : sequence of shape (n_shown,)
        The group of each instance, such as its cluster or class, as a colour; None if unknown.
    title : str, default=""
        What the colours mean.

    Attributes
    ----------
    {plot_}

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.inspection import ClusterMapDisplay
    >>> display = ClusterMapDisplay(np.eye(2), ["owl", "wren"], title="species")
    >>> display.plot()  # doctest: +SKIP
    """

    points: Array
    groups: Sequence[Any]
    title: str = field(default="", kw_only=True)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        groups: Sequence[Any] | None = None,
        layout: str = "tsne",
        max_instances: int = MOST_SHOWN,
        random_state: Any = 0,
        title: str = "",
        ax: Any = None,
    ) -> Self:
        """Lay out the instances that a clusterer was fitted to, and colour them by cluster.

        Parameters
        ----------
        estimator : estimator
            A fitted clusterer, or a pipeline that ends in one. Its ``embedding_`` is laid out
            if it has one, else the instances.
        X : Bags or anything accepted as bags
            The bags (or rows) it was fitted to.
        groups : sequence of shape (n_instances,), default=None
            Groups that are shown as colours; the clusters (``labels_``) by default.
        layout : {"tsne", "pca"}, default="tsne"
            Projection to the plane: t-SNE, or the first two principal components.
        max_instances : int, default=2000
            Maximum number of instances; larger data are sampled.
        random_state : int, RandomState instance or None, default=0
            Seed of the sample and of the layout.
        title : str, default=""
            What the colours mean.
        ax : matplotlib Axes, default=None
            Where to plot; a new figure by default.

        Returns
        -------
        ClusterMapDisplay
        """
        model, bags = instance_model(estimator, X)
        if bags is None or not hasattr(model, "labels_"):
            raise InputError(f"{type(model).__name__} has no labels_: expected a clusterer.")
        if len(model.labels_) != bags.n_instances:
            raise InputError(
                f"the model clustered {len(model.labels_)} instances, and X has "
                f"{bags.n_instances}: pass the bags it was fitted to."
            )
        return cls.from_predictions(
            getattr(model, "embedding_", bags.instances),
            model.labels_ if groups is None else groups,
            layout=layout, max_instances=max_instances, random_state=random_state,
            title=title, ax=ax,
        )  # fmt: skip

    @classmethod
    def from_predictions(
        cls,
        embedding: Any,
        groups: Any,
        *,
        layout: str = "tsne",
        max_instances: int = MOST_SHOWN,
        random_state: Any = 0,
        title: str = "",
        ax: Any = None,
    ) -> Self:
        """Lay out rows and colour them by given groups.

        Parameters
        ----------
        embedding : ndarray or sparse matrix of shape (n_instances, n_columns)
            The instances, or an embedding of them.
        groups : sequence of shape (n_instances,)
            Groups that are shown as colours; None if unknown.
        layout : {"tsne", "pca"}, default="tsne"
            Projection to the plane: t-SNE, or the first two principal components.
        max_instances : int, default=2000
            Maximum number of instances; larger data are sampled.
        random_state : int, RandomState instance or None, default=0
            Seed of the sample and of the layout.
        title : str, default=""
            What the colours mean.
        ax : matplotlib Axes, default=None
            Where to plot; a new figure by default.

        Returns
        -------
        ClusterMapDisplay
        """
        (display,) = cls.from_embedding(
            embedding, groups, titles=[title], layout=layout,
            max_instances=max_instances, random_state=random_state,
        )  # fmt: skip
        return display.plot(ax=ax)

    @classmethod
    def from_embedding(
        cls,
        embedding: Any,
        *groups: Any,
        titles: Sequence[str] = (),
        layout: str = "tsne",
        max_instances: int = MOST_SHOWN,
        random_state: Any = 0,
    ) -> list[Self]:
        """Lay out an embedding in the plane, once for several colourings.

        Parameters
        ----------
        embedding : ndarray or sparse matrix of shape (n_instances, n_columns)
            ``embedding_`` of a clustering, or the instances.
        *groups : sequence of shape (n_instances,)
            The groups of each display; None if a group is unknown.
        titles : sequence of str, default=()
            What each colouring means.
        layout : {"tsne", "pca"}, default="tsne"
            Projection to the plane: t-SNE, or the first two principal components.
        max_instances : int, default=2000
            Maximum number of instances; larger data are sampled.
        random_state : int, RandomState instance or None, default=0
            Seed of the sample and of the layout.

        Returns
        -------
        list of ClusterMapDisplay
            One for each colouring, not yet drawn.
        """
        from sklearn.utils import check_random_state

        n = embedding.shape[0]
        for values in groups:
            if len(values) != n:
                raise InputError(
                    f"{len(values)} groups were given for {n} instances: give one each."
                )
        rng = check_random_state(random_state)
        rows = np.sort(rng.permutation(n)[:max_instances])
        points = _in_the_plane(embedding[rows], layout, rng)
        names = [*titles, *[""] * len(groups)]
        return [
            cls(points, [values[i] for i in rows], title=name)
            for values, name in zip(groups, names, strict=False)
        ]

    def _size(self) -> tuple[float, float]:
        return 6.4, 5.6

    def _draw(self, ax: Any) -> None:
        colours = import_extra("matplotlib", extra="plot").colormaps["gist_rainbow"]
        texts = np.array(["not known" if group is None else str(group) for group in self.groups])
        unknown = np.array([group is None for group in self.groups], dtype=bool)
        ax.plot(*self.points[unknown].T, "o", color="#9a9a9a", markersize=3, mew=0, alpha=0.5)
        names = sorted(set(texts[~unknown].tolist()), key=lambda text: (len(text), text))
        for place, name in enumerate(names):
            chosen = self.points[~unknown & (texts == name)]
            colour = colours(place / max(len(names), 1))
            ax.plot(*chosen.T, "o", color=colour, markersize=4, mew=0, alpha=0.8, label=name)
            middle = np.median(chosen, axis=0)
            ax.annotate(
                name, middle, fontsize="small", ha="center", va="center", parse_math=False,
                bbox={"boxstyle": "round,pad=0.15", "fc": "white", "ec": colour, "alpha": 0.8},
                color="#1d2126",
            )  # fmt: skip
        ax.set(xticks=[], yticks=[])
        ax.set_title(self.title, parse_math=False)


def _in_the_plane(rows: Any, layout: str, rng: Any) -> Array:
    if layout == "tsne" and rows.shape[0] >= 4:
        from sklearn.manifold import TSNE

        near = min(30.0, (rows.shape[0] - 1) / 3)
        return TSNE(perplexity=near, init="random", random_state=rng).fit_transform(rows)
    if layout in ("tsne", "pca"):  # too few instances for t-SNE
        return _principal_scores(rows)
    raise InputError(f"layout is {layout!r}: it must be 'tsne' or 'pca'.")


def _principal_scores(rows: Any) -> Array:
    """The first two principal components, from inner products: sparse rows stay sparse."""
    from scipy.sparse import issparse

    from bagwise.compiled.lapack import eigenvectors

    gram = rows @ rows.T
    gram = np.asarray(gram.toarray() if issparse(gram) else gram, dtype=float)
    gram = gram - gram.mean(axis=0)
    gram -= gram.mean(axis=1, keepdims=True)
    n = len(gram)
    values, vectors = eigenvectors(gram, max(n - 2, 0), n - 1)
    scores = (vectors * np.sqrt(np.clip(values, 0, None)))[:, ::-1]
    return np.pad(scores, ((0, 0), (0, 2 - scores.shape[1])))


@dataclass(eq=False)
class ClusterChoiceDisplay:
    """Show how stable each number of clusters is, and the eigengaps.

    Parameters
    ----------
    table : mapping of str to sequence
        The ``table`` of the result of :func:`bagwise.cluster.choose_clusters`.
    best : int, default=None
        The row to mark.

    Attributes
    ----------
    axes_ : ndarray of matplotlib Axes
        Stability above, eigengaps below.
    figure_ : matplotlib Figure
        The figure with the axes.

    Examples
    --------
    >>> from bagwise.inspection import ClusterChoiceDisplay
    >>> table = {"alpha": [0.7], "n_clusters": [3], "eigengap": [0.5], "stability": [0.9],
    ...          "stability_sd": [0.1]}
    >>> ClusterChoiceDisplay(table, best=0).plot()  # doctest: +SKIP
    """

    table: Mapping[str, Any]
    best: int | None = field(default=None, kw_only=True)

    @classmethod
    def from_choice(cls, choice: Any, *, axes: Any = None) -> Self:
        """Plot the result of `choose_clusters`.

        Parameters
        ----------
        choice : ClusterChoice
            Result of `choose_clusters`.
        axes : pair of matplotlib Axes, default=None
            Where to plot; a new figure by default.

        Returns
        -------
        ClusterChoiceDisplay
        """
        return cls(choice.table, best=choice.best).plot(axes=axes)

    def plot(self, *, axes: Any = None) -> Self:
        """Draw the display.

        Parameters
        ----------
        axes : pair of matplotlib Axes, default=None
            Where to plot; a new figure by default.

        Returns
        -------
        ClusterChoiceDisplay
        """
        if axes is None:
            pyplot = import_extra("matplotlib.pyplot", extra="plot")
            _, axes = pyplot.subplots(2, 1, sharex=True, figsize=(6.4, 5.6), layout="constrained")
        columns = {name: np.asarray(values) for name, values in self.table.items()}
        above, below = axes
        for alpha in np.unique(columns["alpha"]):
            rows = columns["alpha"] == alpha
            counts = columns["n_clusters"][rows]
            middle, spread = columns["stability"][rows], columns["stability_sd"][rows]
            label = f"alpha = {alpha:g}"
            above.errorbar(counts, middle, yerr=spread, marker="o", ms=4, capsize=3, label=label)
            below.plot(counts, columns["eigengap"][rows], marker="o", ms=4)
        if self.best is not None:
            for ax, name in ((above, "stability"), (below, "eigengap")):
                place = columns["n_clusters"][self.best], columns[name][self.best]
                ax.plot(*place, "o", ms=12, mfc="none", mec="#d9762b", mew=2)
        above.set_ylabel("stability (adjusted Rand index)")
        below.set(xlabel="number of clusters", ylabel="eigengap")
        plain_legend(above)
        for ax in (above, below):
            plain_frame(ax, grid="both")
        self.axes_, self.figure_ = np.array([above, below]), above.figure
        return self
