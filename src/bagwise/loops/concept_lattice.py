"""Probability that a bag has at least so many instances of each concept, and its posteriors."""

import numpy as np

from bagwise._common.types import Floats, Ints
from bagwise.loops.arguments import Counters, Labelings
from bagwise.loops.label_lattice import sum_over_counts


def at_least(offsets: Ints, log_p: Floats, needed: Ints) -> tuple[Floats, Floats]:
    """P(all N_k >= needed_k) of each bag, and P(z_i = k | all N_k >= needed_k).

    `log_p` has the log-probabilities of the concepts, and in its last column that of background.
    """
    K, counted = len(needed), np.zeros((len(offsets) - 1, 2), np.int64)
    counted[:, 1] = np.diff(offsets)
    counters = np.ones((len(counted), K, 3), np.int64)
    counters[:, :, :2] = needed[:, None]
    bags = Labelings(np.array(offsets), (K + 1) * offsets, log_p.ravel(), np.exp(log_p).ravel())
    counts = Counters(K * np.arange(len(offsets)), counters.reshape(-1, 3), counted)
    totals = sum_over_counts(bags, counted[:, 1] > 0, counts)
    return np.exp(totals), bags.posterior.reshape(log_p.shape)
