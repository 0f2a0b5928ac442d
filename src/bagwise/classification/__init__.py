"""Which class is this bag, and which instance says so?"""

from bagwise.classification._citation_knn import CitationKNN
from bagwise.classification._mi_net import MINet
from bagwise.classification._primal_dual import PrimalDualMISVM
from bagwise.classification._set_kernel import SetKernelSVM
from bagwise.classification._single_instance import SingleInstanceClassifier

__all__ = ["CitationKNN", "MINet", "PrimalDualMISVM", "SetKernelSVM", "SingleInstanceClassifier"]
