"""Clustering of the instances of bags, and maximum margin clustering of rows."""

from bagwise.cluster._bag_spectral import BagConstrainedSpectralClustering, choose_clusters
from bagwise.cluster._well_svm import WellSVMClustering

__all__ = ["BagConstrainedSpectralClustering", "WellSVMClustering", "choose_clusters"]
