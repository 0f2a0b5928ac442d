"""Array arguments of compiled functions."""

from typing import Any, NamedTuple

from bagwise._common.types import Bools, Floats, Ints


def read_only(*arrays: Any) -> list[Any]:
    """Read-only views of the input arrays of a compiled function.

    numba compiles a function separately for writable arrays and for read-only ones, such as the
    offsets of `Bags`. Read-only views need one signature instead of one per combination.

    Parameters
    ----------
    *arrays : ndarray or None
        Inputs of a compiled function; None stays None.

    Returns
    -------
    list of ndarray

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.loops.arguments import read_only
    >>> a, b = read_only(np.zeros(2), np.ones(3))
    >>> a.flags.writeable
    False
    """
    views = [None if array is None else array.view() for array in arrays]
    for view in views:
        if view is not None:
            view.flags.writeable = False
    return views


class Settings(NamedTuple):
    """What an iteration of the primal-dual solvers does: the change of the scores, and penalties.

    The scores become ``scores + factor * change + shift``.
    """

    factor: Floats  # (n_classes,)
    shift: Floats  # (n_classes,)
    cost: float
    mu: float
    next_mu: float


class Copy(NamedTuple):
    """T or U of pdMISVM: it differs from the scores at one instance per bag and class."""

    place: Ints  # (n_bags, n_classes): that instance
    dual: Floats  # Theta or Xi there
    highest: Floats  # the maximum of the copy
    wanted: Floats  # Q or R
    multiplier: Floats  # Sigma or Omega, of the constraint wanted = highest


class Entries(NamedTuple):
    """T - S + Theta/mu, and the same for U, the target of the next fit of W: mostly zeros.

    Each class has two entries per bag, and 2 K more per bag of that class. Their positions are
    fixed; only instances and values change.
    """

    starts: Ints  # (n_classes + 1,)
    ranks: Ints  # (n_bags,): position of each bag within its class
    instances: Ints  # (n_entries,)
    values: Floats  # (n_entries,)


class LabelSets(NamedTuple):
    """What is known of bags: in bag b ``labels[set_offsets[b]:set_offsets[b + 1]]`` are counted."""

    offsets: Ints  # where the rows of each bag begin
    set_offsets: Ints
    labels: Ints
    how: Ints  # inference method of each bag
    codes: Ints  # known label of each instance, -1 if unknown; empty if all are unknown
    counters: Ints | None  # of each label: see `label_lattice.sum_over_counts`; None for label sets
    counted: Ints  # (n_bags, 2): how many instances may be counted
    free_offsets: Ints  # labels that are not counted: ``free[free_offsets[b]:free_offsets[b + 1]]``
    free: Ints
    n_absent: Ints  # number of labels known to be absent
    missing: float
    spurious: float


class Labelings(NamedTuple):
    """Log-probabilities of the labels of the instances of bags, and of none of them.

    Bag b has rows of k + 1 values from ``places[b]`` on; each row sums to 1.
    """

    offsets: Ints  # where the instances of each bag begin
    places: Ints
    log_q: Floats
    posterior: Floats  # of the same shape, to be filled


class Counters(NamedTuple):
    """Bounds of the counts of the labels of bags; those of bag b begin at ``offsets[b]``."""

    offsets: Ints
    counters: Ints  # (n, 3): the least count, the last value, and whether more leave it there
    counted: Ints  # (n_bags, 2): the least and the largest number of instances that are counted


class Plan(NamedTuple):
    """The counters of bags, as planned by `label_lattice.plan`."""

    caps: Ints  # last value of each counter; -1 if none is needed, -2 for an impossible label
    saturates: Bools  # whether further instances leave a counter at its last value
    spare: Ints  # the label that the counters of the others leave, -1 if there is none
    states: Floats  # number of states of each bag; 0 if no labeling is allowed


class Inference(NamedTuple):
    """What the label sets of a block of bags imply for its instances."""

    posterior: Floats  # (n_instances, n_classes); with weights: softmax - posterior, weighted
    log_likelihood: Floats  # (n_bags,): 0 if nothing is known, -inf if the labels are impossible
    settled: Bools  # (n_bags,): False if belief propagation ran out of sweeps
    # (n_bags, 3): expected numbers of instances whose label was not reported, of those whose label
    # was, and of spurious labels
    counts: Floats


class Predictive(NamedTuple):
    """What is known of the labels, in coordinates with unit variance within the labels."""

    sums: Floats  # (n_labels, n_coordinates) of the rows of each label
    counts: Floats  # (n_labels,)
    inverse_b: Floats  # (n_coordinates,) 1 / variance between labels
    random: bool  # whether effects are random


class CandidatePosterior(NamedTuple):
    """Posteriors of rows and their log-likelihood, to be filled."""

    posterior: Floats  # (n_pairs,)
    null: Floats  # (n_rows,)
    log_likelihood: Floats  # (n_bags,)


class CandidateOffsets(NamedTuple):
    """Where the rows, candidates and pairs of each bag of a block begin."""

    offsets: Ints
    label_offsets: Ints
    pair_offsets: Ints


class CandidatePrior(NamedTuple):
    """Prior of the labels of a bag: which of them are shown."""

    may_be_null: bool  # whether a row may have no label, if each label has some row
    log_shown: float  # for matchings: log-probability that a label has a row
    log_absent: float  # that it has none; if -inf, as many rows as possible have a label
