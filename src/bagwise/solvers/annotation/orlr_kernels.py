"""The recursion over label subsets as a Triton kernel: a tile of bags per program.

The subsets of a tile are an array (bags, subsets) in registers. A subset with label c and the one
without it are neighbours along an axis of length two, so the steps of the recursion are sums over
such axes. See ``bagwise.loops.label_lattice`` for the equations.
"""

from __future__ import annotations

from typing import Any

from bagwise.compute.jit import jit, tl
from bagwise.compute.tensors import torch

TILE = 64  # subsets per program, of all its bags
LANES = 256  # subsets per warp


def subset_recursion(q: Any, inside: Any, group: Any, end: Any) -> tuple[Any, Any, Any]:
    """Run the recursion for all bags.

    Parameters
    ----------
    q : tensor of float64 of shape (n_rows, k + 1)
        Probabilities of the labels; the last column leaves the subset unchanged.
    inside : tensor of float64 of shape (n_rows,)
        A number per row, summed over each bag.
    group : _Group
        Rows of the bags, and the initial subset of each bag.
    end : tensor of float64 of shape (2 ** k,)
        The weight of each subset after the last row.

    Returns
    -------
    joint : tensor of float64 of shape (n_rows, k + 1)
        Joint probability of the label of each row and the label set of its bag.
    total : tensor of float64 of shape (n_bags,)
        Probability of the label set.
    sums : tensor of float64 of shape (n_bags,)
        Sums of `inside`.
    """
    k, n_bags = q.shape[1] - 1, len(group.sizes)
    table, joint = q.new_empty(len(q), 1 << k), q.new_empty(q.shape)
    total, sums = q.new_empty(n_bags), q.new_empty(n_bags)
    bags = max(1, TILE >> k)
    n_warps = max(1, min(8, (bags << k) // LANES))
    rows, tables = (group.first, group.sizes, group.start, end), (table, joint, total, sums)
    sizes = {"n_bags": n_bags, "K": k, "BAGS": bags, "num_warps": n_warps}
    with torch.cuda.device_of(q):
        forward_backward[(-(-n_bags // bags),)](q, inside, *rows, *tables, **sizes)
    return joint, total, sums


@jit
def pair_sums(values, c: tl.constexpr, BAGS: tl.constexpr, SUBSETS: tl.constexpr):
    """For each subset, add the values of the subset with label c and of the one without it."""
    pairs = tl.reshape(values, (BAGS, SUBSETS >> (c + 1), 2, 1 << c))
    sums = tl.broadcast_to(tl.sum(pairs, axis=2, keep_dims=True), pairs.shape)
    return tl.reshape(sums, (BAGS, SUBSETS))


@jit
def forward_backward(
    q,
    inside,
    first,
    sizes,
    start,
    end,
    table,
    joint,
    total,
    sums,
    n_bags,
    K: tl.constexpr,
    BAGS: tl.constexpr,
):
    """Forward pass over the rows of BAGS bags at once, keeping the table; then backward pass."""
    SUBSETS: tl.constexpr = 1 << K
    bag = tl.program_id(0) * BAGS + tl.arange(0, BAGS)
    is_bag = bag < n_bags
    row = tl.load(first + bag, mask=is_bag, other=0)
    size = tl.load(sizes + bag, mask=is_bag, other=0)
    subset = tl.arange(0, SUBSETS)[None, :]
    n_steps = tl.max(size, axis=0)
    a = tl.where(subset == tl.load(start + bag, mask=is_bag, other=0)[:, None], 1.0, 0.0)
    a = a.to(tl.float64)
    summed = tl.zeros((BAGS,), tl.float64)
    for j in range(n_steps):
        # Bags without a j-th row do not change: "no label" has probability 1.
        has_row = j < size
        at = row + j
        summed += tl.load(inside + at, mask=has_row, other=0.0)
        tl.store(table + at[:, None] * SUBSETS + subset, a, mask=has_row[:, None])
        null = tl.load(q + at * (K + 1) + K, mask=has_row, other=1.0)
        after = null[:, None] * a
        for c in tl.static_range(K):
            chance = tl.load(q + at * (K + 1) + c, mask=has_row, other=0.0)
            gained = chance[:, None] * pair_sums(a, c, BAGS, SUBSETS)
            after += tl.where(((subset >> c) & 1) == 1, gained, 0.0)
        a = after
    b = tl.load(end + subset) + tl.zeros((BAGS, SUBSETS), tl.float64)
    tl.store(total + bag, tl.sum(a * b, axis=1), mask=is_bag)
    tl.store(sums + bag, summed, mask=is_bag)
    tl.debug_barrier()  # the table is complete
    for step in range(n_steps):
        j = n_steps - 1 - step
        has_row = j < size
        at = row + j
        a = tl.load(table + at[:, None] * SUBSETS + subset, mask=has_row[:, None], other=0.0)
        null = tl.load(q + at * (K + 1) + K, mask=has_row, other=1.0)
        tl.store(joint + at * (K + 1) + K, null * tl.sum(a * b, axis=1), mask=has_row)
        before = null[:, None] * b
        for c in tl.static_range(K):
            chance = tl.load(q + at * (K + 1) + c, mask=has_row, other=0.0)
            ahead = tl.where(((subset >> c) & 1) == 1, b, 0.0)
            shown = tl.sum(pair_sums(a, c, BAGS, SUBSETS) * ahead, axis=1)
            tl.store(joint + at * (K + 1) + c, chance * shown, mask=has_row)
            before += chance[:, None] * pair_sums(ahead, c, BAGS, SUBSETS)
        b = before
