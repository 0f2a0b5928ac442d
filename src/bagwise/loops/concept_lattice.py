"""Probability that a bag has at least so many instances of each concept, and its posteriors.

A state is the number of instances of each concept so far, up to the number that is needed: mixed
radix, the first concept changes fastest. Mass that leaves no state is never lost, so the forward
values sum to 1 and nothing underflows but the result itself.
"""

import numpy as np

from bagwise.loops.compilation import compiled


@compiled()
def at_least(start, stop, offsets, p, needed, total, posterior):
    """For bags `start` to `stop`: P(all N_k >= needed_k), and P(z_i = k, all N_k >= needed_k).

    `p` has the probability of background in its first column, then those of the concepts.
    """
    n_concepts = len(needed)
    radix = np.ones(n_concepts + 1, np.int64)
    for k in range(n_concepts):
        radix[k + 1] = radix[k] * (needed[k] + 1)
    n_states = radix[n_concepts]
    after = np.empty((n_states, n_concepts), np.int64)  # state after an instance of a concept
    for s in range(n_states):
        for k in range(n_concepts):
            full = s // radix[k] % (needed[k] + 1) == needed[k]
            after[s, k] = s if full else s + radix[k]
    ahead, new = np.empty(n_states), np.empty(n_states)
    for bag in range(start, stop):
        first, n = offsets[bag], offsets[bag + 1] - offsets[bag]
        table = np.zeros((n + 1, n_states))
        table[0, 0] = 1.0
        for i in range(n):
            row = p[first + i]
            for s in range(n_states):
                mass = table[i, s]
                table[i + 1, s] += mass * row[0]
                for k in range(n_concepts):
                    table[i + 1, after[s, k]] += mass * row[k + 1]
        total[bag] = table[n, n_states - 1]
        ahead[:] = 0.0
        ahead[n_states - 1] = 1.0
        for i in range(n - 1, -1, -1):
            row = p[first + i]
            posterior[first + i] = 0.0
            for s in range(n_states):
                value = row[0] * ahead[s]
                posterior[first + i, 0] += table[i, s] * value
                for k in range(n_concepts):
                    step = row[k + 1] * ahead[after[s, k]]
                    posterior[first + i, k + 1] += table[i, s] * step
                    value += step
                new[s] = value
            ahead, new = new, ahead
