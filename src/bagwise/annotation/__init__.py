"""What is each instance, when only the label set of its bag is known?"""

from bagwise.annotation._ored_logistic import ORedLogisticRegression

__all__ = ["ORedLogisticRegression"]
