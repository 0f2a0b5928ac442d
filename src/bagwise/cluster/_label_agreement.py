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

from bagwise._types import Array, Floats, Ints
from bagwise.annotation import ORedLogisticRegression
from bagwise.base import in_canonical_order
from bagwise.engines import local_instances
from bagwise.labels import Labels

# Of the agreement of all pairs: a lower bound that keeps every instance connected.
LEAST = 1e-3
# A tighter fit names instances no better, and its last iterations amplify rounding.
ANNOTATOR_TOL = 3e-4
BLOCK = 2**22  # values of a block


@dataclass(frozen=True)
class LabelAgreement:
    """What is known about the labels of instances.

    Attributes
    ----------
    annotator : ORedLogisticRegression
        The model of the labels.
    posteriors : ndarray of shape (n_instances, n_classes)
        Of the instances, given the label sets of their bags.
    """

    annotator: ORedLogisticRegression
    posteriors: Floats

    @classmethod
    def learn(cls, bags: Any, labels: Labels, order: Ints, seed: int) -> Self:
        """Fit kernel ORLR; the posteriors are those of the instances in a given order."""
        seen, sets = bags, labels
        if local_instances(bags) is not None:  # so that landmarks do not depend on the order
            seen, sets = in_canonical_order(bags, labels)
        model = ORedLogisticRegression(kernel="rbf", tol=ANNOTATOR_TOL, random_state=seed)
        with warnings.catch_warnings():
            # Sets without labels, or with more than the bag has instances, are not used here.
            warnings.filterwarnings("ignore", "[0-9]+ of [0-9]+ bags are left out")
            model.fit(seen, sets.indicator)
        return cls(model, model.annotate_proba(bags, labels.indicator)[order])

    def weigh(self, similarity: Any) -> Any:
        """Weigh the similarities of the instances with each other."""
        return weigh_by_agreement(similarity, self.posteriors, self.posteriors)

    def weigh_new(self, similarity: Any, rows: Any) -> Any:
        """Weigh the similarities of new instances, whose label sets are not known, with these."""
        probable = self.annotator.predict_proba_instances([rows])
        return weigh_by_agreement(similarity, probable, self.posteriors)


def weigh_by_agreement(similarity: Any, P: Floats, Q: Floats) -> Any:
    """Multiply similarities by the probability that both instances have the same label.

    Parameters
    ----------
    similarity : ndarray or CSR of shape (n, m)
        Similarities.
    P, Q : ndarray of shape (n, n_classes), (m, n_classes)
        Posteriors of the instances of rows and columns.

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
