"""BagConstrainedSpectralClustering: clusters of instances that respect the label sets of bags."""

from collections.abc import Sequence
from dataclasses import KW_ONLY
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import ClusterMixin, clone
from sklearn.metrics import adjusted_rand_score
from sklearn.utils import check_random_state

from bagwise._common.sklearn import StrOptions
from bagwise._common.tables import slices
from bagwise._common.types import Array, Ints
from bagwise.bags import Bags
from bagwise.base import BagEstimator, fit_method
from bagwise.base._parameters import COUNT, NOT_NEGATIVE, with_parameters
from bagwise.base._scoring import guarded
from bagwise.cluster import _affinity
from bagwise.compute import is_here, over_partitions
from bagwise.exceptions import InputError
from bagwise.labels import Labels
from bagwise.solvers import spectral
from bagwise.validation import check_bags, check_label_sets

ALPHA = 0.7  # as in the paper
NOT_WEIGHED = ("landmark", "precomputed")  # affinities without pairs of instances to reweight
MOST_NAMED = 100_000  # maximum number of instances for ORLR, which then dominates the cost


@with_parameters
class BagConstrainedSpectralClustering(ClusterMixin, BagEstimator):
    r"""Cluster instances so that clusters respect, or refine, the labels of their bags.

    Spectral clustering with bag constraints (Pei and Fern 2014): bags that share labels should
    share clusters. With as many clusters as classes the classes are recovered; with more,
    sub-classes are found. Instances of bags without labels are clustered by their features alone.

    The embedding is made of the leading eigenvectors of :math:`D^{-1/2} (W + \alpha Q) D^{-1/2}`,
    where W is the similarity of instances, D its degrees, and :math:`Q = B Y'Y B' - \mu e e'` the
    agreement of the label sets of their bags above the mean. Q is never formed.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    alpha : float or None, default=None
        Weight of Q, the label sets; 0 for plain spectral clustering, None for 0.7. Not used by
        "posterior". See :func:`bagwise.cluster.choose_clusters`.
    constraints : str or None, default="auto"
        How label sets change the similarity of pairs of instances:

        - "auto": "posterior", which finds classes and sub-classes best; "bag" if `alpha` is given,
          with one label only, with the affinities "landmark" and "precomputed", and beyond 100,000
          instances;
        - "bag": Q as above; only labelled bags enter;
        - "bag_as_printed": Q of the paper's Eq. 12, whose derivation has an error;
        - "posterior": W is multiplied by the probability that both instances have the same label,
          by :class:`~bagwise.annotation.ORedLogisticRegression` with an RBF kernel, given the label
          sets (not in the paper);
        - None: plain spectral clustering.
    affinity : str or callable, default="auto"
        The similarity of instances:

        - "local_scaling": of all pairs;
        - "nearest_neighbors": local scaling on the graph of nearest neighbours;
        - "landmark": through `n_landmarks` points, for millions of instances;
        - "auto": "local_scaling" up to 10,000 instances, else "nearest_neighbors";
        - "precomputed": the instances are the rows of a symmetric similarity matrix, dense or CSR;
        - a function of two tables, such as :func:`sklearn.metrics.pairwise.rbf_kernel`.
    n_neighbors : int, default=10
        Number of neighbours of an instance in the graph, or of its landmarks.
    neighbor_search : {"exact", "approximate"}, default="exact"
        How the graph is found; "approximate" (extra ``ann``) for hundreds of thousands of
        instances.
    n_landmarks : int, default=1000
        Number of landmarks.
    n_init : int, default=10
        Number of k-means starts.
    tol : float, default=1e-3
        Largest residual of each eigenvector, relative to its eigenvalue.
    max_iter : int, default=100
        Maximum number of restarts of the eigenvector iteration.
    random_state : int, RandomState instance or None, default=None
        Seed of the first vectors, of k-means and of landmarks. The order of bags and
        instances is irrelevant.
    {verbose}

    Attributes
    ----------
    labels_ : ndarray of shape (n_instances,)
        The cluster of each instance, aligned with ``bags.instances``.
    embedding_ : ndarray of shape (n_instances, n_clusters)
        The instances in the space of the eigenvectors, each weighted by the root of its eigenvalue,
        so that it approximates the constrained similarity best; rows of length 1 (0 for an isolated
        instance).
    eigenvalues_ : ndarray of shape (n_clusters,)
        The leading eigenvalues; with constraints they may exceed 1.
    cluster_centers_ : ndarray of shape (n_clusters, n_clusters)
        The centres in that space.
    classes_ : ndarray of shape (n_classes,) or None
        The labels; None when none were given.
    cluster_classes_ : ndarray of shape (n_clusters,) or None
        The class that each cluster refines: the one with the largest share.
    cluster_class_shares_ : ndarray of shape (n_clusters, n_classes) or None
        The share of each class in each cluster, by maximum likelihood, given that each instance has
        one of the labels of its bag; zeros for a cluster without labelled instances.
    annotator_ : ORedLogisticRegression
        The model of the instance labels; only if "posterior" was used and labels are known.
    affinity_ : str or callable
        The affinity used.
    alpha_ : float
        The weight of Q: `alpha` on dense similarities; on a graph it is multiplied by the ratio of
        the mean row sums of W and Q, since only the latter grow with the number of instances. 0
        without Q.
    n_iter_ : int
        Number of restarts.
    objective_curve_ : ndarray of shape (n_iterations,)
        The sum of the leading eigenvalues (Eq. 13) after each restart; it never falls.
    {n_features_in_}

    See Also
    --------
    bagwise.cluster.choose_clusters : Choose `n_clusters` and `alpha` without instance labels.

    Notes
    -----
    Features should be standardised first: :class:`~bagwise.preprocessing.InstanceTransformer`.
    Cost: the similarity, then about a hundred products with it, each of the size of W. Beyond
    10,000 instances, k-means is initialised on a sample of them. Local scaling takes the distance
    to the seventh neighbour as the scale of an instance. Bags on a Dask cluster are collected,
    except with ``affinity="landmark"``.

    References
    ----------
    Pei, Fern. Constrained instance clustering in multi-instance multi-label learning. Pattern
    Recognition Letters 37, 2014.

    Examples
    --------
    >>> from bagwise.cluster import BagConstrainedSpectralClustering
    >>> bags = [[[0.0], [5.0]], [[0.1], [0.3]], [[5.1]], [[4.9], [5.2]]]
    >>> label_sets = [{"owl", "wren"}, {"owl"}, {"wren"}, None]
    >>> model = BagConstrainedSpectralClustering(2, random_state=0)
    >>> clusters = model.fit_predict(bags, label_sets)
    >>> model.cluster_classes_[clusters]
    array(['owl', 'wren', 'owl', 'owl', 'wren', 'wren', 'wren'], dtype='<U4')
    >>> model.cluster_classes_[model.predict_instances([[[0.2], [5.3]]])]
    array(['owl', 'wren'], dtype='<U4')
    """

    _runs_elsewhere = ("cluster",)
    _weighted = True  # eigenvectors by the root of their eigenvalue; the paper weights all equally

    _parameter_constraints = {
        "alpha": [NOT_NEGATIVE, None],
        "constraints": [StrOptions({"auto", "bag", "bag_as_printed", "posterior"}), None],
        "affinity": [StrOptions(set(_affinity.AFFINITIES)), callable],
        "neighbor_search": [StrOptions({"exact", "approximate"})],
        "n_landmarks": [COUNT],
        "tol": [NOT_NEGATIVE],
    }

    n_clusters: int = 8
    alpha: float | None = None
    _: KW_ONLY
    constraints: str | None = "auto"
    affinity: Any = "auto"
    n_neighbors: int = 10
    neighbor_search: str = "exact"
    n_landmarks: int = 1000
    n_init: int = 10
    tol: float = 1e-3
    max_iter: int = 100
    random_state: Any = None
    verbose: int = 0

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.affinity == "precomputed"
        return tags

    @fit_method
    def fit(self, X: Any, y: Any = None) -> Self:
        """Cluster the instances.

        Parameters
        ----------
        {X}
        y : 0/1 array of shape (n_bags, n_classes), list of sets or one label per bag, default=None
            The label set of each bag; a row of -1, or None in a list, if it is unknown.

        Returns
        -------
        self
        """
        bags = check_bags(self, X, reset=True)
        labels = known_label_sets(y, bags)
        if self.n_clusters > (n := bags.n_instances):
            raise InputError(f"n_samples={n} instances are less than n_clusters={self.n_clusters}.")
        rng = check_random_state(self.random_state)
        stages = self._track(("similarity", "eigenvectors", "k-means"), "stage")

        next(stages, None)
        similarity, constraints, order = self._compare(bags, labels, rng)
        next(stages, None)
        operator = self._constrain(similarity, constraints, bags.bag_index[order], labels)
        options: Any = {"tol": self.tol, "max_iter": self.max_iter}
        result = spectral.leading_eigenvectors(operator, self.n_clusters, rng, **options)
        self._keep_progress(result, "raise max_iter or tol")
        next(stages, None)
        vectors, self.eigenvalues_ = result.solution
        embedding = spectral.embed(vectors, self.eigenvalues_, weighted=self._weighted)
        clusters, self.cluster_centers_ = spectral.k_means(
            embedding, self.n_clusters, self.n_init, rng
        )
        next(stages, None)

        came = np.argsort(order)
        self.labels_, self.embedding_, self.alpha_ = clusters[came], embedding[came], operator.alpha
        self._anchor_vectors = self._at_anchors(operator, vectors, self.eigenvalues_)
        self._name_clusters(bags, labels)
        return self

    def fit_predict(self, X: Any, y: Any = None, **kwargs: Any) -> Ints:
        """Cluster the instances, and return the cluster of each.

        Parameters
        ----------
        {X}
        y : 0/1 array of shape (n_bags, n_classes), list of sets or one label per bag, default=None
            The label set of each bag, as in `fit`.
        **kwargs : dict
            Passed to `fit`.

        Returns
        -------
        ndarray of shape (n_instances,)
            ``labels_``, aligned with ``bags.instances``.
        """
        return guarded(self.fit(X, y, **kwargs).labels_, X)

    def predict_instances(self, X: Any) -> Ints:
        """Find the cluster of new instances, by the Nyström extension of the eigenvectors.

        The labels of their bags are not needed.

        Parameters
        ----------
        X : Bags or anything accepted as bags
            New bags; with ``affinity="precomputed"`` their instances are rows of similarities to
            the instances of `fit`.

        Returns
        -------
        ndarray of shape (n_instances,)
            The nearest centre of each instance, aligned with ``bags.instances``.
        """
        return guarded(self._evaluate(X, self._clusters), X)

    def _clusters(self, bags: Bags) -> Ints:
        found = np.empty(bags.n_instances, dtype=np.int64)
        for rows in slices(bags.n_instances, 4096):
            near = self._compare_new(bags.instances[rows])
            found[rows] = spectral.nearest_center(near, self._anchor_vectors, self.cluster_centers_)
        return found

    def _compare(self, bags: Bags, labels: Labels | None, rng: Any) -> tuple[Any, Any, Ints]:
        """Similarities of the instances, the constraints to add, and the order of the instances.

        The similarities are weighted by the agreement of labels with "posterior". What is needed to
        compare new instances becomes attributes.
        """
        self.affinity_ = self.affinity
        if self.affinity == "auto":
            few = bags.n_instances <= _affinity.MOST_DENSE
            self.affinity_ = "local_scaling" if few else "nearest_neighbors"
        if self.affinity_ != "landmark":  # W is larger than the bags
            bags = bags if is_here(bags) else bags.collect()  # type: ignore[attr-defined]
        is_given = self.affinity_ == "precomputed"
        order = np.arange(bags.n_instances) if is_given else own_order(bags, labels)
        similarity, self._anchors, self._scales = _affinity.compare(self, bags, order, rng)
        constraints = self._resolved(bags, labels)
        if constraints == "posterior" and labels is not None:
            seed = rng.randint(np.iinfo(np.int32).max)
            self.annotator_, posteriors = _affinity.learn_labels(bags, labels, seed)
            self._posteriors, constraints = posteriors[order], None
            similarity = _affinity.weigh_by_agreement(
                similarity, self._posteriors, self._posteriors
            )
        return similarity, constraints, order

    def _compare_new(self, rows: Any) -> Any:
        """Similarities of new instances to the anchors, up to a factor per row."""
        near = _affinity.compare_new(self, rows, self._anchors, self._scales)
        if not hasattr(self, "annotator_"):
            return near
        names = getattr(self.annotator_, "feature_names_in_", None)
        alone = Bags(rows, [0, rows.shape[0]], feature_names=names)
        probable = self.annotator_.predict_proba_instances(alone)
        return _affinity.weigh_by_agreement(near, probable, self._posteriors)

    def _resolved(self, bags: Bags, labels: Labels | None) -> str | None:
        """Constraints to use, with "auto" resolved."""
        tell, weighable = _labels_tell(bags, labels), self.affinity_ not in NOT_WEIGHED
        if self.constraints == "auto":
            able = weighable and bags.n_instances <= MOST_NAMED
            return "posterior" if tell and able and self.alpha is None else "bag"
        if self.constraints == "posterior" and not (weighable and self.alpha is None):
            raise InputError(
                "constraints='posterior' has no alpha, and cannot be combined with affinity "
                "'landmark' or 'precomputed': use constraints='bag'."
            )
        return self.constraints if tell or self.constraints != "posterior" else None

    def _at_anchors(
        self, operator: spectral.ConstrainedSimilarity, vectors: Array, values: Array
    ) -> Array:
        """Matrix that maps the similarities to the anchors to the embedding of a new instance."""
        each = spectral.extension(operator, vectors, values, weighted=self._weighted)
        return operator.similarity.per_landmark @ each if self.affinity_ == "landmark" else each

    def _constrain(
        self, similarity: Any, constraints: str | None, bag_index: Ints, labels: Labels | None
    ) -> spectral.ConstrainedSimilarity:
        sets, alpha = None if labels is None else labels.indicator, self.alpha
        alpha = ALPHA if alpha is None else alpha
        return spectral.constrain(similarity, bag_index, sets, constraints=constraints, alpha=alpha)

    def _name_clusters(self, bags: Bags, labels: Labels | None) -> None:
        """Estimate the classes in each cluster from the label sets."""
        self.classes_ = self.cluster_classes_ = self.cluster_class_shares_ = None
        if labels is None:
            return
        candidates = (labels.indicator == 1)[bags.bag_index]
        shares = spectral.class_shares(self.labels_, candidates, self.n_clusters)
        common = candidates.sum(axis=0).argmax()
        best = np.where(shares.any(axis=1), shares.argmax(axis=1), common)
        self.classes_, self.cluster_class_shares_ = labels.classes, shares
        self.cluster_classes_ = labels.classes[best]


