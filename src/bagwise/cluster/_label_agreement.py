"""Similarities weighted by the agreement of labels: W o P P', with P the posteriors of kernel ORLR.

Label sets list the labels of a bag; the posteriors of ORLR give the labels of each instance.
Neighbours that probably have different labels then have a small similarity.
"""

import warnings
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.utils import gen_batches

from bagwise._common.types import Array, Floats, Ints
from bagwise.annotation import ORedLogisticRegression
from bagwise.bags import Bags
from bagwise.base import in_canonical_order
from bagwise.labels import Labels

# Lower bound on the agreement of a pair, which keeps every instance connected.
LEAST = 1e-3
# A tighter fit labels instances no better, and its last iterations amplify rounding errors.
ANNOTATOR_TOL = 3e-4
BLOCK = 2**22  # values per block


@dataclass(frozen=True)
class LabelAgreement:
    """Posterior labels of the instances, and the model that estimates them.

    Attributes
    ----------
    annotator : ORedLogisticRegression
        The model of the labels.
    posteriors : ndarray of shape (n_instances, n_classes)
        Posterior labels of the instances, given the label sets of their bags.
    """

    annotator: ORedLogisticRegression
    posteriors: Floats

    @classmethod
    def learn(cls, bags: Any, labels: Labels, order: Ints, seed: int) -> Self:
        """Fit kernel ORLR; the posteriors follow the given order of the instances."""
        seen, sets = in_canonical_order(bags, labels)  # landmarks do not depend on the order
        model = ORedLogisticRegression(kernel="rbf", tol=ANNOTATOR_TOL, random_state=seed)
        with warnings.catch_warnings():
            # Empty label sets, and sets with more labels than instances, are not used here.
            impossible = "[0-9]+ of [0-9]+ bags (are left out|have an empty label set)"
            warnings.filterwarnings("ignore", impossible)
            model.fit(seen, sets.indicator)
            return cls(model, model.annotate_proba(bags, labels.indicator)[order])

    def weigh(self, similarity: Any) -> Any:
        """Weight the similarities of the training instances."""
        return weigh_by_agreement(similarity, self.posteriors, self.posteriors)

    def weigh_new(self, similarity: Any, rows: Any) -> Any:
        """Weight the similarities of new instances, without label sets, to training instances."""
        names = getattr(self.annotator, "feature_names_in_", None)
        alone = Bags(rows, [0, rows.shape[0]], feature_names=names)
        probable = self.annotator.predict_proba_instances(alone)
        return weigh_by_agreement(similarity, probable, self.posteriors)


def weigh_by_agreement(similarity: Any, P: Floats, Q: Floats) -> Any:
    """Multiply similarities by the probability that both instances have the same label.

    Parameters
    ----------
    similarity : ndarray or CSR of shape (n, m)
        Similarities.
    P, Q : ndarray of shape (n, n_classes), (m, n_classes)
        Posterior labels of the instances in the rows and in the columns.

    Returns
    -------
    ndarray or CSR of shape (n, m)
        A new matrix.
    """
    if not sparse.issparse(similarity):
        weighted = np.empty_like(similarity)
        for rows in gen_batches(len(P), max(1, BLOCK // len(Q))):
            weighted[rows] = similarity[rows] * _agreement(P[rows] @ Q.T)
        return weighted
    weighted = similarity.tocsr(copy=True)
    row = np.repeat(np.arange(len(P)), np.diff(weighted.indptr))
    for edges in gen_batches(weighted.nnz, max(1, BLOCK // P.shape[1])):
        both = np.einsum("ec,ec->e", P[row[edges]], Q[weighted.indices[edges]])
        weighted.data[edges] *= _agreement(both)
    return weighted


def _agreement(both: Array) -> Array:
    return LEAST + (1 - LEAST) * both
