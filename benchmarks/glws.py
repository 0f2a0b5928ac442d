"""Counts of a label in bags of 512: our recursion against GLWS's forward-backward pass.

GLWS (Chen et al., ICML 2024) makes an automaton of a weak label; for the count of a label its
states are 0 to k. The pass is written anew from the paper, in logarithms, and vectorised over bags
and labels; the better of NumPy and torch counts. The same pass compiled shows what is due to
compilation alone. All on one core.
"""

import time

import numba
import numpy as np

from bagwise.loops import label_lattice
from bagwise.loops.arguments import Counters
from bagwise.solvers.annotation.orlr_parts import BagLabelSets, infer

from .harness import Fact, Row

N_BAGS, SIZE = 16, 512
LOW = -1e30  # logarithm of 0; differences of infinities are NaN


def draw(n_labels):
    """Log-probabilities (n_bags, n, n_labels) and the count of each label."""
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(N_BAGS, SIZE, n_labels))
    log_p = logits - np.log(np.exp(logits).sum(axis=2, keepdims=True))
    first = rng.binomial(SIZE, 0.5, N_BAGS)
    return log_p, np.column_stack([first, SIZE - first])


def ours(log_p, counts):
    """A function that computes the posteriors of all bags."""
    n_labels = log_p.shape[2]
    bounds = np.repeat(counts[:, :, None], 2, axis=2)
    bags = BagLabelSets(
        np.arange(N_BAGS + 1) * SIZE,
        np.ones((N_BAGS, n_labels), np.int8),
        background=False,
        max_operations=np.inf,
        bounds=bounds,
    )
    rows = log_p.reshape(-1, n_labels)
    return lambda: infer(bags, slice(0, N_BAGS), rows).posterior


def recursion_of(log_p, counts):
    """A function that runs the recursion alone, without the E-step around it."""
    n_bags, n, _ = log_p.shape
    bags = label_lattice.labelings(np.full(n_bags, n), np.ones(n_bags, int))
    bags.log_q[:] = log_p.ravel()
    k = counts[:, 0]  # the other label is what is left
    counters, every = np.column_stack([k, k, np.zeros_like(k)]), np.ones(n_bags, bool)
    bounds = Counters(np.arange(n_bags + 1), counters, np.column_stack([k, k]))

    def run():
        np.exp(bags.log_q, out=bags.posterior)
        label_lattice.sum_over_counts(bags, every, bounds)
        return bags.posterior.reshape(log_p.shape)

    return run


def automata(log_p, counts, library):
    """A function with the posterior of each label by its own automaton: (n, n_bags, n_labels)."""
    xp = library
    yes = np.ascontiguousarray(log_p.transpose(1, 0, 2))  # instances first
    no = np.log(-np.expm1(yes))
    top = int(counts.max()) + 1
    final = np.full((*counts.shape, top), LOW)
    np.put_along_axis(final, counts[:, :, None], 0.0, axis=2)
    start = np.full((*counts.shape, top), LOW)
    start[..., 0] = 0.0
    if xp is not np:
        yes, no, final, start = (xp.from_numpy(array) for array in (yes, no, final, start))

    def run():
        n = len(yes)
        ahead, back = xp.empty((n + 1, *start.shape), dtype=xp.float64), final
        ahead[0] = start
        for i in range(n):  # stay, or one more
            ahead[i + 1] = ahead[i] + no[i][..., None]
            moved = ahead[i, ..., :-1] + yes[i][..., None]
            ahead[i + 1, ..., 1:] = xp.logaddexp(ahead[i + 1, ..., 1:], moved)
        posterior = xp.empty(yes.shape, dtype=xp.float64)
        for i in range(n - 1, -1, -1):
            with_label = ahead[i, ..., :-1] + yes[i][..., None] + back[..., 1:]
            stay = back + no[i][..., None]
            joint = _log_sum(xp, with_label)
            posterior[i] = xp.exp(joint - xp.logaddexp(joint, _log_sum(xp, ahead[i] + stay)))
            moved = back[..., 1:] + yes[i][..., None]
            back = stay
            back[..., :-1] = xp.logaddexp(back[..., :-1], moved)
        return posterior

    return run


