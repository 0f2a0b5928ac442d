"""Classifiers of bags, with the key instances of each bag."""

from bagwise.classification._concept_counts import ConceptCountsClassifier
from bagwise.classification._likelihood import EMDD, DiverseDensity, MILBoost
from bagwise.classification._margin_svms import (
    MILES,
    BagMarginSVM,
    BalancedSparseMIL,
    InstanceMarginSVM,
    SetKernelSVM,
    SparseMIL,
)
from bagwise.classification._neighbors import CitationKNN, ClassToBag
from bagwise.classification._networks import AttentionMIL, MINet
from bagwise.classification._ordinal import OrdinalBagClassifier
from bagwise.classification._primal_dual import PrimalDualMISVM
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
    "ConceptCountsClassifier",
    "DiverseDensity",
    "InstanceMarginSVM",
    "MILBoost",
    "MINet",
    "OrdinalBagClassifier",
    "PrimalDualMISVM",
    "SetKernelSVM",
    "SingleInstanceClassifier",
    "SparseMIL",
    "TorchBagClassifier",
    "WellMISVM",
]
