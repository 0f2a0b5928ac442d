"""Choose the number of clusters and the weight of the labels by eigengaps and stability."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score
from sklearn.utils import check_random_state

from bagwise._common.types import Array, Ints
from bagwise.bags import Bags
from bagwise.cluster._bag_spectral import ALPHA, BagConstrainedSpectralClustering, known_label_sets
from bagwise.exceptions import InputError
from bagwise.labels import Labels
from bagwise.solvers.spectral.bag_spectral import class_shares, embed, k_means, nearest_center
from bagwise.solvers.spectral.block_eigenvectors import leading_eigenvectors
from bagwise.validation import check_bags

SHARE = 0.8  # of the bags in a resample


class ClusterChoice(NamedTuple):
    """Result of `choose_clusters`.

    Attributes
    ----------
    table : dict of str to ndarray
        A row per pair of ``"alpha"`` and ``"n_clusters"``: ``"eigengap"``, the drop from the last
        used eigenvalue to the next, relative to the former; ``"stability"``, the mean adjusted Rand
        index between the clusters of all bags and those of resampled bags, and
        ``"stability_sd"``, its standard deviation; ``"agreement"``, the share of the instances of
        left-out bags whose cluster refines a label of their bag (nan if no labels are known).
    n_clusters : int
        The number of clusters of the best row.
    alpha : float
        The weight of the label sets of the best row.
    best : int
        The best row: among the rows of the alpha with the best mean agreement, and within one
        standard error of the most stable row, the one with the largest eigengap.
    """

    table: dict[str, Array]
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
    random_state: Any = None,
) -> ClusterChoice:
    """Compare numbers of clusters and weights of label sets without any instance labels.

    Bags are resampled without replacement and clustered again. A good number of clusters gives the
    same clusters as on all bags (stability); among equally stable numbers the one with the largest
    eigengap is chosen. A good weight puts the instances of left-out bags into clusters of their own
    labels (agreement).

    Parameters
    ----------
    estimator : BagConstrainedSpectralClustering
        Provides all other parameters; it is not changed.
    X : Bags or anything accepted as bags
        The bags.
    y : 0/1 array of shape (n_bags, n_classes), list of sets or one label per bag, default=None
        The label set of each bag, as in ``fit``.
    n_clusters : sequence of int
        The numbers of clusters to compare.
    alphas : sequence of float, default=None
        The weights of Q to compare; by default that of the estimator. If given, "auto" is "bag";
        not used by "posterior".
    n_resamples : int, default=10
        Number of resamples, of 80 % of the bags each; at least two.
    random_state : int, RandomState instance or None, default=None
        Seed of the resamples and of the clusterings.

    Returns
    -------
    ClusterChoice

    Notes
    -----
    Cost: ``n_resamples + 1`` similarities, as many eigenproblems for each alpha, and a k-means for
    each row of the table and each resample.

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
    weights: list[float | None] = [estimator.alpha] if alphas is None else [*sorted(set(alphas))]
    bags = check_bags(None, X, reset=True)
    n_drawn = max(1, round(SHARE * len(bags)))
    if not counts or not weights or n_resamples < 2:
        raise InputError("give n_clusters and alphas to compare, and n_resamples of 2 at least.")
    if counts[0] < 1 or counts[-1] >= (smallest := int(np.sort(bags.sizes)[:n_drawn].sum())):
        raise InputError(
            f"n_clusters={counts[0]}, ..., {counts[-1]}: expected 1 to {smallest - 1}, fewer than "
            f"the instances that {SHARE:.0%} of the bags may have."
        )
    labels = known_label_sets(y, bags)
    rng = check_random_state(random_state)
    models = [clone(estimator).set_params(alpha=weight) for weight in weights]
    _, everything, spectra, _ = _cluster(models, bags, labels, np.arange(len(bags)), counts, rng)
    stability = np.empty((n_resamples, len(weights), len(counts)))
    agreement = np.empty_like(stability)
    for draw in range(n_resamples):
        chosen = np.sort(rng.choice(len(bags), n_drawn, replace=False))
        rows, clusters, _, agreement[draw] = _cluster(models, bags, labels, chosen, counts, rng)
        for cell in np.ndindex(stability.shape[1:]):
            stability[draw][cell] = adjusted_rand_score(everything[cell][rows], clusters[cell])
    last, following = (spectra[:, np.array(counts) - 1 + k] for k in (0, 1))
    table = {
        "alpha": np.repeat([ALPHA if w is None else w for w in weights], len(counts)),
        "n_clusters": np.tile(counts, len(weights)),
        "eigengap": ((last - following) / np.maximum(np.abs(last), 1e-12)).ravel(),
        "stability": stability.mean(axis=0).ravel(),
        "stability_sd": stability.std(axis=0).ravel(),
        "agreement": agreement.mean(axis=0).ravel(),
    }
    best = _best_row(table, n_resamples)
    return ClusterChoice(table, int(table["n_clusters"][best]), float(table["alpha"][best]), best)


