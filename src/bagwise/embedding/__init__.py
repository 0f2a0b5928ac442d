"""From bags to a 2-D array: the exit to any scikit-learn pipeline."""

from bagwise.embedding._dissimilarity import BagDissimilarity
from bagwise.embedding._similarity import InstanceSimilarity

__all__ = ["BagDissimilarity", "InstanceSimilarity"]
