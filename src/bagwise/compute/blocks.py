"""Read instances in blocks, so that a table larger than memory is never in memory as a whole."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

from scipy import sparse

from bagwise._common.tables import ComputedTable, StreamedTable, read_only, slices
from bagwise._common.types import Array, Ints
from bagwise.bags import Bags
from bagwise.compute.mapped import empty_beside, read_ahead, release_pages
from bagwise.loops import threads

BLOCK = 2**22  # values read at a time


class ChosenRows(StreamedTable):
    """The instances of streamed bags as one table, a selection of the rows of a larger one.

    Parameters
    ----------
    bags : Bags
        The bags.
    """

    def __init__(self, bags: Bags) -> None:
        super().__init__((bags.n_instances, bags.n_features), bags.dtype)
        self._bags = bags

    def read(self, start: int, stop: int) -> Array:
        """Read the rows start:stop."""
        rows = self._bags.rows(slice(start, stop))
        release_pages(self._bags.source)
        return rows


def readable_table(bags: Bags) -> Any:
    """The instances as a table that can be sliced, without a copy of instances in a file.

    Parameters
    ----------
    bags : Bags
        The bags, in this process or on a device.

    Returns
    -------
    ndarray, CSR, tensor or StreamedTable of shape (n_instances, n_features)
        A `StreamedTable` has ``table[rows]``, shape and type, and reads rows on each access.
    """
    is_streamed = isinstance(bags.source, StreamedTable) and not bags.is_gathered
    return ChosenRows(bags) if is_streamed else bags.instances


def in_blocks(bags: Bags) -> bool:
    """Whether to read instances in blocks: if they are in a file or a selection of a larger table.

    Parameters
    ----------
    bags : Bags
        The bags.

    Returns
    -------
    bool
    """
    return bags.is_mapped or not bags.is_gathered


def row_blocks(bags: Bags, n_values: int | None = None) -> Iterator[tuple[slice, Any]]:
    """Read all instances in order, block by block; a block may end inside a bag.

    Parameters
    ----------
    bags : Bags
        The bags, in this process or on a device.
    n_values : int, default=None
        Maximum number of values in a block; `BLOCK` by default.

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
    """Split bags into runs of whole bags with about the same number of values.

    Parameters
    ----------
    bags : Bags
        The bags.
    n_values : int, default=None
        Number of values in a block, `BLOCK` by default; a larger bag is a block by itself.

    Yields
    ------
    slice
        Positions of bags.
    """
    per_row = float(bags.n_features)
    if bags.is_sparse:  # results may have a dense row of n_features per bag
        stored = bags.source.nnz / max(1, bags.source.shape[0])
        per_row = max(stored, len(bags) * bags.n_features / max(1, bags.n_instances))
    n_blocks = 1 + int(bags.n_instances * per_row) // (n_values or BLOCK)
    for first, last in pairwise(threads.block_bounds(bags.offsets, n_blocks).tolist()):
        yield slice(first, last)
        release_pages(bags.source)


def read_bag_blocks(bags: Bags) -> Iterator[tuple[slice, Array]]:
    """Read bags at once, or in blocks if `in_blocks` is true, while a thread reads the next block.

    Parameters
    ----------
    bags : Bags
        The bags, with dense instances.

    Yields
    ------
    block : slice
        Positions of bags.
    instances : ndarray
        Their instances.
    """
    if not in_blocks(bags):
        yield slice(0, len(bags)), bags.instances
        return
    table, blocks = readable_table(bags), list(bag_blocks(bags, 2 * BLOCK))
    rows = [rows_of(bags, block) for block in blocks]
    if isinstance(table, StreamedTable):
        # Read-only like the rows of a mapped file: the same compiled signature.
        yield from zip(blocks, ahead(lambda some: read_only(table[some]), rows), strict=True)
        return
    for block, some in zip(blocks, read_ahead(table, rows), strict=True):
        yield block, table[some]
        release_pages(table)


def ahead(read: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
    """Yield ``read(item)`` for each item, while a thread reads the next one.

    Parameters
    ----------
    read : callable
        Called on the thread.
    items : iterable
        Its arguments.

    Yields
    ------
    object
    """
    with ThreadPoolExecutor(1, "bagwise-read") as pool:
        coming = None
        for item in items:
            following = pool.submit(read, item)
            if coming is not None:
                yield coming.result()
            coming = following
        if coming is not None:
            yield coming.result()


def rows_of(bags: Bags, block: slice) -> slice:
    """Rows of the instances of a block of bags.

    Parameters
    ----------
    bags : Bags
        The bags.
    block : slice
        Positions of bags, as returned by `bag_blocks`.

    Returns
    -------
    slice
    """
    return slice(int(bags.offsets[block.start]), int(bags.offsets[block.stop]))


def map_rows(function: Callable[[Any], Any], bags: Bags) -> Any:
    """Transform the rows block by block; into a temporary file if the instances are in a file.

    New rows of a streamed table are computed when they are read, unless they have fewer columns.

    Parameters
    ----------
    function : callable
        Maps some rows, dense, to the same number of new rows.
    bags : Bags
        The bags, in this process.

    Returns
    -------
    ndarray, CSR or StreamedTable of shape (n_instances, n_new_features)
    """
    if isinstance(bags.source, StreamedTable) and not bags.is_gathered:
        first = function(bags.rows(slice(0, 1)))
        if not sparse.issparse(first) and first.shape[1] >= bags.n_features:
            return ComputedTable(readable_table(bags), function, first.shape[1], first.dtype)
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


def take_rows(bags: Bags, rows: Ints) -> Any:
    """Copy some rows in a given order; into a temporary file if the instances are in a file.

    Parameters
    ----------
    bags : Bags
        The bags, in this process.
    rows : ndarray of int
        Positions of instances.

    Returns
    -------
    ndarray or CSR of shape (n_rows, n_features)
    """
    if not bags.is_mapped:
        return bags.rows(rows)
    out = empty_beside(bags.source, (len(rows), bags.n_features), bags.dtype)
    for batch in slices(len(rows), max(1, BLOCK // max(1, bags.n_features))):
        out[batch] = bags.rows(rows[batch])
        release_pages(bags.source)
        release_pages(out)
    return out
