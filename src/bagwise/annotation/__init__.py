"""Instance annotation (MIML): labels of instances from the label sets of bags."""

from bagwise.annotation._margin import M3MIML, RankLossSIM
from bagwise.annotation._noisy_or import NoisyOrLogisticRegression
from bagwise.annotation._ored_classifier import ORedClassifier
from bagwise.annotation._ored_logistic import ORedLogisticRegression

__all__ = [
    "M3MIML",
    "NoisyOrLogisticRegression",
    "ORedClassifier",
    "ORedLogisticRegression",
    "RankLossSIM",
]
