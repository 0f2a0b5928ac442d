"""Transformers from bags to a 2-D array, for use with any scikit-learn model."""

from bagwise.embedding._dissimilarity import BagDissimilarity
from bagwise.embedding._similarity import InstanceSimilarity

__all__ = ["BagDissimilarity", "InstanceSimilarity"]
