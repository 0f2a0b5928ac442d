"""Small assignment problems: the instances of each bag to the candidate labels of the bag.

Bag i has the rows ``offsets[i]:offsets[i + 1]`` and the candidate labels
``labels[label_offsets[i]:label_offsets[i + 1]]``. Its costs are one block of rows by labels, row by
row, and the blocks of all bags are concatenated in one flat array.
"""

from typing import Any

import numpy as np

from bagwise._common.types import Array, Bools, Floats, Ints
from bagwise.loops.arguments import read_only
from bagwise.loops.compilation import compiled
from bagwise.loops.segments import argmax
from bagwise.loops.threads import bag_bounds, run_blocks

_compiled = compiled()
_inlined = compiled(inline="always")
# Sums in any order let the compiler use vector instructions.
_vectorised = compiled(fastmath={"reassoc", "contract"})


def block_offsets(offsets: Ints, label_offsets: Ints) -> Ints:
    """Where the block of costs of each bag begins.

    Parameters
    ----------
    offsets, label_offsets : ndarray of int64 of shape (n_bags + 1,)
        Where the rows, and the candidate labels, of each bag begin.

    Returns
    -------
    ndarray of int64 of shape (n_bags + 1,)
    """
    return np.concatenate([[0], np.cumsum(np.diff(offsets) * np.diff(label_offsets))])


def assign(costs: Array, offsets: Ints, label_offsets: Ints) -> Ints:
    """Assign as many rows as possible to labels in each bag, at the least total cost.

    A row has at most one label and a label at most one row. Among equal sums the first is kept.
    1 x 1, 1 x k, n x 1 and 2 x 2 are solved by comparison, others by shortest augmenting paths in
    O(p^2 q) for p <= q rows and labels.

    Parameters
    ----------
    costs : ndarray of shape (n_costs,)
        The blocks, in the order of `block_offsets`; all finite.
    offsets, label_offsets : ndarray of int64 of shape (n_bags + 1,)
        Where the rows, and the candidate labels, of each bag begin.

    Returns
    -------
    ndarray of int64 of shape (n_rows,)
        The index of each row's label among the candidates of its bag; -1 for none.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.loops import assignment
    >>> costs = np.array([1.0, 2.0, 2.0, 5.0])  # one bag, 2 x 2: 2 + 2 is less than 1 + 5
    >>> assignment.assign(costs, np.array([0, 2]), np.array([0, 2]))
    array([1, 0])
    """
    return _over_bags(_assign, costs, offsets, label_offsets, offsets[-1])


def nearest(costs: Array, offsets: Ints, label_offsets: Ints) -> Ints:
    """Assign each row to its cheapest label; a label may have any number of rows.

    Parameters
    ----------
    costs, offsets, label_offsets
        As for `assign`.

    Returns
    -------
    ndarray of int64 of shape (n_rows,)
        The index of each row's label among the candidates of its bag; -1 if there are none.
    """
    n_labels = np.repeat(np.diff(label_offsets), np.diff(offsets))
    return argmax(np.negative(costs), np.append(0, n_labels.cumsum()))


def nearest_rows(costs: Array, offsets: Ints, label_offsets: Ints) -> Ints:
    """Find the cheapest row for each candidate label of a bag; a row may have several labels.

    Parameters
    ----------
    costs, offsets, label_offsets
        As for `assign`; no bag is without rows.

    Returns
    -------
    ndarray of int64 of shape (n_candidates,)
        Row indices over all bags.
    """
    return _over_bags(_nearest_rows, costs, offsets, label_offsets, label_offsets[-1])


def distances_to_candidates(
    points: Array, centres: Array, candidates: Any, stale: Bools, out: Floats
) -> None:
    """Squared distances of the rows of each bag to the centres of its candidate labels.

    Parameters
    ----------
    points : ndarray of shape (n_rows, n_features)
        The rows.
    centres : ndarray of shape (n_labels, n_features)
        The centre of each label.
    candidates : object
        The rows and the candidate labels of each bag: ``offsets``, ``labels``, ``label_offsets``.
    stale : ndarray of bool of shape (n_labels,)
        The labels whose centre has moved: only their distances are computed.
    out : ndarray of float64 of shape (n_costs,)
        The blocks, written in place.
    """
    offsets, label_offsets = candidates.offsets, candidates.label_offsets
    blocks = block_offsets(offsets, label_offsets)
    # Vector instructions process many values at once: threads pay off only for larger inputs.
    bounds = bag_bounds(blocks, out.size * points.shape[1] / 50)
    lists = offsets, candidates.labels, label_offsets, blocks
    arrays = read_only(points, centres, *lists, stale)
    run_blocks(_distances, bounds, *arrays, out)


