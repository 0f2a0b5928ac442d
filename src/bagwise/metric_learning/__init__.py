"""Metric learning from the label sets of bags."""

from bagwise.metric_learning._mildml import MildML
from bagwise.metric_learning._miml_metric import MIMLMetric
from bagwise.metric_learning._mimlca import MIMLCA, MLCA
from bagwise.metric_learning._multi_instance_kmeans import MultiInstanceKMeans
from bagwise.metric_learning._multi_instance_plda import MultiInstancePLDA

__all__ = ["MIMLCA", "MLCA", "MIMLMetric", "MildML", "MultiInstanceKMeans", "MultiInstancePLDA"]
