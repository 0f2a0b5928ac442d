"""WellSVM with the settings of the paper, which does not centre the rows."""

from dataclasses import KW_ONLY
from typing import Any

from bagwise.base._parameters import with_parameters
from bagwise.semi_supervised import WellSVMClassifier


@with_parameters
class PublishedWellSVM(WellSVMClassifier):
    """`WellSVMClassifier` with the choice whether to centre the rows.

    Parameters
    ----------
    C1, C2, balance, threshold, kernel, gamma, offset, refine, tol, max_cuts, random_state, verbose
        As in `WellSVMClassifier`.
    center : bool, default=True
        Whether to centre the rows, in the feature space of the kernel.
    """

    C1: float = 1.0
    C2: Any = "auto"
    _: KW_ONLY
    balance: Any = None
    threshold: str = "auto"
    kernel: Any = "linear"
    gamma: Any = "scale"
    center: bool = True
    offset: float = 0.2
    refine: bool = False
    tol: float = 1e-2
    max_cuts: int = 50
    random_state: Any = 0
    verbose: int = 0
