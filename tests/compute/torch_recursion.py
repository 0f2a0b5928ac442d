"""The recursion over label subsets of a group of bags in plain torch: the oracle of the kernel."""

import torch


def subset_recursion(q, inside, group, end):
    """As `bagwise.solvers.annotation.orlr_kernels.subset_recursion`."""
    joint, total, sums = torch.empty_like(q), q.new_zeros(len(group.sizes)), []
    for b, (first, size) in enumerate(zip(group.first.tolist(), group.sizes.tolist(), strict=True)):
        rows = slice(first, first + size)
        sums.append(inside[rows].sum())
        a = torch.zeros_like(end)
        a[group.start[b]] = 1.0
        tables = []
        for row in q[rows]:
            tables.append(a)
            a = _forward(a, row, group.k)
        total[b] = a @ end
        after = end
        for j in range(size - 1, -1, -1):
            joint[first + j], after = _backward(tables[j], after, q[first + j], group.k)
    return joint, total, torch.stack(sums)


def _with(k, c):
    """Each subset with label c, as a position."""
    return torch.arange(1 << k) | (1 << c)


def _forward(a, q, k):
    new = q[k] * a
    for c in range(k):
        new = new.index_add(0, _with(k, c), q[c] * a)
    return new


def _backward(a, b, q, k):
    ahead = torch.stack([b[_with(k, c)] for c in range(k)] + [b])
    return q * (ahead @ a), q @ ahead
