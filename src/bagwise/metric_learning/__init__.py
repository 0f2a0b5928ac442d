"""Which distance agrees with the labels of the bags?"""

from bagwise.metric_learning._mimlca import MIMLCA, MLCA
from bagwise.metric_learning._multi_instance_kmeans import MultiInstanceKMeans

__all__ = ["MIMLCA", "MLCA", "MultiInstanceKMeans"]
