"""Clustering of the instances of bags, and maximum margin clustering of rows."""

from bagwise.cluster._bag_spectral import BagConstrainedSpectralClustering
from bagwise.cluster._choice import ClusterChoice, choose_clusters
from bagwise.cluster._cutting_plane import CuttingPlaneMMC
from bagwise.cluster._generalized import GeneralizedMMC
from bagwise.cluster._iterative_svr import IterativeSVR
from bagwise.cluster._kernel_kmeans import KernelKMeans
from bagwise.cluster._well_svm import WellSVMClustering

__all__ = [
    "BagConstrainedSpectralClustering",
    "ClusterChoice",
    "CuttingPlaneMMC",
    "GeneralizedMMC",
    "IterativeSVR",
    "KernelKMeans",
    "WellSVMClustering",
    "choose_clusters",
]