def _labels_tell(bags: Bags, labels: Labels | None) -> bool:
    """Whether ORLR can learn: it needs two labels, and a bag with no more labels than instances."""
    if labels is None or labels.indicator.shape[1] < 2:
        return False
    n_labels = (labels.indicator == 1).sum(axis=1)
    return bool(((n_labels > 0) & (n_labels <= bags.sizes)).any())


def known_label_sets(y: Any, bags: Bags) -> Labels | None:
    """Label sets of the bags, or None if all are unknown."""
    if y is None or (isinstance(y, list | tuple) and all(labels is None for labels in y)):
        return None
    labels = check_label_sets(y, bags)
    return labels if labels.known.any() and labels.indicator.shape[1] else None


def own_order(bags: Bags, labels: Labels | None) -> Ints:
    """Sort the instances by their values, independently of their order in the data.

    The random start and k-means then give the same result for any order of the bags.
    """
    draw = np.random.RandomState(0).standard_normal
    direction = draw(bags.n_features)
    place = over_partitions(lambda some: np.asarray(some.instances @ direction), bags)
    if labels is None:
        return np.argsort(place, kind="stable")
    by_labels = (labels.indicator @ draw(labels.indicator.shape[1]))[bags.bag_index]
    return np.lexsort((by_labels, place))