def _cluster(
    models: list[Any], bags: Bags, labels: Labels | None, chosen: Ints, counts: list[int], rng: Any
) -> tuple[Ints, Array, Array, Array]:
    """Cluster some bags, for each weight and number of clusters; the models differ only in alpha.

    Returns the instances of these bags, their clusters, the eigenvalues for each weight, and the
    share of the instances of the other bags in a cluster of one of their labels.
    """
    inside = np.isin(bags.bag_index, chosen)
    rows, others = np.flatnonzero(inside), np.flatnonzero(~inside)
    drawn, known = bags[chosen], None if labels is None else labels[chosen]
    left_out, model = bags.instances[others], clone(models[0])
    if model.affinity == "precomputed":
        drawn, left_out = drawn.with_instances(drawn.instances[:, rows]), left_out[:, rows]
    similarity, constraints, order = model._compare(drawn, known, rng)
    near = None if labels is None or len(others) == 0 else model._compare_new(left_out)
    shape = len(models), len(counts)
    clusters, agreement = np.empty((*shape, len(rows)), np.int64), np.full(shape, np.nan)
    spectra, options = [], {"tol": model.tol, "max_iter": model.max_iter}
    for i, weighted in enumerate(models):
        operator = weighted._constrain(similarity, constraints, drawn.bag_index[order], known)
        result = leading_eigenvectors(operator, counts[-1] + 1, rng, **options)
        vectors, values = result.solution
        spectra.append(values)
        at_anchors = model._at_anchors(operator, vectors, values)
        for j, k in enumerate(counts):
            embedding = embed(vectors[:, :k], values[:k], weighted=True)
            clusters[i, j, order], centers = k_means(embedding, k, model.n_init, rng)
            if near is not None and labels is not None:
                candidates = (labels.indicator == 1)[bags.bag_index]
                shares = class_shares(clusters[i, j], candidates[rows], k)
                predicted = nearest_center(near, at_anchors[:, :k], centers)
                agreement[i, j] = _share_right(shares[predicted], candidates[others])
    return rows, clusters, np.array(spectra), agreement


def _share_right(shares: Array, candidates: Array) -> float:
    """Share of the labelled instances whose most probable class is a candidate."""
    labelled = candidates.any(axis=1)
    right = candidates[labelled, shares[labelled].argmax(axis=1)]
    return float(right.mean()) if len(right) else np.nan


def _best_row(table: dict[str, Array], n_resamples: int) -> int:
    means = {a: table["agreement"][table["alpha"] == a].mean() for a in np.unique(table["alpha"])}
    best_alpha = max(means, key=lambda a: np.nan_to_num(means[a], nan=-np.inf))
    stability = np.where(table["alpha"] == best_alpha, table["stability"], -np.inf)
    top = int(stability.argmax())
    error = table["stability_sd"][top] / np.sqrt(n_resamples - 1)
    equal = stability >= stability[top] - error
    return int(np.where(equal, table["eigengap"], -np.inf).argmax())
