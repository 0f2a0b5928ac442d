"""Spectral clustering with the constraints and options that the paper of Pei and Fern compares."""

from dataclasses import KW_ONLY
from typing import Any

from bagwise._common.sklearn import StrOptions
from bagwise.base._parameters import NOT_NEGATIVE, with_parameters
from bagwise.cluster import BagConstrainedSpectralClustering
from bagwise.labels import Labels
from bagwise.solvers.spectral.bag_constraints import CONSTRAINTS, ConstrainedSimilarity


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

    def _constrain(self, pairs: Any, labels: Labels | None, **_: Any) -> ConstrainedSimilarity:
        return super()._constrain(pairs, labels, normalization=self.normalization, beta=self.beta)
