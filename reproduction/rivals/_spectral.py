"""Spectral clustering with the constraints and options that the paper of Pei and Fern compares."""

from dataclasses import KW_ONLY, replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator

from bagwise._common.sklearn import StrOptions
from bagwise._common.types import Floats, Ints
from bagwise.base._parameters import NOT_NEGATIVE, with_parameters
from bagwise.cluster import BagConstrainedSpectralClustering
from bagwise.cluster._bag_spectral import ALPHA
from bagwise.exceptions import InputError
from bagwise.labels import Labels
from bagwise.solvers.spectral import (
    ConstrainedSimilarity,
    floored_degrees,
    group_term,
    profiles_of,
)

CONSTRAINTS = ("bag", "bag_as_printed", "bag_only_ambiguous", "spectral_learning", "regularization")


@with_parameters
class PublishedSpectralClustering(BagConstrainedSpectralClustering):
    """CSP and its rivals: SpLearn (Kamvar et al. 2003), SpReg (Ji and Xu 2006), CSP w.o. clml.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    alpha : float or None, default=None
        Weight of the label sets; None for 0.7.
    constraints : str or None, default="bag"
        - "bag", "bag_as_printed" or None: as in `BagConstrainedSpectralClustering`;
        - "bag_only_ambiguous": without must-link and cannot-link pairs ("w.o. clml");
        - "spectral_learning": similarity 1 between bags with the same single label, 0 between bags
          without a common label;
        - "regularization": a penalty between bags with the same single label.

        The pairs with the same single label are not used when there are more clusters than classes.
    affinity : str or callable, default="local_scaling"
        The similarity of instances.
    normalization : {"symmetric", "additive"}, default="symmetric"
        Normalisation of "spectral_learning"; "additive" is that of Kamvar et al.
    beta : float, default=20.0
        Weight of "regularization".
    weight_eigenvectors : bool, default=True
        Whether to weight an eigenvector by the root of its eigenvalue; the paper does not.
    n_init : int, default=10
        Number of k-means starts.
    tol : float, default=1e-3
        Largest residual of each eigenvector, relative to its eigenvalue.
    max_iter : int, default=100
        Maximum number of restarts of the eigenvector iteration.
    random_state : int, RandomState instance or None, default=None
        Seed of the first vectors and of k-means.
    {verbose}
    """

    n_neighbors = 10
    neighbor_search = "exact"
    n_landmarks = 1000
    _parameter_constraints = {
        "constraints": [StrOptions(set(CONSTRAINTS)), None],
        "normalization": [StrOptions({"symmetric", "additive"})],
        "beta": [NOT_NEGATIVE],
        "weight_eigenvectors": ["boolean"],
    }

    n_clusters: int = 8
    alpha: float | None = None
    _: KW_ONLY
    constraints: str | None = "bag"
    affinity: Any = "local_scaling"
    normalization: str = "symmetric"
    beta: float = 20.0
    weight_eigenvectors: bool = True
    n_init: int = 10
    tol: float = 1e-3
    max_iter: int = 100
    random_state: Any = None
    verbose: int = 0

    @property
    def _weighted(self) -> bool:  # type: ignore[override]
        return self.weight_eigenvectors

    def _constrain(
        self, similarity: Any, constraints: str | None, bag_index: Ints, labels: Labels | None
    ) -> ConstrainedSimilarity:
        known = labels is not None and bool((labels.indicator == 1).any())
        if labels is None or not known or constraints in ("bag", "bag_as_printed", None):
            return super()._constrain(similarity, constraints, bag_index, labels)
        plain = super()._constrain(similarity, None, bag_index, None)
        pairs = _Pairs(labels.indicator, self.n_clusters)
        if constraints == "bag_only_ambiguous":
            alpha = ALPHA if self.alpha is None else self.alpha
            if not isinstance(similarity, np.ndarray):
                alpha = super()._constrain(similarity, "bag", bag_index, labels).alpha
            term = group_term(bag_index, aslinearoperator(alpha * pairs.ambiguous()))
            return replace(plain, term=term, alpha=alpha)
        if constraints == "regularization":
            return pairs.regularized(plain, bag_index, self.beta)
        additive = self.normalization == "additive"
        return pairs.spectral_learning(similarity, bag_index, additive=additive)


