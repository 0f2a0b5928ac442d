"""The recursion over the states of a bag: against the sum over all labelings; its three routes."""

from itertools import product

import numpy as np
import pytest
from scipy.special import log_softmax, logsumexp, softmax

from bagwise.loops import label_lattice
from bagwise.loops.arguments import Counters
from bagwise.loops.label_lattice import sum_over_counts, sum_over_labelings
from cases import each


def by_enumeration(log_q, finish, once):
    """Sum over all labelings: log total, expected number of absent labels, posterior."""
    n, k = log_q.shape[0], log_q.shape[1] - 1
    joint, total, absent = np.zeros(log_q.shape), 0.0, 0.0
    for labeling in product(range(k + 1), repeat=n):
        shown = [c for c in labeling if c < k]
        if once and len(set(shown)) < len(shown):
            continue
        m = len(set(shown))
        weight = np.exp(log_q[np.arange(n), labeling].sum() + finish[m])
        joint[np.arange(n), labeling] += weight
        total, absent = total + weight, absent + (k - m) * weight
    return np.log(total), absent / total, joint / total


def one_bag(log_q):
    bags = label_lattice.labelings(*(np.array([size]) for size in (len(log_q), log_q.shape[1] - 1)))
    bags.log_q[:] = log_q.ravel()
    bags.posterior[:] = np.exp(bags.log_q)
    return bags


def found(log_q, finish, once=False, table=label_lattice.TABLE):
    bags, lacking = one_bag(log_q), finish[None, ::-1].copy()
    total, absent = sum_over_labelings(bags, np.array([True]), lacking, once=once, table=table)
    return total[0], absent[0], bags.posterior.reshape(log_q.shape)


def finish_of(k, kind):
    """Weights of labelings that have 0 .. k of the labels."""
    if kind == "all":
        return np.append(np.full(k, -np.inf), 0.0)
    return np.linspace(-3.0, 0.5, k + 1) if kind == "any" else np.arange(k, -1, -1) * np.log(0.1)


@each("once", [False, True])
@each("kind", ["all", "any", "spurious"])
@each(("n", "k"), [(1, 1), (3, 2), (4, 3), (3, 3), (5, 4), (4, 4), (2, 5), (6, 5)])
def test_it_is_the_sum_over_all_labelings(rng, n, k, kind, once):
    if kind == "all" and k > n:
        return
    log_q, finish = log_softmax(3 * rng.normal(size=(n, k + 1)), axis=1), finish_of(k, kind)
    for value, expected in zip(
        found(log_q, finish, once), by_enumeration(log_q, finish, once), strict=True
    ):
        np.testing.assert_allclose(value, expected, rtol=1e-11, atol=1e-13)


@each("once", [False, True])
@each("kind", ["all", "spurious"])
@each(("n", "k"), [(20, 3), (1, 1), (37, 6), (12, 10)])
def test_a_table_stored_in_parts_gives_the_same(rng, n, k, kind, once):
    log_q = log_softmax(rng.normal(size=(n, k + 1)), axis=1)
    whole, parts = (found(log_q, finish_of(k, kind), once, table) for table in (10**9, 1))
    for value, expected in zip(parts, whole, strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-12)


@each("once", [False, True])
@each("kind", ["all", "spurious"])
def test_logarithms_agree_with_probabilities(rng, kind, once):
    """With a factor on the weight of all labelings that underflows, the pass uses logarithms."""
    log_q, finish = log_softmax(rng.normal(size=(12, 6)), axis=1), finish_of(5, kind)
    total, absent, posterior = found(log_q, finish, once)
    tiny, same, again = found(log_q, finish - 1000.0, once)
    assert tiny + 1000.0 == pytest.approx(total, rel=1e-12)
    assert same == pytest.approx(absent, rel=1e-10)
    np.testing.assert_allclose(again, posterior, rtol=1e-9)


@each(("n", "k"), [(12, 12), (14, 12), (9, 8)])
def test_states_that_cannot_be_completed_do_not_matter(rng, n, k):
    """The same sum without skipping: with tiny weights for labelings that lack labels."""
    log_q = log_softmax(rng.normal(size=(n, k + 1)), axis=1)
    total, _, posterior = found(log_q, finish_of(k, "all"))
    every, _, same = found(log_q, np.append(np.full(k, -700.0), 0.0))
    assert every == pytest.approx(total, rel=1e-12)
    np.testing.assert_allclose(same, posterior, rtol=1e-10, atol=1e-250)


