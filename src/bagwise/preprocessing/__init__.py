"""Scikit-learn transformers applied to instances, and pipelines with methods for instances."""

from bagwise.preprocessing._bag_pipeline import BagPipeline, make_bag_pipeline
from bagwise.preprocessing._instance_pca import InstancePCA
from bagwise.preprocessing._instance_transformer import InstanceTransformer

__all__ = ["BagPipeline", "InstancePCA", "InstanceTransformer", "make_bag_pipeline"]
