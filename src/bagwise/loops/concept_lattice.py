"""Probability that a bag has at least so many instances of each concept, and its posteriors."""

import numpy as np

from bagwise.loops.compilation import compiled
from bagwise.loops.label_lattice import TABLE, sum_over_counts


@compiled()
def at_least(start, stop, offsets, log_p, needed, total, posterior):
    """For bags `start` to `stop`: P(all N_k >= needed_k), and P(z_i = k | all N_k >= needed_k).

    `log_p` has the log-probabilities of the concepts, and in its last column that of background.
    """
    counters = np.empty(
        (len(needed), 3), np.int64
    )  # least count, last value, and whether more stay
    counters[:, 0] = counters[:, 1] = needed
    counters[:, 2] = 1
    for bag in range(start, stop):
        rows = slice(offsets[bag], offsets[bag + 1])
        n = offsets[bag + 1] - offsets[bag]
        total[bag] = np.exp(
            sum_over_counts(log_p[rows], counters, (np.int64(0), n), TABLE, posterior[rows])
        )
