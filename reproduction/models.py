"""Models that only papers ask for; TOML files name these functions."""

from __future__ import annotations

from typing import Any

from scipy import sparse
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import SVC

from bagwise.bags import Bags
from bagwise.classification import CitationKNN, SetKernelSVM
from bagwise.embedding import BagDissimilarity
from bagwise.pairwise import kernel_width
from bagwise.preprocessing import InstanceTransformer

__all__ = ["MinimaxSVM", "annotator", "dissimilarity_svm", "on_dense_rows"]


class MinimaxSVM(SetKernelSVM):
    """The minimax kernel with the width of a kernel between instances, as in bagwise 0.1."""

    def _width(self, bags: Bags) -> float:
        return kernel_width(self.gamma, bags)


def annotator(
    metric: Any = None, n_references: int = 20, n_citers: int = 20, kind: str = "minmin"
) -> Pipeline:
    """Citation-kNN in a learned metric.

    Parameters
    ----------
    metric : metric learner, default=None
        The Euclidean metric by default.
    n_references, n_citers : int, default=20
        How many bags vote.
    kind : {"minmin", "maxmin", "meanmin", "hausdorff"}, default="minmin"
        The distance between bags.

    Returns
    -------
    Pipeline
    """
    first = InstanceTransformer() if metric is None else metric
    return make_pipeline(first, CitationKNN(n_references, n_citers, kind=kind))


def dissimilarity_svm(kind: str = "meanmin", C: float = 1.0) -> Pipeline:
    """MInD: a linear SVM on the distances to the training bags.

    Parameters
    ----------
    kind : {"minmin", "maxmin", "meanmin", "hausdorff"}, default="meanmin"
        The distance between bags.
    C : float, default=1.0
        Weight of the errors.

    Returns
    -------
    Pipeline
    """
    return make_pipeline(BagDissimilarity(kind), SVC(C=C, kernel="linear"))


def on_dense_rows(model: Any) -> Pipeline:
    """Give a model that needs dense instances those of sparse bags, such as tokens.

    Parameters
    ----------
    model : estimator
        What is fitted.

    Returns
    -------
    Pipeline
    """
    return make_pipeline(
        InstanceTransformer(FunctionTransformer(_dense, accept_sparse=True)), model
    )


def _dense(rows: Any) -> Any:
    return rows.toarray() if sparse.issparse(rows) else rows
