"""Pairwise hinge losses between the labels that a bag carries and the other labels."""

import numpy as np

from bagwise.loops.compilation import compiled

_compiled = compiled()


@_compiled
def rank_loss(scores, carried, width, gradient):
    """Mean over bags of the mean over pairs of (1 - score of carried + score of other)_+.

    The hinge is smoothed: quadratic up to `width`, then linear. Fills `gradient`, the derivative
    in the scores.
    """
    n_bags, n_classes = scores.shape
    total = 0.0
    for bag in range(n_bags):
        n_carried = np.sum(carried[bag])
        n_pairs = n_carried * (n_classes - n_carried)
        gradient[bag] = 0.0
        if n_pairs == 0:
            continue
        weight = 1.0 / (n_pairs * n_bags)
        for p in range(n_classes):
            if not carried[bag, p]:
                continue
            for q in range(n_classes):
                missed = 1.0 - scores[bag, p] + scores[bag, q]
                if carried[bag, q] or missed <= 0.0:
                    continue
                slope = weight if missed >= width else weight * missed / width
                total += slope * (missed - 0.5 * width if missed >= width else 0.5 * missed)
                gradient[bag, p] -= slope
                gradient[bag, q] += slope
    return total
