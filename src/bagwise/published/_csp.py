"""Spectral clustering with bag constraints, and its rivals, as printed (Pei and Fern 2014)."""

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator

from bagwise._common.sklearn import StrOptions
from bagwise._common.types import Array, Ints
from bagwise.bags import Bags
from bagwise.base._parameters import NOT_NEGATIVE, with_parameters
from bagwise.cluster import BagConstrainedSpectralClustering
from bagwise.labels import Labels
from bagwise.solvers.spectral import ConstrainedSimilarity, constrain, group_term, profiles_of

__all__ = ["csp"]

VARIANTS = ("csp", "csp-rac", "w.o. clml", "splearn", "spreg")
BETA = 20.0  # of SpReg


@with_parameters
class PublishedCSP(BagConstrainedSpectralClustering):
    """CSP by Algorithm 1, or a method it is compared with: see `bagwise.published.csp`."""

    _declared: Any = ({}, {})  # none of the parameters of our default
    _weighted = False
    affinity, constraints, verbose = "local_scaling", "bag_as_printed", 0
    n_neighbors = 0  # local scaling compares all pairs

    _parameter_constraints = {
        "alpha": [NOT_NEGATIVE],
        "variant": [StrOptions(set(VARIANTS))],
        "tol": [NOT_NEGATIVE],
    }

    n_clusters: int = 8
    alpha: float = 0.7
    variant: str = "csp"
    n_init: int = 10
    max_iter: int = 100
    tol: float = 1e-8
    random_state: Any = None

    def _compare(self, bags: Bags, labels: Labels | None, rng: Any) -> tuple[Any, Any, Ints]:
        similarity, constraints, order = super()._compare(bags, labels, rng)
        np.fill_diagonal(similarity, 1.0)  # exp(0): the paper does not except the diagonal
        return similarity, constraints, order

    def _constrain(
        self, similarity: Array, constraints: Any, bag_index: Ints, labels: Labels | None
    ) -> ConstrainedSimilarity:
        sets = None if labels is None else labels.indicator
        found = constrain(similarity, bag_index, sets, constraints=constraints, alpha=self.alpha)
        found = replace(found, degrees=similarity.sum(axis=1, dtype=np.float64))
        if self.variant == "csp-rac":
            return replace(found, degrees=np.ones(len(bag_index)))
        if self.variant == "csp" or sets is None:
            return found
        links = Links(sets, bag_index, self.n_clusters)
        if self.variant == "w.o. clml":
            return links.left_out(found)
        plain = replace(found, term=None, alpha=0.0)
        return links.learned(plain) if self.variant == "splearn" else links.regularized(plain)


class Links:
    """Must-links and cannot-links between the instances of pairs of bags (Table 1).

    Parameters
    ----------
    label_sets : ndarray of shape (n_bags, n_classes)
        Zeros and ones; a row of -1 if the label set is unknown.
    bag_index : ndarray of int of shape (n_instances,)
        The bag of each instance.
    n_clusters : int
        With more clusters than classes, must-links are not used: instances of a class may be in
        different clusters.
    """

    def __init__(self, label_sets: Ints, bag_index: Ints, n_clusters: int) -> None:
        known, self.profiles = profiles_of(label_sets)
        indicator = np.maximum(label_sets, 0)
        single = indicator * (indicator.sum(axis=1) == 1)[:, None]
        self.must = single @ single.T > 0
        self.cannot = (indicator @ indicator.T == 0) & np.outer(known, known)
        self.single = single * float(n_clusters <= indicator.any(axis=0).sum())
        self.bag_index = bag_index

    def left_out(self, found: ConstrainedSimilarity) -> ConstrainedSimilarity:
        """CSP w.o. clml: the entries of Q for linked pairs are zero."""
        total = self.profiles.sum(axis=0)
        mu = float(total @ total) / len(self.profiles) ** 2
        core = self.profiles @ self.profiles.T - mu * np.eye(len(self.profiles))
        core[self.must | self.cannot] = 0.0
        return replace(found, term=group_term(self.bag_index, aslinearoperator(found.alpha * core)))

    def learned(
        self, plain: ConstrainedSimilarity, *, additive: bool = True
    ) -> ConstrainedSimilarity:
        """SpLearn: similarity 1 for must-links and 0 for cannot-links (Kamvar et al. 2003)."""
        pairs = np.ix_(self.bag_index, self.bag_index)
        must = (self.single @ self.single.T > 0)[pairs]
        W = np.where(must, 1.0, np.where(self.cannot[pairs], 0.0, plain.similarity))
        np.fill_diagonal(W, plain.similarity.diagonal())
        degrees = W.sum(axis=1)
        if additive:  # (W + d_max I - D) / d_max
            largest = degrees.max()
            W[np.diag_indices(len(W))] += largest - degrees
            degrees = np.full(len(W), largest)
        return replace(plain, similarity=W.astype(plain.dtype), degrees=degrees)

    def regularized(
        self, plain: ConstrainedSimilarity, beta: float = BETA
    ) -> ConstrainedSimilarity:
        """SpReg: a penalty on the distances of must-linked instances in the embedding (Ji 2006).

        The penalty of an instance is the mean over the instances it is linked with: beta then does
        not depend on the size of the data set.
        """
        n_linked = np.maximum(self.single[self.bag_index].sum(axis=0), 1)
        core = aslinearoperator(self.single * (beta / n_linked)) @ aslinearoperator(self.single.T)
        linked = beta * self.single.any(axis=1)[self.bag_index]
        term = group_term(self.bag_index, core) - aslinearoperator(sparse.diags_array(linked))
        root = aslinearoperator(sparse.diags_array(plain.degrees**0.5))  # D^-1/2 cancels it
        return replace(plain, term=root @ term @ root, alpha=beta)


