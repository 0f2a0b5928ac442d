"""Which groups are inside the data?"""

from bagwise.cluster._cutting_plane import CuttingPlaneMMC
from bagwise.cluster._generalized import GeneralizedMMC
from bagwise.cluster._iterative_svr import IterativeSVR
from bagwise.cluster._kernel_kmeans import KernelKMeans

__all__ = ["CuttingPlaneMMC", "GeneralizedMMC", "IterativeSVR", "KernelKMeans"]
