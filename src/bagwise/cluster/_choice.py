"""How many clusters, and how much weight for the labels? Eigengaps, and stability over bags."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score
from sklearn.utils import check_random_state

from bagwise._validation import LabelSets, check_bags
from bagwise.bags import Bags
from bagwise.cluster._bag_spectral import (
    BagConstrainedSpectralClustering,
    known_label_sets,
    own_order,
)
from bagwise.exceptions import InputError
from bagwise.solvers.bag_spectral import embed, k_means, leading_eigenvectors

__all__ = ["ClusterChoice", "choose_clusters"]


@dataclass(frozen=True)
class ClusterChoice:
    """What `choose_clusters` found.

    Attributes
    ----------
    table : dict of str to ndarray
        A row per pair of ``"alpha"`` and ``"n_clusters"``: ``"eigengap"``, the fall to the next
        eigenvalue as a share of the last that is used; ``"stability"``, the mean adjusted Rand
        index between the clusters of all bags and those of resampled bags, and ``"stability_sd"``,
        its standard deviation.
    n_clusters : int
        The number of clusters of the best row.
    alpha : float
        The weight of the label sets of the best row.
    best : int
        The best row: of those within one standard error of the most stable one, that with the
        largest eigengap.
    """

    table: dict[str, NDArray[Any]]
    n_clusters: int
    alpha: float
    best: int


def choose_clusters(
    estimator: BagConstrainedSpectralClustering,
    X: Any,
    y: Any = None,
    *,
    n_clusters: Sequence[int],
    alphas: Sequence[float] | None = None,
    n_resamples: int = 10,
    share: float = 0.8,
    random_state: Any = None,
) -> ClusterChoice:
    """Compare numbers of clusters and weights of label sets without any instance labels.

    A good choice survives the loss of some bags: the bags are resampled without replacement,
    clustered anew, and the clusters of their instances compared with those found from all bags.
    Among choices that are equally stable, a large eigengap speaks for a number of clusters.

    Parameters
    ----------
    estimator : BagConstrainedSpectralClustering
        All other settings; it is not changed. Constraints "bag", "bag_as_printed",
        "bag_only_ambiguous" or None.
    X : Bags or anything accepted as bags
        The bags.
    y : 0/1 array of shape (n_bags, n_classes), list of sets or one label per bag, default=None
        The label set of each bag, as in ``fit``.
    n_clusters : sequence of int
        The numbers of clusters to compare.
    alphas : sequence of float, default=None
        The weights to compare; by default that of the estimator.
    n_resamples : int, default=10
        How often bags are drawn.
    share : float, default=0.8
        The share of the bags in each draw.
    random_state : int, RandomState instance or None, default=None
        Seed of the draws and of the clusterings.

    Returns
    -------
    ClusterChoice

    Notes ----- Cost: ``n_resamples + 1`` similarities, as many eigenproblems for each alpha, and a
    k-means for each row of the table and each draw.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.cluster import BagConstrainedSpectralClustering, choose_clusters
    >>> rng = np.random.default_rng(0)
    >>> species = rng.integers(3, size=(40, 2))
    >>> bags = 6 * np.eye(3)[species] + rng.normal(size=(40, 2, 3))
    >>> model = BagConstrainedSpectralClustering(random_state=0)
    >>> choice = choose_clusters(
    ...     model, bags, [set(s) for s in species.tolist()], n_clusters=[2, 3, 4, 5], random_state=0
    ... )
    >>> choice.n_clusters
    3
    """
    counts = sorted(set(n_clusters))
    weights = [estimator.alpha] if alphas is None else sorted(set(alphas))
    bags = check_bags(None, X, reset=True)
    _check_request(estimator, bags, counts, weights, n_resamples, share)
    labels = known_label_sets(y, bags)
    rng = check_random_state(random_state)
    everything = np.arange(len(bags))
    values, reference = _cluster(estimator, bags, labels, everything, weights, counts, rng)
    agreement = np.empty((n_resamples, len(weights), len(counts)))
    for draw in range(n_resamples):
        chosen = np.sort(rng.choice(len(bags), _n_drawn(len(bags), share), replace=False))
        rows = _rows_of(bags, chosen)
        _, clusters = _cluster(estimator, bags, labels, chosen, weights, counts, rng)
        for cell in np.ndindex(agreement.shape[1:]):
            agreement[draw][cell] = adjusted_rand_score(reference[cell][rows], clusters[cell])
    last = np.array([[v[k - 1] for k in counts] for v in values])
    following = np.array([[v[k] for k in counts] for v in values])
    table = {
        "alpha": np.repeat(weights, len(counts)),
        "n_clusters": np.tile(counts, len(weights)),
        "eigengap": ((last - following) / np.maximum(np.abs(last), 1e-12)).ravel(),
        "stability": agreement.mean(axis=0).ravel(),
        "stability_sd": agreement.std(axis=0).ravel(),
    }
    best = _best_row(table, n_resamples)
    return ClusterChoice(table, int(table["n_clusters"][best]), float(table["alpha"][best]), best)


def _check_request(
    estimator: Any,
    bags: Bags,
    counts: list[int],
    weights: list[float],
    n_resamples: int,
    share: float,
) -> None:
    if estimator.constraints in ("spectral_learning", "regularization"):
        raise InputError(
            f"constraints={estimator.constraints!r} has no alpha, and changes with the number of "
            "clusters: use 'bag', 'bag_as_printed', 'bag_only_ambiguous' or None."
        )
    if not counts or not weights or n_resamples < 2 or not 0 < share <= 1:
        raise InputError(
            "n_clusters and alphas must not be empty, n_resamples is 2 at least, and share is "
            f"between 0 and 1: got {counts}, {weights}, {n_resamples} and {share}."
        )
    smallest = int(np.sort(bags.sizes)[: _n_drawn(len(bags), share)].sum())
    if counts[0] < 1 or counts[-1] >= smallest:
        raise InputError(
            f"n_clusters={counts[0]}, ..., {counts[-1]}: expected 1 to {smallest - 1}, fewer than "
            f"the instances that a share of {share} of the bags may have."
        )


def _cluster(
    estimator: BagConstrainedSpectralClustering,
    bags: Bags,
    labels: LabelSets | None,
    chosen: NDArray[np.intp],
    weights: list[float],
    counts: list[int],
    rng: np.random.RandomState,
) -> tuple[list[NDArray[Any]], dict[Any, NDArray[np.int64]]]:
    """Eigenvalues for each weight, and clusters for each weight and count, of some of the bags."""
    drawn = bags[chosen]
    if labels is not None:
        labels = LabelSets(labels.indicator[chosen], labels.classes, labels.single)
    affinity = estimator._affinity(bags.n_instances)
    if affinity.kind == "precomputed":
        drawn = drawn.with_instances(drawn.instances[:, _rows_of(bags, chosen)])
    order = own_order(drawn, labels, pairwise=affinity.kind == "precomputed")
    similarity, _, _ = affinity.compare(drawn.instances[order], rng)
    came = np.argsort(order)
    spectra = []
    clusters: dict[Any, NDArray[np.int64]] = {}
    for i, alpha in enumerate(weights):
        model = clone(estimator).set_params(alpha=alpha)
        operator = model._constrain(similarity, drawn.bag_index[order], labels)
        result = leading_eigenvectors(
            operator, counts[-1] + 1, rng, tol=estimator.tol, max_iter=estimator.max_iter
        )
        vectors, values = result.solution
        spectra.append(values)
        for j, k in enumerate(counts):
            rows = embed(vectors[:, :k], values[:k], weighted=estimator.weight_eigenvectors)
            clusters[i, j] = k_means(rows, k, estimator.n_init, rng)[0][came]
    return spectra, clusters


def _n_drawn(n_bags: int, share: float) -> int:
    return max(1, round(share * n_bags))


def _rows_of(bags: Bags, chosen: NDArray[np.intp]) -> NDArray[np.intp]:
    inside = np.zeros(len(bags), dtype=bool)
    inside[chosen] = True
    return np.flatnonzero(inside[bags.bag_index])


def _best_row(table: dict[str, NDArray[Any]], n_resamples: int) -> int:
    top = int(table["stability"].argmax())
    error = table["stability_sd"][top] / np.sqrt(n_resamples - 1)
    equal = table["stability"] >= table["stability"][top] - error
    return int(np.where(equal, table["eigengap"], -np.inf).argmax())
