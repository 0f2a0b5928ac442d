"""Transformers from bags to a 2-D array, for use with any scikit-learn model."""

from bagwise.embedding._fisher_vector import FisherVector
from bagwise.embedding._prototypes import BagDissimilarity, InstanceSimilarity
from bagwise.embedding._random_fourier import RandomFourierEmbedding
from bagwise.embedding._statistics import BagStatistics

__all__ = [
    "BagDissimilarity",
    "BagStatistics",
    "FisherVector",
    "InstanceSimilarity",
    "RandomFourierEmbedding",
]