def _log_sum(xp, values):
    if xp is not np:
        return xp.logsumexp(values, dim=-1)
    top = values.max(axis=-1)
    return top + np.log(np.exp(values - top[..., None]).sum(axis=-1))


@numba.njit(cache=False)
def _log_add(x, y):
    return max(x, y) + np.log1p(np.exp(-abs(x - y)))


@numba.njit(cache=False)
def compiled_automata(yes, counts, posterior):
    """The same pass as `automata`, compiled; a bag and a label after the other."""
    n, n_bags, n_labels = yes.shape
    for bag in range(n_bags):
        for c in range(n_labels):
            k = counts[bag, c]
            ahead, back, new = np.full((n + 1, k + 1), LOW), np.full(k + 1, LOW), np.empty(k + 1)
            ahead[0, 0], back[k] = 0.0, 0.0
            for i in range(n):
                p, q = yes[i, bag, c], np.log(-np.expm1(yes[i, bag, c]))
                ahead[i + 1, 0] = ahead[i, 0] + q
                for s in range(1, k + 1):
                    ahead[i + 1, s] = _log_add(ahead[i, s] + q, ahead[i, s - 1] + p)
            for i in range(n - 1, -1, -1):
                p, q = yes[i, bag, c], np.log(-np.expm1(yes[i, bag, c]))
                joint, other = LOW, LOW
                for s in range(k + 1):
                    stay, moved = back[s] + q, LOW
                    if s < k:
                        moved = back[s + 1] + p
                        joint = _log_add(joint, ahead[i, s] + moved)
                    other = _log_add(other, ahead[i, s] + stay)
                    new[s] = _log_add(stay, moved)
                posterior[i, bag, c] = np.exp(joint - _log_add(joint, other))
                back, new = new, back


def best(run, rounds):
    """Shortest CPU time of a few runs, after one that compiles."""
    run()
    times = []
    for _ in range(rounds):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


def rows():
    """The rows of the table."""
    log_p, counts = draw(2)
    step, recursion = ours(log_p, counts), recursion_of(log_p, counts)
    expected = step().reshape(N_BAGS, SIZE, 2).transpose(1, 0, 2)
    np.testing.assert_allclose(recursion().transpose(1, 0, 2), expected, atol=1e-12)
    mine, whole = best(recursion, 10), best(step, 10)
    libraries = {"NumPy": np}
    try:
        import torch

        torch.set_num_threads(1)
        libraries["torch"] = torch
    except ImportError:
        pass
    times = {}
    for name, library in libraries.items():
        for labels, which in (("", slice(None)), (", one label", slice(0, 1))):
            run = automata(log_p[..., which], counts[:, which], library)
            np.testing.assert_allclose(np.asarray(run()), expected[..., which], atol=1e-8)
            times[name + labels] = best(run, 3)
    what = f"recursion on {N_BAGS} bags of {SIZE}, two labels, half each"
    for labels, goal in (("", "<= 1/20"), (", one label", "")):
        time_of, name = min((times[name + labels], name) for name in libraries)
        yield Row(what, mine, f"GLWS, {name}{labels}", time_of, goal)
        if not labels:
            yield Row("the whole E-step on them", whole, f"GLWS, {name}", time_of, "")
    yes, found = np.ascontiguousarray(log_p.transpose(1, 0, 2)), np.empty((SIZE, N_BAGS, 2))
    other = best(lambda: compiled_automata(yes, counts, found), 3)
    np.testing.assert_allclose(found, expected, atol=1e-8)
    yield Row(what, mine, "GLWS, compiled", other, "")
    yield Fact("largest difference of posteriors", f"{np.abs(found - expected).max():.1e}", "1e-8")