class _Pairs:
    """Which pairs of bags are must-links and cannot-links (Table 1)."""

    def __init__(self, label_sets: Ints, n_clusters: int) -> None:
        known, self.profiles = profiles_of(label_sets)
        indicator = np.maximum(label_sets, 0)
        single = indicator * (indicator.sum(axis=1) == 1)[:, None]
        self.known = np.outer(known, known)
        self.must = single @ single.T > 0
        self.cannot = (indicator @ indicator.T == 0) & self.known
        self.mu = float(np.square(self.profiles.sum(axis=0)).sum()) / known.sum() ** 2
        self.uses_must = n_clusters <= indicator.any(axis=0).sum()
        self.single = single * float(self.uses_must)

    def ambiguous(self) -> Floats:
        """The corrected matrix of the bags without must-links and cannot-links (w.o. clml)."""
        kept = self.known & ~self.must & ~self.cannot
        return np.where(kept, self.profiles @ self.profiles.T - self.mu, 0.0)

    def links(self, bag_index: Ints, weights: Any) -> Any:
        """Weights of must-linked pairs of instances; an instance is not linked with itself."""
        core = aslinearoperator(self.single * weights) @ aslinearoperator(self.single.T)
        own = (self.single * weights).sum(axis=1)[bag_index]
        return group_term(bag_index, core), own

    def spectral_learning(
        self, similarity: Any, bag_index: Ints, *, additive: bool
    ) -> ConstrainedSimilarity:
        """Kamvar, Klein and Manning 2003: similarity 1 for must-links, 0 for cannot-links."""
        if not isinstance(similarity, np.ndarray) and not sparse.issparse(similarity):
            raise InputError("landmarks do not have similarities of single pairs.")
        changed = self.cannot | self.must if self.uses_must else self.cannot
        entries = sparse.coo_array(similarity)
        rows, columns = entries.coords
        kept = ~changed[bag_index[rows], bag_index[columns]]
        coords = rows[kept], columns[kept]
        left: Any = sparse.csr_array((entries.data[kept], coords), shape=entries.shape)
        left = left.toarray() if isinstance(similarity, np.ndarray) else left
        term, own = self.links(bag_index, 1.0)
        n = len(bag_index)
        degrees = np.asarray(left.sum(axis=1), dtype=float).ravel() + term @ np.ones(n) - own
        if additive:  # (W + d_max - D) / d_max
            largest = max(float(degrees.max()), np.finfo(float).tiny)
            own, degrees = own + degrees - largest, np.full(n, largest)
        term = term - aslinearoperator(sparse.diags_array(own))
        return ConstrainedSimilarity(left, term, floored_degrees(degrees), 1.0)

    def regularized(
        self, plain: ConstrainedSimilarity, bag_index: Ints, beta: float
    ) -> ConstrainedSimilarity:
        """Ji and Xu 2006: a penalty on the distance of must-linked instances in the embedding.

        The penalty of an instance is the mean over the instances it is linked with. A sum would
        grow with their number, and beta would depend on the size of the data set.
        """
        if not self.uses_must:
            return plain
        n_linked = np.maximum(self.single[bag_index].sum(axis=0), 1)
        term, _ = self.links(bag_index, beta / n_linked)
        linked = beta * self.single.any(axis=1)[bag_index]
        term = term - aslinearoperator(sparse.diags_array(linked))
        root = aslinearoperator(sparse.diags_array(plain.degrees**0.5))  # D^-1/2 cancels it
        return replace(plain, term=root @ term @ root, alpha=beta)