def _over_bags(kernel: Any, costs: Array, offsets: Ints, label_offsets: Ints, n: int) -> Ints:
    """Run a compiled function over the bags; return its output of length n."""
    places = np.empty(n, np.int64)
    blocks = block_offsets(offsets, label_offsets)
    bounds = bag_bounds(blocks, costs.size)
    run_blocks(kernel, bounds, offsets, costs, label_offsets, blocks, places)
    return places


@_vectorised
def _distances(
    start, stop, points, centres, offsets, labels, label_offsets, cost_offsets, stale, out
):
    n_features = points.shape[1]
    for i in range(start, stop):
        place = cost_offsets[i]
        for row in range(offsets[i], offsets[i + 1]):
            for k in range(label_offsets[i], label_offsets[i + 1]):
                label = labels[k]
                if stale[label]:
                    total = points.dtype.type(0)
                    for f in range(n_features):
                        difference = points[row, f] - centres[label, f]
                        total += difference * difference
                    out[place] = total
                place += 1


@_compiled
def _nearest_rows(start, stop, offsets, costs, label_offsets, cost_offsets, rows):
    for i in range(start, stop):
        n_rows, n_labels = offsets[i + 1] - offsets[i], label_offsets[i + 1] - label_offsets[i]
        for k in range(n_labels):
            row = _first_smallest(costs, cost_offsets[i] + k, n_rows, n_labels)
            rows[label_offsets[i] + k] = offsets[i] + row


@_compiled
def _assign(start, stop, offsets, costs, label_offsets, cost_offsets, places):
    widest = 1
    for i in range(start, stop):
        size = max(offsets[i + 1] - offsets[i], label_offsets[i + 1] - label_offsets[i])
        widest = max(widest, size)
    # One workspace for all bags of the thread; index 0 is the root of the path search.
    floats, ints = np.empty((3, widest + 1)), np.empty((3, widest + 1), np.int64)
    owner = ints[0]
    for i in range(start, stop):
        n_rows, n_labels = offsets[i + 1] - offsets[i], label_offsets[i + 1] - label_offsets[i]
        out = places[offsets[i] : offsets[i + 1]]
        at = cost_offsets[i]
        out[:] = -1
        if n_rows == 0 or n_labels == 0:
            continue
        if n_rows == 1:
            out[0] = _first_smallest(costs, at, n_labels, 1)
        elif n_labels == 1:
            out[_first_smallest(costs, at, n_rows, 1)] = 0
        elif n_rows == 2 and n_labels == 2:
            crossed = costs[at + 1] + costs[at + 2] < costs[at] + costs[at + 3]
            out[0], out[1] = (1, 0) if crossed else (0, 1)
        else:
            # The smaller side chooses; its members are called rows here.
            tall = n_rows > n_labels
            n, m = (n_labels, n_rows) if tall else (n_rows, n_labels)
            row_step, column_step = (1, n_labels) if tall else (n_labels, 1)
            _augment(costs, at, n, m, row_step, column_step, floats, ints)
            for column in range(m):
                row = owner[column + 1] - 1
                if row >= 0 and tall:
                    out[column] = row
                elif row >= 0:
                    out[row] = column


@_inlined
def _first_smallest(costs, at, n, step):
    best = -1
    for k in range(n):
        if best < 0 or costs[at + k * step] < costs[at + best * step]:
            best = k
    return best


@_compiled
def _augment(costs, at, n, m, row_step, column_step, floats, ints):
    """Assign each of n rows to a column of m >= n; ``owner[j + 1] - 1`` is the row of column j."""
    potential_row, potential_column, slack = floats[0], floats[1], floats[2]
    owner, came_from, used = ints[0], ints[1], ints[2]
    floats[:2, : m + 1], ints[0, : m + 1] = 0.0, 0
    for row in range(1, n + 1):
        # A shortest path, in reduced costs, from the new row to a column without owner.
        slack[: m + 1], used[: m + 1] = np.inf, 0
        owner[0] = row
        column = 0
        while owner[column] != 0:
            used[column] = 1
            here = owner[column]
            base = at + (here - 1) * row_step
            delta, following = np.inf, 0
            for j in range(1, m + 1):
                if used[j]:
                    continue
                reduced = (
                    costs[base + (j - 1) * column_step] - potential_row[here] - potential_column[j]
                )
                if reduced < slack[j]:
                    slack[j], came_from[j] = reduced, column
                if slack[j] < delta:
                    delta, following = slack[j], j
            for j in range(m + 1):
                if used[j]:
                    potential_row[owner[j]] += delta
                    potential_column[j] -= delta
                else:
                    slack[j] -= delta
            column = following
        while column != 0:  # shift the owners along the path
            before = came_from[column]
            owner[column] = owner[before]
            column = before
    owner[0] = 0
