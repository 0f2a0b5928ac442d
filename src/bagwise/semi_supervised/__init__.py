"""What can I learn when most examples carry no label?"""

from bagwise.semi_supervised._well_svm import WellSVMClassifier

__all__ = ["WellSVMClassifier"]
