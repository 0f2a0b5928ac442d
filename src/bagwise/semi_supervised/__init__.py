"""Semi-supervised classifiers of rows, most of them unlabelled."""

from bagwise.semi_supervised._well_svm import WellSVMClassifier

__all__ = ["WellSVMClassifier"]
