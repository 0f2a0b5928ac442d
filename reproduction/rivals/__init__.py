"""The rivals in the tables of the papers: methods that learn from rows, and options of CSP.

They are scikit-learn estimators, tested in ``tests/reproduction/rivals``; they are not part of the
package bagwise.
"""

from reproduction.rivals._annealed import AnnealedSVM
from reproduction.rivals._cutting_plane import CuttingPlaneMMC
from reproduction.rivals._generalized import GeneralizedMMC
from reproduction.rivals._gradient_s3vm import GradientS3VM
from reproduction.rivals._iterative_svr import IterativeSVR
from reproduction.rivals._kernel_kmeans import KernelKMeans
from reproduction.rivals._laplacian import LaplacianSVM
from reproduction.rivals._published_well_svm import PublishedWellSVM
from reproduction.rivals._spectral import PublishedSpectralClustering
from reproduction.rivals._transductive import TransductiveSVM
from reproduction.rivals._universvm import UniverSVM

__all__ = [
    "AnnealedSVM",
    "CuttingPlaneMMC",
    "GeneralizedMMC",
    "GradientS3VM",
    "IterativeSVR",
    "KernelKMeans",
    "LaplacianSVM",
    "PublishedSpectralClustering",
    "PublishedWellSVM",
    "TransductiveSVM",
    "UniverSVM",
]