SHARE = 0.8  # of the bags in a resample


class ClusterChoice(NamedTuple):
    """Result of `choose_clusters`.

    Attributes
    ----------
    table : dict of str to ndarray
        A row per pair of ``"alpha"`` and ``"n_clusters"``: ``"eigengap"``, the drop from the last
        used eigenvalue to the next, relative to the former; ``"stability"``, the mean adjusted Rand
        index between the clusters of all bags and of resampled bags, and
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
        The weights of Q to compare; by default as in the estimator. If given, "auto" is "bag";
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
        raise InputError(f"n_clusters: expected 1 to {smallest - 1} for {smallest} instances.")
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
        result = spectral.leading_eigenvectors(operator, counts[-1] + 1, rng, **options)
        vectors, values = result.solution
        spectra.append(values)
        at_anchors = model._at_anchors(operator, vectors, values)
        for j, k in enumerate(counts):
            embedding = spectral.embed(vectors[:, :k], values[:k], weighted=True)
            clusters[i, j, order], centers = spectral.k_means(embedding, k, model.n_init, rng)
            if near is not None and labels is not None:
                candidates = (labels.indicator == 1)[bags.bag_index]
                shares = spectral.class_shares(clusters[i, j], candidates[rows], k)
                predicted = spectral.nearest_center(near, at_anchors[:, :k], centers)
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
