"""What groups, and what sub-classes, are inside the bags?"""

from bagwise.cluster._bag_spectral import BagConstrainedSpectralClustering
from bagwise.cluster._choice import ClusterChoice, choose_clusters

__all__ = [
    "BagConstrainedSpectralClustering",
    "ClusterChoice",
    "choose_clusters",
]
