"""Semi-supervised classifiers of rows, most of them unlabelled."""

from bagwise.semi_supervised._annealed import AnnealedSVM
from bagwise.semi_supervised._gradient_s3vm import GradientS3VM
from bagwise.semi_supervised._laplacian import LaplacianSVM
from bagwise.semi_supervised._transductive import TransductiveSVM
from bagwise.semi_supervised._universvm import UniverSVM
from bagwise.semi_supervised._well_svm import WellSVMClassifier

__all__ = [
    "AnnealedSVM",
    "GradientS3VM",
    "LaplacianSVM",
    "TransductiveSVM",
    "UniverSVM",
    "WellSVMClassifier",
]
