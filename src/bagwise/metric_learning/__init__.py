"""Metric learning from the label sets of bags."""

from bagwise.metric_learning._base import MildML, MIMLMetric
from bagwise.metric_learning._mimlca import MIMLCA, MLCA, MultiInstanceKMeans
from bagwise.metric_learning._multi_instance_plda import MultiInstancePLDA

__all__ = ["MIMLCA", "MLCA", "MIMLMetric", "MildML", "MultiInstanceKMeans", "MultiInstancePLDA"]
