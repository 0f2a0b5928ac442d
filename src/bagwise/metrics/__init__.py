"""Metrics for rankings of labels, attributions of instances, clusters and times to an event.

scikit-learn's metrics measure labels of bags and of instances; here are those it does not have:

- rankings of labels per bag: :func:`one_error`, :func:`coverage`, :func:`average_precision`;
- scores and attributions of instances: :func:`instance_average_precision`,
  :func:`flipping_curve`;
- clusters of instances: :func:`class_purity`;
- times to an event: :func:`concordance_index`, :func:`integrated_brier_score`.

Instance metrics leave out instances whose true label is -1 (unknown). Ranking metrics leave out
bags whose row of `label_sets` is -1 throughout (unknown).
"""

from bagwise.metrics._flipping import flipping_curve
from bagwise.metrics._scores import (
    average_precision,
    class_purity,
    coverage,
    instance_average_precision,
    one_error,
)
from bagwise.metrics._survival import concordance_index, integrated_brier_score

__all__ = [
    "average_precision",
    "class_purity",
    "concordance_index",
    "coverage",
    "flipping_curve",
    "instance_average_precision",
    "integrated_brier_score",
    "one_error",
]