def csp(
    K: int = 8,
    alpha: float = 0.7,
    variant: str = "csp",
    *,
    n_init: int = 10,
    max_iter: int = 100,
    tol: float = 1e-8,
    random_state: Any = None,
) -> PublishedCSP:
    r"""Spectral clustering with bag constraints (CSP), Algorithm 1 as printed by Pei and Fern 2014.

    1. :math:`W_{pq} = \exp(-|x_p - x_q|^2 / (2 \sigma_p \sigma_q))`, with :math:`\sigma` the
       distance to the seventh neighbour, and :math:`D = \mathrm{Diag}(W 1)`;
    2. :math:`Q = B (Y'Y - \mu I) B'`, with B the indicator of bags, the columns of Y the label sets
       scaled to sum 1 (0 without labels), and :math:`\mu` the sum of Y'Y over the squared number
       of bags (Eq. 12);
    3. the K leading eigenvectors of :math:`D^{-1/2} (W + \alpha Q) D^{-1/2}`, not weighted;
    4. rows scaled to length 1, and k-means.

    Parameters
    ----------
    K : int, default=8
        Number of clusters.
    alpha : float, default=0.7
        Weight of Q; 0 for plain spectral clustering ("SP").
    variant : str, default="csp"
        - "csp": as above;
        - "csp-rac": the same with the ratio association criterion, D = I (not in the paper, whose
          Eq. 2 allows any criterion);
        - "w.o. clml": the entries of Q of must-links (bags of the same single label) and of
          cannot-links (no common label) are 0;
        - "splearn": Q = 0, W is 1 for must-links and 0 for cannot-links, with the additive
          normalisation :math:`(W + d_{max} I - D) / d_{max}` of Kamvar et al.;
        - "spreg": Q = 0, with a penalty of 20 on must-links. The paper does not print it: the
          penalty of an instance is its mean squared distance to the instances it is linked with.

        With more clusters than classes, "splearn" and "spreg" have no must-links.
    n_init : int, default=10
        Number of starts of k-means, which the paper does not print.
    max_iter : int, default=100
        Maximum number of restarts of the eigenvector iteration.
    tol : float, default=1e-8
        Residual of each eigenvector, relative to its eigenvalue.
    random_state : int, RandomState or None, default=None
        For the first vectors, and for k-means.

    Returns
    -------
    estimator
        With ``labels_``, the cluster of each instance, and ``embedding_``, after `fit` or
        `fit_predict` on bags and label sets. Without label sets it is plain spectral clustering.

    Notes
    -----
    Our default, :class:`bagwise.cluster.BagConstrainedSpectralClustering`, differs:

    - it multiplies W by the agreement of the posterior labels of ORLR with a kernel, instead of
      adding Q; ``constraints="bag"`` adds Q;
    - Q is the sum that Eq. 9 asks for: Appendix A takes the sum of :math:`b_s b_r'` over all pairs
      of bags for BB', but it is :math:`(B1)(B1)'`. Only labelled bags count;
    - each eigenvector is weighted by the root of its eigenvalue;
    - the diagonal of W is 0, and degrees are at least a hundredth of their mean.

    Scales below a thousandth of their mean, as of many equal instances, are raised to it, here too.
    Memory: a few matrices of all pairs of instances.

    References
    ----------
    Pei, Fern. Constrained instance clustering in multi-instance multi-label learning. Pattern
    Recognition Letters 37, 2014. SpLearn: Kamvar, Klein, Manning, IJCAI 2003. SpReg: Ji, Xu, SIGIR
    2006.

    Examples
    --------
    >>> from bagwise.published import csp
    >>> bags = [[[0.0], [5.0]], [[0.1], [0.3]], [[5.1]], [[4.9], [5.2]]]
    >>> label_sets = [{"owl", "wren"}, {"owl"}, {"wren"}, {"wren"}]
    >>> model = csp(2, random_state=0).fit(bags, label_sets)
    >>> model.cluster_classes_[model.labels_]
    array(['owl', 'wren', 'owl', 'owl', 'wren', 'wren', 'wren'], dtype='<U4')
    """
    options: Any = {"n_init": n_init, "max_iter": max_iter, "tol": tol}
    return PublishedCSP(K, alpha, variant, **options, random_state=random_state)
