"""What groups, and what sub-classes, are inside the bags?"""

from bagwise.cluster._bag_spectral import BagConstrainedSpectralClustering

__all__ = [
    "BagConstrainedSpectralClustering",
]
