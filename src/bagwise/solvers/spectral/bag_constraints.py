r"""Pairwise constraints from the label sets of bags, added to the similarity of instances.

Spectral clustering with bag constraints (Pei and Fern 2014) takes the leading eigenvectors of
D^-1/2 (W + alpha Q) D^-1/2, where W is the similarity of the N instances, D its degrees, and Q the
constraints. With y_i the indicator of the label set of bag i divided by its size, and e the
indicator of instances in labelled bags,

    Q = B Y'Y B' - mu e e',    mu = sum(Y'Y) / M^2        (the sum of Eq. 9)

over the M labelled bags. The paper prints B (Y'Y - mu I) B': its Appendix A equates the sum of
b_s b_r' over all pairs of bags with B B', but the sum is (B 1)(B 1)'.

Q is never formed. Its entry for two instances depends only on the label sets of their bags, so a
small matrix between groups suffices; a group is all instances whose bags have the same label set.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, aslinearoperator
from sklearn.utils import gen_batches

from bagwise._common.types import Bools, Floats, Ints
from bagwise.exceptions import InputError

CONSTRAINTS = ("bag", "bag_as_printed", "bag_only_ambiguous", "spectral_learning", "regularization")
# A matrix between this many label sets takes 3 GB.
MOST_GROUPS = 20_000
BLOCK = 512  # rows of a dense similarity per block


def low_rank(factor: Floats, weights: Floats) -> LinearOperator:
    """Operator of the symmetric matrix F diag(weights) F'.

    Parameters
    ----------
    factor : ndarray of shape (n, rank)
        F.
    weights : ndarray of shape (rank,)
        The weight of each column.

    Returns
    -------
    LinearOperator of shape (n, n)
    """
    return aslinearoperator(factor * weights) @ aslinearoperator(factor.T)


def group_term(groups: Ints, core: LinearOperator) -> LinearOperator:
    """Operator G core G': the entry for two instances depends only on their groups.

    Parameters
    ----------
    groups : ndarray of int of shape (n_instances,)
        The group of each instance.
    core : LinearOperator of shape (n_groups, n_groups)
        The entry for each pair of groups.

    Returns
    -------
    LinearOperator of shape (n_instances, n_instances)
    """
    n = len(groups)
    G = sparse.csr_array((np.ones(n), groups, np.arange(n + 1)), shape=(n, core.shape[0]))
    return aslinearoperator(G) @ core @ aslinearoperator(G.T.tocsr())


@dataclass(frozen=True)
class ConstrainedSimilarity:
    """The operator H (W + term + diag(diagonal)) H + diag(shift), with H = diag(scale).

    Attributes
    ----------
    similarity : ndarray, CSR or anything with ``@``, of shape (n_instances, n_instances)
        W, possibly with entries removed by the constraints.
    term : LinearOperator or None
        Term added by the constraints.
    diagonal : ndarray of shape (n_instances,) or None
        Diagonal term added by the constraints.
    scale : ndarray of shape (n_instances,)
        D^-1/2, or ones.
    shift : ndarray of shape (n_instances,) or None
        Added last.
    degrees : ndarray of shape (n_instances,)
        D.
    alpha : float
        The weight of Q: `alpha`, or `alpha` adapted to the size of the graph.
    """

    similarity: Any
    term: LinearOperator | None
    diagonal: Floats | None
    scale: Floats
    shift: Floats | None
    degrees: Floats
    alpha: float

    @property
    def shape(self) -> tuple[int, int]:
        """(n_instances, n_instances)."""
        return len(self.scale), len(self.scale)

    @property
    def dtype(self) -> Any:
        """The precision of the similarity, which products use."""
        return self.similarity.dtype

    def __matmul__(self, v: Floats) -> Floats:
        """Multiply by one vector, or by the columns of a matrix, at about the cost of W."""
        column = (-1, *[1] * (v.ndim - 1))
        scale = self.scale.astype(self.dtype).reshape(column)
        z = scale * v.astype(self.dtype, copy=False)
        product = self.similarity @ z
        if self.term is not None:
            product += (self.term @ z).astype(self.dtype, copy=False)
        if self.diagonal is not None:
            product += self.diagonal.astype(self.dtype).reshape(column) * z
        product *= scale
        if self.shift is not None:
            product += self.shift.astype(self.dtype).reshape(column) * v
        return product

    def toarray(self) -> Floats:
        """Convert to a dense matrix, for few instances."""
        return (self @ np.eye(len(self.scale))).astype(np.float64)


def constrain(
    similarity: Any,
    bag_index: Ints,
    label_sets: Ints | None,
    *,
    constraints: str | None,
    alpha: float,
    n_clusters: int,
    adapt_alpha: bool,
    normalization: str = "symmetric",
    beta: float = 20.0,
) -> ConstrainedSimilarity:
    """Combine a similarity of instances with the constraints of label sets.

    Parameters
    ----------
    similarity : ndarray, CSR or the like, of shape (n_instances, n_instances)
        W: symmetric, with non-negative entries.
    bag_index : ndarray of int of shape (n_instances,)
        The bag of each instance.
    label_sets : ndarray of shape (n_bags, n_classes) or None
        Zeros and ones; a row of -1 if the label set is unknown.
    constraints : str or None
        One of `CONSTRAINTS`, or None for plain spectral clustering.
    alpha : float
        The weight of Q.
    n_clusters : int
        The number of clusters; with more clusters than classes, two instances of a class may be in
        different clusters.
    adapt_alpha : bool
        Whether W is a sparse graph. Its degrees do not grow with the number of instances, but the
        row sums of Q do: alpha is then multiplied by their ratio.
    normalization : {"symmetric", "additive"}, default="symmetric"
        The normalization of spectral learning.
    beta : float, default=20.0
        The weight of the regularization.

    Returns
    -------
    ConstrainedSimilarity
    """
    degrees = _degrees(similarity)
    plain = ConstrainedSimilarity(similarity, None, None, 1 / np.sqrt(degrees), None, degrees, 0.0)
    if constraints is None or label_sets is None or not (label_sets >= 0).all(axis=1).any():
        return plain
    sets = _LabelSetGroups.of(bag_index, label_sets)
    if sets.n_classes == 0:  # empty sets only: no constraints
        return plain
    must_link = n_clusters <= sets.n_classes
    if constraints == "spectral_learning":
        return _spectral_learning(similarity, sets, must_link, additive=normalization == "additive")
    if constraints == "regularization":
        return _regularized(plain, sets, beta) if must_link else plain
    if constraints == "bag_as_printed":
        groups, core = _as_printed(bag_index, label_sets)
    elif constraints == "bag_only_ambiguous":
        groups, core = sets.groups, _only_ambiguous(sets)
    else:
        groups, core = sets.groups, _corrected(sets)
    if adapt_alpha:
        alpha *= float(degrees.mean()) / sets.mean_row_sum()
    term = group_term(groups, alpha * core)  # this order avoids large arrays
    return ConstrainedSimilarity(similarity, term, None, plain.scale, None, degrees, alpha)


@dataclass(frozen=True)
class _LabelSetGroups:
    """Instances grouped by the label set of their bag; unlabelled instances are one group."""

    groups: Ints  # (n_instances,)
    indicator: Floats  # (n_groups, n_classes), zeros if unknown
    known: Bools  # (n_groups,)
    n_bags: Ints  # (n_groups,)
    n_classes: int  # number of classes that occur

    @classmethod
    def of(cls, bag_index: Ints, label_sets: Ints) -> _LabelSetGroups:
        found, group_of_bag, n_bags = np.unique(
            label_sets, axis=0, return_inverse=True, return_counts=True
        )
        known: Bools = np.all(found >= 0, axis=1)
        indicator = np.where(known[:, None], found, 0).astype(float)
        n_classes = int(indicator.any(axis=0).sum())
        return cls(group_of_bag.ravel()[bag_index], indicator, known, n_bags, n_classes)

    @property
    def sizes(self) -> Floats:
        """Number of labels of each group."""
        return self.indicator.sum(axis=1)

    @property
    def profiles(self) -> Floats:
        """The y of each group: its label indicator, normalised to sum 1."""
        return self.indicator / np.maximum(self.sizes, 1)[:, None]

    @property
    def mu(self) -> float:
        """The mean class-label similarity of all pairs of labelled bags."""
        total = self.n_bags @ self.profiles
        return float(total @ total) / float(self.n_bags[self.known].sum()) ** 2

    def mean_row_sum(self) -> float:
        """Mean row sum of B Y'Y B'."""
        n_instances = np.bincount(self.groups, minlength=len(self.known))
        total = n_instances @ self.profiles
        return float(total @ total) / len(self.groups)

    def single(self) -> Floats:
        """Indicator restricted to the groups with a single label."""
        return self.indicator * (self.sizes == 1)[:, None]

    def pairs(self) -> tuple[Bools, Bools]:
        """Which pairs of groups are must-links, and which are cannot-links (Table 1)."""
        if len(self.known) > MOST_GROUPS:
            raise InputError(
                f"the bags have {len(self.known)} different label sets, and these constraints "
                f"need a matrix of all pairs of them (at most {MOST_GROUPS}): use "
                "constraints='bag', which does not."
            )
        single = self.single()
        apart = (self.indicator @ self.indicator.T == 0) & np.outer(self.known, self.known)
        return single @ single.T > 0, apart


def _corrected(sets: _LabelSetGroups) -> LinearOperator:
    factor = np.column_stack([sets.profiles, sets.known])
    return low_rank(factor, np.append(np.ones(sets.profiles.shape[1]), -sets.mu))


def _as_printed(bag_index: Ints, label_sets: Ints) -> tuple[Ints, LinearOperator]:
    """Eq. 12: all bags count, and each bag is a group."""
    indicator = np.maximum(label_sets, 0).astype(float)
    profiles = indicator / np.maximum(indicator.sum(axis=1), 1)[:, None]
    total = profiles.sum(axis=0)
    mu = float(total @ total) / len(profiles) ** 2
    core = low_rank(profiles, np.ones(profiles.shape[1]))
    return bag_index, core - mu * aslinearoperator(sparse.eye_array(len(profiles)))


def _only_ambiguous(sets: _LabelSetGroups) -> LinearOperator:
    """The corrected matrix without must-link and cannot-link pairs (w.o. clml)."""
    must, cannot = sets.pairs()
    ambiguous = np.outer(sets.known, sets.known) & ~must & ~cannot
    core = np.where(ambiguous, sets.profiles @ sets.profiles.T - sets.mu, 0.0)
    return aslinearoperator(core)


def _spectral_learning(
    similarity: Any, sets: _LabelSetGroups, must_link: bool, *, additive: bool
) -> ConstrainedSimilarity:
    """Kamvar, Klein and Manning 2003: similarity 1 for must-links, 0 for cannot-links."""
    must, cannot = sets.pairs()
    changed = cannot | must if must_link else cannot
    left = _without(similarity, sets.groups, changed)
    single = sets.single() if must_link else np.zeros_like(sets.indicator)
    term = group_term(sets.groups, low_rank(single, np.ones(single.shape[1])))
    diagonal = -_linked(sets, single)  # no instance is linked with itself
    everyone = np.ones(len(sets.groups))
    degrees = np.asarray(left.sum(axis=1), dtype=float).ravel() + term @ everyone + diagonal
    if additive:
        largest = max(float(degrees.max()), np.finfo(float).tiny)
        scale, shift = np.full(len(degrees), largest**-0.5), 1 - degrees / largest
    else:
        scale, shift = 1 / np.sqrt(_positive(degrees)), None
    return ConstrainedSimilarity(left, term, diagonal, scale, shift, _positive(degrees), 1.0)


def _regularized(
    plain: ConstrainedSimilarity, sets: _LabelSetGroups, beta: float
) -> ConstrainedSimilarity:
    """Ji and Xu 2006: a penalty on the distance of must-linked instances in the embedding.

    The penalty of an instance is the mean over the instances it is linked with. A sum would grow
    with their number, and beta would depend on the size of the data set.
    """
    single = sets.single()
    n_linked = np.bincount(sets.groups, minlength=len(single)) @ single
    term = group_term(sets.groups, low_rank(single, beta / np.maximum(n_linked, 1)))
    diagonal, ones = -beta * _linked(sets, single), np.ones(len(plain.scale))
    return ConstrainedSimilarity(plain, term, diagonal, ones, None, plain.degrees, beta)


def _linked(sets: _LabelSetGroups, single: Floats) -> Floats:
    """1 for instances of bags with a single label, which have must-links; 0 otherwise."""
    return np.any(single > 0, axis=1)[sets.groups].astype(float)


def _without(similarity: Any, groups: Ints, left_out: Bools) -> Any:
    """Copy of a similarity without the pairs of instances whose groups are in `left_out`."""
    if sparse.issparse(similarity):
        entries = similarity.tocoo()
        kept = ~left_out[groups[entries.row], groups[entries.col]]
        rows, columns, data = entries.row[kept], entries.col[kept], entries.data[kept]
        return sparse.csr_array((data, (rows, columns)), shape=similarity.shape)
    if not isinstance(similarity, np.ndarray):
        raise InputError(
            "constraints='spectral_learning' change single similarities, which landmarks do not "
            "have: use affinity='nearest_neighbors'."
        )
    left = similarity.copy()
    for rows in gen_batches(len(groups), BLOCK):
        left[rows][left_out[groups[rows]][:, groups]] = 0
    return left


def _degrees(similarity: Any) -> Floats:
    return _positive(np.asarray(similarity.sum(axis=1), dtype=float).ravel())


def _positive(degrees: Floats) -> Floats:
    """Clip degrees to at least a hundredth of their mean.

    The constraints of an instance are weighted by the inverse of its degree: an instance far from
    all others would outweigh them all.
    """
    mean = float(degrees.mean())
    return np.maximum(degrees, 0.01 * mean) if mean > 0 else np.ones_like(degrees)
