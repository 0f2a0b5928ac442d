"""From bags to a 2-D array: the exit to any scikit-learn pipeline."""

from bagwise.embedding._dissimilarity import BagDissimilarity

__all__ = ["BagDissimilarity"]
