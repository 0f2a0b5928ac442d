"""Displays of clusters: a map of the instances, and the choice of the number of clusters."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from sklearn.utils import check_random_state

from bagwise._common.extras import import_extra
from bagwise._common.types import Array
from bagwise.base._pipelines import instance_model
from bagwise.displays._base import MARK, Display, plain_frame, plain_legend
from bagwise.exceptions import InputError

MOST_SHOWN = 2000
LONGEST_NAME = 16


@dataclass(eq=False)
class ClusterMapDisplay(Display):
    """Show instances as points of a plane, coloured by cluster, class or anything else.

    Create it with `from_estimator` or `from_predictions`.

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
    {ax_}
    {figure_}

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.displays import ClusterMapDisplay
    >>> display = ClusterMapDisplay(np.eye(2), ["owl", "wren"], title="species")
    >>> display.plot()  # doctest: +SKIP
    """

    points: Array
    groups: Sequence[Any]
    title: str = field(default="", kw_only=True)

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, *, groups: Any = None, **settings: Any) -> Self:
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
        **settings : object
            As for `from_predictions`.

        Returns
        -------
        ClusterMapDisplay
        """
        model, bags = instance_model(estimator, X)
        if bags is None or not hasattr(model, "labels_"):
            raise InputError(f"{type(model).__name__} has no labels_: expected a clusterer.")
        if len(model.labels_) != bags.n_instances:
            raise InputError("the model clustered other instances: pass those it was fitted to.")
        groups = model.labels_ if groups is None else groups
        embedding = getattr(model, "embedding_", bags.instances)
        return cls.from_predictions(embedding, groups, **settings)

    @classmethod
    def from_predictions(
        cls,
        embedding: Any,
        groups: Any,
        *,
        max_instances: int = MOST_SHOWN,
        random_state: Any = 0,
        **settings: Any,
    ) -> Self:
        """Lay out rows in the plane by t-SNE, and colour them by given groups.

        Two columns, such as two principal components, are shown as they are. The layout is the same
        for other groups of the same rows.

        Parameters
        ----------
        embedding : ndarray or sparse matrix of shape (n_instances, n_columns)
            The instances, or an embedding of them.
        groups : sequence of shape (n_instances,)
            Groups that are shown as colours; None if unknown.
        max_instances : int, default=2000
            Maximum number of instances; larger data are sampled.
        random_state : int, RandomState instance or None, default=0
            Seed of the sample and of the layout.
        **settings : object
            `title`, what the colours mean, and `ax`, the matplotlib Axes where to plot.

        Returns
        -------
        ClusterMapDisplay
        """
        n = embedding.shape[0]
        if len(groups) != n:
            raise InputError(f"{len(groups)} groups for {n} instances: give one for each.")
        rng = check_random_state(random_state)
        rows = np.sort(rng.permutation(n)[:max_instances])
        points = _in_the_plane(embedding[rows], rng)
        return cls.plotted(points, [groups[i] for i in rows], **settings)

    def _draw(self, ax: Any) -> None:
        colours = import_extra("matplotlib", extra="plot").colormaps["gist_rainbow"]
        texts = np.array(["" if group is None else str(group) for group in self.groups])
        names = sorted({*texts.tolist()} - {""}, key=lambda text: (len(text), text))
        shades = {name: colours(k / len(names)) for k, name in enumerate(names)}
        # One collection in the order of the points, so that a page can link each of them.
        every = [shades.get(text, "#9a9a9a") for text in texts.tolist()]
        ax.scatter(*np.asarray(self.points).T, c=every, s=12, linewidths=0, alpha=0.8)
        for name, colour in shades.items():
            middle = np.median(self.points[texts == name], axis=0)
            short = name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"
            box = {"boxstyle": "round,pad=0.15", "fc": "white", "ec": colour, "alpha": 0.8}
            style: Any = {"ha": "center", "va": "center", "fontsize": "small", "color": "#1d2126"}
            ax.annotate(short, middle, bbox=box, parse_math=False, **style)
        ax.set(xticks=[], yticks=[])
        ax.set_title(self.title, parse_math=False)


def _in_the_plane(rows: Any, rng: Any) -> Array:
    """The t-SNE of the first principal components; one or two columns as they are."""
    from scipy.sparse import issparse
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE

    if rows.shape[1] > 2 and rows.shape[0] >= 4:
        kept = min(30, *(np.array(rows.shape) - 1))
        solver = "arpack" if issparse(rows) else "auto"
        rows = PCA(kept, svd_solver=solver, random_state=rng).fit_transform(rows)
        if rows.std() > 0:
            near = min(30.0, (len(rows) - 1) / 3)
            tsne = TSNE(perplexity=near, init="pca", random_state=rng, max_iter=500)
            return tsne.fit_transform(rows / rows[:, 0].std())
    plain = rows.toarray() if issparse(rows) else np.asarray(rows, dtype=float)
    return np.pad(plain, ((0, 0), (0, 2)))[:, :2]


@dataclass(eq=False)
class ClusterChoiceDisplay(Display):
    """Show how stable each number of clusters is, and the eigengaps.

    Parameters
    ----------
    table : mapping of str to sequence
        The ``table`` of the result of :func:`bagwise.cluster.choose_clusters`.
    best : int, default=None
        The row to mark.

    Attributes
    ----------
    ax_ : ndarray of matplotlib Axes
        Stability above, eigengaps below.
    figure_ : matplotlib Figure
        The figure with the axes.

    Examples
    --------
    >>> from bagwise.displays import ClusterChoiceDisplay
    >>> table = {"alpha": [0.7], "n_clusters": [3], "eigengap": [0.5], "stability": [0.9],
    ...          "stability_sd": [0.1]}
    >>> ClusterChoiceDisplay(table, best=0).plot()  # doctest: +SKIP
    """

    n_panels = 2
    table: Mapping[str, Any]
    best: int | None = field(default=None, kw_only=True)

    @classmethod
    def from_choice(cls, choice: Any, *, ax: Any = None) -> Self:
        """Plot the result of `choose_clusters`.

        Parameters
        ----------
        choice : ClusterChoice
            Result of `choose_clusters`.
        ax : pair of matplotlib Axes, default=None
            Where to plot; a new figure by default.

        Returns
        -------
        ClusterChoiceDisplay
        """
        return cls(choice.table, best=choice.best).plot(ax=ax)

    def _draw(self, ax: Any) -> None:
        columns = {name: np.asarray(values) for name, values in self.table.items()}
        alpha, counts = columns["alpha"], columns["n_clusters"]
        errors = {"stability": columns["stability_sd"], "eigengap": None}
        for panel, (name, spread) in zip(ax, errors.items(), strict=True):
            for value in np.unique(alpha):
                rows = alpha == value
                style: Any = {"marker": "o", "ms": 4, "capsize": 3, "label": f"alpha = {value:g}"}
                error = None if spread is None else spread[rows]
                panel.errorbar(counts[rows], columns[name][rows], yerr=error, **style)
            if self.best is not None:
                place = counts[self.best], columns[name][self.best]
                panel.plot(*place, "o", ms=12, mfc="none", mec=MARK, mew=2)
            plain_frame(panel, grid="both")
        ax[0].set_ylabel("stability (adjusted Rand index)")
        ax[1].set(xlabel="number of clusters", ylabel="eigengap")
        plain_legend(ax[0])