def test_a_matching_of_equal_weights_counts_placings():
    """n rows and k labels, at most one row each: the number of matchings of every size."""
    log_q = np.zeros((5, 4))
    total, _, _ = found(log_q, np.zeros(4), once=True)
    sizes = [1, 5 * 3, 5 * 4 * 3, 5 * 4 * 3]  # choose rows and labels, and pair them
    assert np.exp(total) == pytest.approx(sum(sizes))


def test_operations_count_reachable_states():
    sizes, n_labels = np.array([3, 5, 4, 9, 2]), np.array([3, 3, 1, 6, 0])
    plain = label_lattice.operations(sizes, n_labels, False)
    spurious = label_lattice.operations(sizes, n_labels, True)
    for n, k, reached, any_end in zip(sizes, n_labels, plain, spurious, strict=True):
        bits = [state.bit_count() for state in range(2**k)]
        count = sum(k - (n - i) <= b <= i for i in range(1, n + 1) for b in bits)
        assert reached == k * count
        assert any_end == k * sum(b <= i for i in range(1, n + 1) for b in bits)


def test_rows_are_normalised(rng):
    log_q = 100 * rng.normal(size=(4, 3))
    expected = logsumexp(log_q, axis=1).sum()
    bags = one_bag(log_q)
    assert label_lattice.normalise(bags, np.array([2])) == pytest.approx(expected)
    for q in np.exp(bags.log_q), bags.posterior:
        np.testing.assert_allclose(q.reshape(4, 3), softmax(log_q, axis=1), rtol=1e-12)


def counted(log_q, counters, bounds, table=label_lattice.TABLE):
    bags = one_bag(log_q)
    counts = Counters(np.array([0, len(counters)]), np.array(counters), np.array([bounds]))
    total = sum_over_counts(bags, np.array([True]), counts, table=table)
    return total[0], bags.posterior.reshape(log_q.shape)


def by_counting(log_q, counters, bounds):
    """The same, as a sum over all labelings of its logarithms."""
    n, k = log_q.shape[0], log_q.shape[1] - 1
    labelings = np.array(list(product(range(k + 1), repeat=n)))
    counts = np.column_stack([(labelings == c).sum(axis=1) for c in range(k)])
    least, last, saturates = np.array(counters).T
    allowed = ((counts >= least) & ((counts <= last) | (saturates == 1))).all(axis=1)
    # With a label that is left over no counter saturates.
    allowed &= (bounds[0] <= counts.sum(axis=1)) & (counts.sum(axis=1) <= bounds[1])
    labelings = labelings[allowed]
    logs = log_q[np.arange(n), labelings].sum(axis=1)
    total = logsumexp(logs)
    chance = np.exp(logs - total)
    return total, np.array([chance @ (labelings == c) for c in range(k + 1)]).T


@each("spread", [1.0, 30.0, 900.0])
@each(
    ("n", "counters", "bounds"),
    [
        (5, [[2, 2, 0]], (0, 5)),
        (6, [[1, 1, 1], [0, 2, 0]], (0, 6)),
        (6, [[1, 4, 0], [0, 3, 0], [2, 4, 0]], (3, 5)),
        (7, [[1, 5, 0], [2, 2, 1], [1, 3, 0]], (0, 7)),
        (6, [[3, 3, 1], [0, 1, 0], [1, 1, 1]], (0, 6)),
    ],
)
def test_counts_are_the_sum_over_all_labelings(rng, n, counters, bounds, spread):
    """In a table of transitions or in blocks, whole or in parts, by logarithms where needed."""
    log_q = log_softmax(spread * rng.normal(size=(n, len(counters) + 1)), axis=1)
    expected = by_counting(log_q, counters, bounds)
    for table in (10**9, 1):
        for value, known in zip(counted(log_q, counters, bounds, table), expected, strict=True):
            np.testing.assert_allclose(value, known, rtol=1e-11, atol=1e-12)


@each(("n", "k"), [(20, 3), (9, 8), (37, 6)])
def test_counts_up_to_one_are_sets(rng, n, k):
    log_q = log_softmax(rng.normal(size=(n, k + 1)), axis=1)
    total, _, posterior = found(log_q, finish_of(k, "all"))
    for table in (10**9, 1):
        value, same = counted(log_q, [[1, 1, 1]] * k, (0, n), table)
        assert value == pytest.approx(total, rel=1e-12)
        np.testing.assert_allclose(same, posterior, rtol=1e-10, atol=1e-14)
