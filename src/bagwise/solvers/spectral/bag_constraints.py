r"""Pairwise constraints from the label sets of bags, added to the similarity of instances.

Spectral clustering with bag constraints (Pei and Fern 2014) takes the leading eigenvectors of
D^-1/2 (W + alpha Q) D^-1/2, where W is the similarity of the N instances, D its degrees, and Q the
constraints. With y_i the indicator of the label set of bag i divided by its size, and e the
indicator of instances in labelled bags,

    Q = B Y'Y B' - mu e e',    mu = sum(Y'Y) / M^2        (the sum of Eq. 9)

over the M labelled bags. The paper prints B (Y'Y - mu I) B': its Appendix A equates the sum of
b_s b_r' over all pairs of bags with B B', but the sum is (B 1)(B 1)'. Q is never formed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, aslinearoperator

from bagwise._common.types import Floats, Ints


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
    """The operator D^-1/2 (W + term) D^-1/2.

    Attributes
    ----------
    similarity : ndarray, CSR or anything with ``@``, of shape (n_instances, n_instances)
        W, possibly changed by the constraints.
    term : LinearOperator or None
        Term added by the constraints.
    degrees : ndarray of shape (n_instances,)
        D.
    alpha : float
        The weight of Q: `alpha`, or `alpha` adapted to the size of the graph.
    """

    similarity: Any
    term: LinearOperator | None
    degrees: Floats
    alpha: float

    @property
    def shape(self) -> tuple[int, int]:
        """(n_instances, n_instances)."""
        return len(self.degrees), len(self.degrees)

    @property
    def dtype(self) -> Any:
        """The precision of the similarity, which products use."""
        return self.similarity.dtype

    def __matmul__(self, v: Floats) -> Floats:
        """Multiply by the columns of a matrix, at about the cost of W."""
        scale = (self.degrees**-0.5).astype(self.dtype)[:, None]
        z = scale * v.astype(self.dtype, copy=False)
        product = self.similarity @ z
        if self.term is not None:
            product += (self.term @ z).astype(self.dtype, copy=False)
        return scale * product

    def toarray(self) -> Floats:
        """Convert to a dense matrix, for few instances."""
        return (self @ np.eye(len(self.degrees))).astype(np.float64)


def constrain(
    similarity: Any, bag_index: Ints, label_sets: Any, *, constraints: str | None, alpha: float
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
    constraints : {"bag", "bag_as_printed"} or None
        Q as above, or as the paper prints it in Eq. 12: all bags count. None for plain spectral
        clustering.
    alpha : float
        The weight of Q. If W is not an array, but a graph, its degrees do not grow with the number
        of instances, as the row sums of Q do: alpha is then multiplied by their ratio.

    Returns
    -------
    ConstrainedSimilarity
    """
    degrees = floored_degrees(np.asarray(similarity.sum(axis=1), dtype=float).ravel())
    if constraints is None or label_sets is None or not (label_sets == 1).any():
        return ConstrainedSimilarity(similarity, None, degrees, 0.0)
    known, profiles = profiles_of(label_sets)
    total = profiles.sum(axis=0)
    if constraints == "bag_as_printed":
        mu = float(total @ total) / len(profiles) ** 2
        core = aslinearoperator(profiles) @ aslinearoperator(profiles.T)
        core = core - mu * aslinearoperator(sparse.eye_array(len(profiles)))
    else:
        mu = float(total @ total) / float(known.sum()) ** 2
        factor = np.column_stack([profiles, known])
        weights = np.append(np.ones(profiles.shape[1]), -mu)
        core = aslinearoperator(factor * weights) @ aslinearoperator(factor.T)
    if not isinstance(similarity, np.ndarray):
        total = np.bincount(bag_index, minlength=len(profiles)) @ profiles
        alpha *= float(degrees.mean()) / (float(total @ total) / len(bag_index))
    term = group_term(bag_index, alpha * core)  # this order avoids large arrays
    return ConstrainedSimilarity(similarity, term, degrees, alpha)


def profiles_of(label_sets: Ints) -> tuple[Floats, Floats]:
    """Which label sets are known, and y of each bag: its labels, normalised to sum 1.

    Parameters
    ----------
    label_sets : ndarray of shape (n_bags, n_classes)
        Zeros and ones; a row of -1 if the label set is unknown.

    Returns
    -------
    known : ndarray of shape (n_bags,)
    profiles : ndarray of shape (n_bags, n_classes)
    """
    indicator = np.maximum(label_sets, 0).astype(float)
    profiles = indicator / np.maximum(indicator.sum(axis=1, keepdims=True), 1)
    return np.all(label_sets >= 0, axis=1), profiles


def floored_degrees(degrees: Floats) -> Floats:
    """Clip degrees to at least a hundredth of their mean.

    The constraints of an instance are weighted by the inverse of its degree: an instance far from
    all others would outweigh them all.

    Parameters
    ----------
    degrees : ndarray of shape (n_instances,)
        Row sums of the similarity.

    Returns
    -------
    ndarray of shape (n_instances,)
    """
    mean = float(degrees.mean())
    return np.maximum(degrees, 0.01 * mean) if mean > 0 else np.ones_like(degrees)
