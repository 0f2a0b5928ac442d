"""Read instances in blocks, so that a table larger than memory is never in memory as a whole."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

from scipy import sparse

from bagwise.bags import Bags
from bagwise.compiled import threads
from bagwise.engines.mapped import empty_beside, read_ahead, release_pages

BLOCK = 2**22  # values read at a time


def in_blocks(bags: Bags) -> bool:
    """Tell whether instances are to be read in blocks: from a file, or from a larger table.

    Parameters
    ----------
    bags : Bags
        The bags.

    Returns
    -------
    bool
    """
    return bags.where == "mapped" or not bags.is_gathered


def row_blocks(bags: Bags, n_values: int | None = None) -> Iterator[tuple[slice, Any]]:
    """Read all instances in order, block by block; a block may end inside a bag.

    Parameters
    ----------
    bags : Bags
        The bags, in this process or on a device.
    n_values : int, default=None
        Values of a block, at most; `BLOCK` by default.

    Yields
    ------
    rows : slice
        Positions of the instances.
    block : ndarray, CSR or tensor of shape (n_rows, n_features)
        Their values.
    """
    step = max(1, (n_values or BLOCK) // max(1, bags.n_features))
    for start in range(0, bags.n_instances, step):
        rows = slice(start, min(start + step, bags.n_instances))
        yield rows, bags.rows(rows)
        release_pages(bags.source)


def bag_blocks(bags: Bags, n_values: int | None = None) -> Iterator[slice]:
    """Cut bags into runs of whole bags with about equally many values.

    Parameters
    ----------
    bags : Bags
        The bags.
    n_values : int, default=None
        Values of a block, `BLOCK` by default; a bag that has more is a block of its own.

    Yields
    ------
    slice
        Positions of bags.
    """
    per_row = float(bags.n_features)
    if bags.is_sparse:  # but each bag may lead to as many dense values as there are features
        stored = bags.source.nnz / max(1, bags.source.shape[0])
        per_row = max(stored, len(bags) * bags.n_features / max(1, bags.n_instances))
    n_blocks = 1 + int(bags.n_instances * per_row) // (n_values or BLOCK)
    for first, last in pairwise(threads.block_bounds(bags.offsets, n_blocks).tolist()):
        yield slice(first, last)
        release_pages(bags.source)


def bag_blocks_ahead(bags: Bags) -> Iterator[slice]:
    """`bag_blocks`; a thread reads the next one from a file meanwhile, for files beyond memory.

    Parameters
    ----------
    bags : Bags
        The bags, dense and gathered.

    Yields
    ------
    slice
        Positions of bags.
    """
    blocks = list(bag_blocks(bags, 2 * BLOCK))
    rows = [rows_of(bags, block) for block in blocks]
    for block, _ in zip(blocks, read_ahead(bags.instances, rows), strict=True):
        yield block
        release_pages(bags.instances)


def rows_of(bags: Bags, block: slice) -> slice:
    """The instances of some bags.

    Parameters
    ----------
    bags : Bags
        The bags.
    block : slice
        Positions of bags, as `bag_blocks` gives them.

    Returns
    -------
    slice
    """
    return slice(int(bags.offsets[block.start]), int(bags.offsets[block.stop]))


def map_rows(function: Callable[[Any], Any], bags: Bags) -> Any:
    """Compute new rows block by block; in a temporary file where the instances are in a file.

    Parameters
    ----------
    function : callable
        From some rows, dense, to as many new ones.
    bags : Bags
        The bags, in this process.

    Returns
    -------
    ndarray or CSR of shape (n_instances, n_new_features)
    """
    out: Any = None
    sparse_blocks = []
    for rows, instances in row_blocks(bags):
        block = function(instances)
        if sparse.issparse(block):
            sparse_blocks.append(block)
            continue
        if out is None:
            out = empty_beside(bags.source, (bags.n_instances, block.shape[1]), block.dtype)
        out[rows] = block
        release_pages(out)
    return sparse.vstack(sparse_blocks, format="csr") if sparse_blocks else out
