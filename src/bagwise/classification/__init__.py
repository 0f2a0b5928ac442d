"""Classifiers of bags, with the key instances of each bag."""

from bagwise.classification._citation_knn import CitationKNN
from bagwise.classification._class_to_bag import ClassToBag
from bagwise.classification._margin_svms import (
    BagMarginSVM,
    BalancedSparseMIL,
    InstanceMarginSVM,
    SparseMIL,
)
from bagwise.classification._mil_boost import MILBoost
from bagwise.classification._miles import MILES
from bagwise.classification._networks import AttentionMIL, MINet
from bagwise.classification._point_concept import EMDD, DiverseDensity
from bagwise.classification._primal_dual import PrimalDualMISVM
from bagwise.classification._set_kernel import SetKernelSVM
from bagwise.classification._single_instance import SingleInstanceClassifier
from bagwise.classification._torch_bag import TorchBagClassifier
from bagwise.classification._well_svm import WellMISVM

__all__ = [
    "EMDD",
    "MILES",
    "AttentionMIL",
    "BagMarginSVM",
    "BalancedSparseMIL",
    "CitationKNN",
    "ClassToBag",
    "DiverseDensity",
    "InstanceMarginSVM",
    "MILBoost",
    "MINet",
    "PrimalDualMISVM",
    "SetKernelSVM",
    "SingleInstanceClassifier",
    "SparseMIL",
    "TorchBagClassifier",
    "WellMISVM",
]
