"""What groups are inside the bags, or among rows?"""

from bagwise.cluster._well_svm import WellSVMClustering

__all__ = ["WellSVMClustering"]
