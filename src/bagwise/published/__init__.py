"""The systems of the five papers exactly as printed, one function per paper.

A function returns an unfitted estimator of its own class that runs the printed algorithm. Its
docstring has the equations, and what our default changes and why. The other packages have our
defaults.
"""

from bagwise.published._csp import csp
from bagwise.published._mimlca import mimlca
from bagwise.published._orlr import orlr
from bagwise.published._pdmisvm import pdmisvm
from bagwise.published._wellsvm import wellsvm, wellsvm_clustering, wellsvm_mil

__all__ = ["csp", "mimlca", "orlr", "pdmisvm", "wellsvm", "wellsvm_clustering", "wellsvm_mil"]
