"""Instance annotation (MIML): labels of instances from the label sets of bags."""

from bagwise.annotation._m3miml import M3MIML
from bagwise.annotation._noisy_or import NoisyOrLogisticRegression
from bagwise.annotation._ored_classifier import ORedClassifier
from bagwise.annotation._ored_logistic import ORedLogisticRegression
from bagwise.annotation._rank_loss_sim import RankLossSIM

__all__ = [
    "M3MIML",
    "NoisyOrLogisticRegression",
    "ORedClassifier",
    "ORedLogisticRegression",
    "RankLossSIM",
]
