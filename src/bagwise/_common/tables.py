"""Tables of instances, and the positions of the rows of bags in them."""

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from bagwise._common.types import Array, Ints
from bagwise.exceptions import InputError

COPIED_AT_ONCE = 2**25  # bytes; smaller selections of bags are copied, larger ones read when used

Instances = Any  # ndarray, memmap, CSR, torch tensor or StreamedTable: 2-D, rows are instances


class StreamedTable:
    """A table in files whose rows are read, or computed, each time they are used.

    Subclasses implement `read`. ``table[rows]`` reads a slice or an array of rows.

    Parameters
    ----------
    shape : tuple (n_rows, n_columns)
        The shape of the table.
    dtype : dtype
        The type of the values that `read` returns.
    """

    ndim = 2

    def __init__(self, shape: tuple[int, int], dtype: Any) -> None:
        self.shape, self.dtype = (int(shape[0]), int(shape[1])), np.dtype(dtype)

    def read(self, start: int, stop: int) -> Array:
        """Read the rows start:stop."""
        raise NotImplementedError

    @property
    def origin(self) -> Any:
        """The table from which the values were converted; the table itself by default."""
        return self

    @property
    def nbytes(self) -> int:
        """Size of all values in the type that `read` returns."""
        return self.shape[0] * self.shape[1] * self.dtype.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, which: slice | int | Ints) -> Array:
        if isinstance(which, slice):
            start, stop, step = which.indices(len(self))
            if step == 1:
                return self.read(start, max(start, stop))
            which = np.arange(start, stop, step)
        rows = np.asarray(which)
        if rows.ndim == 0:
            return self.read(int(rows), int(rows) + 1)[0]
        out = np.empty((len(rows), self.shape[1]), self.dtype)
        ends = np.append(np.flatnonzero(np.diff(rows) != 1) + 1, len(rows))
        start = 0
        for end in ends[: len(rows)].tolist():  # runs of consecutive rows
            out[start:end] = self.read(int(rows[start]), int(rows[end - 1]) + 1)
            start = end
        return out


class ComputedTable(StreamedTable):
    """A table whose rows are computed from the rows of another table when they are read.

    Parameters
    ----------
    base : ndarray or StreamedTable
        The other table.
    function : callable
        Maps a block of its rows to the same number of new rows.
    n_columns : int
        Number of columns of the new rows.
    dtype : dtype
        Type of the new values.
    """

    def __init__(
        self, base: Instances, function: Callable[[Any], Any], n_columns: int, dtype: Any
    ) -> None:
        super().__init__((base.shape[0], n_columns), dtype)
        self.base, self.function = base, function

    def read(self, start: int, stop: int) -> Array:
        """Read the rows start:stop of the other table, and compute the new ones."""
        return self.function(self.base[start:stop])


class ConvertedTable(ComputedTable):
    """The values of another table, converted to floats when they are read.

    8-bit and 16-bit numbers become float32, which represents them exactly; others become float64.

    Parameters
    ----------
    base : ndarray or StreamedTable
        The other table.
    """

    def __init__(self, base: Instances) -> None:
        super().__init__(base, self._convert, base.shape[1], float_type(base.dtype))

    def _convert(self, rows: Array) -> Array:
        return np.ascontiguousarray(rows, self.dtype)

    @property
    def origin(self) -> Any:
        """The other table."""
        return getattr(self.base, "origin", self.base)


def float_type(dtype: Any) -> np.dtype[Any]:
    """The floating-point type to which values of a file are converted.

    Parameters
    ----------
    dtype : dtype
        The type of the values in the file.

    Returns
    -------
    dtype
        float32 for float32 and for types of at most 16 bits, else float64.
    """
    dtype = np.dtype(dtype)
    return np.dtype(np.float32 if dtype == np.float32 or dtype.itemsize <= 2 else np.float64)


class Source:
    """A table, and the positions of the rows of bags in it.

    Parameters
    ----------
    table : Instances
        The table.
    offsets : ndarray of shape (n_bags + 1,)
        Bag i has ``offsets[i + 1] - offsets[i]`` rows of the table.
    starts : ndarray of shape (n_bags,), default=None
        The first row of each bag; by default the bags follow each other from row 0.

    Attributes
    ----------
    is_gathered : bool
        Whether the table is an array that consists of exactly these rows, in order.
    n_rows : int
        Number of rows of all bags.
    """

    def __init__(self, table: Instances, offsets: Ints, starts: Ints | None = None) -> None:
        self.table, self.offsets, self.starts = table, offsets, starts
        self.is_gathered = starts is None and not isinstance(table, StreamedTable)
        self.n_rows = int(offsets[-1])

    @cached_property
    def where(self) -> str:
        """Where the table is: "local", "mapped" (a file) or "device" (torch)."""
        if is_tensor(self.table):
            return "device"
        return "mapped" if is_mapped(self.table) else "local"

    def rows(self, which: slice | Ints) -> Instances:
        """Read some rows, counted over all bags from 0."""
        table, offsets, starts = self.table, self.offsets, self.starts
        if isinstance(which, slice):
            start, stop, step = which.indices(self.n_rows)
            if starts is None and step == 1:
                return row_range(table, start, max(start, stop))
            furthest = self.n_rows + 1  # a step may be too large for an array
            which = np.arange(start, stop, min(max(step, -furthest), furthest))
        if starts is None:
            return table[which]
        bag = np.searchsorted(offsets, which, side="right") - 1
        numbers = which + starts[bag] - offsets[bag]
        if len(numbers) and is_range(numbers - numbers[0]):
            return row_range(table, numbers[0], numbers[-1] + 1)
        return table[numbers]

    def bag(self, i: int) -> Instances:
        """Read the rows of one bag."""
        start = (self.offsets if self.starts is None else self.starts)[i]
        return row_range(self.table, start, start + self.offsets[i + 1] - self.offsets[i])

    def take(self, bags: Ints, offsets: Ints) -> "Source":
        """Select bags, given their new offsets.

        Contiguous rows become a view and small selections a copy; otherwise no row is read yet.
        """
        first = (self.offsets[:-1] if self.starts is None else self.starts)[bags]
        taken = Source(self.table, offsets, first)
        filled = np.flatnonzero(np.diff(offsets))  # an empty bag may start anywhere
        begin = first[filled[0]] if len(filled) else 0
        together = np.array_equal(first[filled] - begin, offsets[filled])
        if together and not isinstance(self.table, StreamedTable):
            rows = row_range(self.table, begin, begin + taken.n_rows)
            return Source(read_only(rows), offsets)
        if is_tensor(self.table) or taken.n_bytes() <= COPIED_AT_ONCE:
            return Source(read_only(taken.rows(slice(None))), offsets)
        return taken

    def n_bytes(self) -> float:
        """Approximate memory of the rows."""
        table = self.table
        if not sparse.issparse(table):
            return float(self.n_rows * table.shape[1] * table.dtype.itemsize)
        per_value = table.dtype.itemsize + table.indices.dtype.itemsize
        return float(self.n_rows / max(1, table.shape[0]) * table.nnz * per_value)


def is_mapped(table: Any) -> bool:
    """Whether a table is in a file: memory-mapped or streamed."""
    while isinstance(table, np.ndarray):
        if isinstance(table, np.memmap):
            return True
        table = table.base
    return isinstance(table, StreamedTable)


def is_tensor(values: Any) -> bool:
    """Whether an object is a torch tensor, without importing torch."""
    return type(values).__module__.partition(".")[0] == "torch"


class InBagOrder(np.ndarray):
    """Values per instance in the order of bags, which is not the order of the user's rows.

    pandas asks a new column for ``keys``, to align it by its index, and would otherwise write the
    values by position, to wrong rows. Everything else treats it as an array.
    """

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        """Return a sum or a mean as a number."""
        return array[()] if array.ndim == 0 else super().__array_wrap__(array, context)

    @property
    def keys(self) -> Any:
        """Not available: raises InputError in ``frame["score"] = values``."""
        if self.ndim != 1 or self.base is None or len(self) != len(self.base):
            raise AttributeError("an array has no keys")
        raise InputError(
            "these values are in the order of the bags, and the rows of your table are not sorted "
            "by bag: assign bags.in_input_order(values), or numpy.asarray(values) if the frame has "
            "a row per instance in the order of the bags."
        )


def checked_table(values: Any, who_has: str = "instances have") -> Instances:
    """Return a 2-D array or CSR of real numbers; errors start with `who_has` ("bag 3 has")."""
    if isinstance(values, StreamedTable):
        return values
    if is_tensor(values) and values.ndim == 2:
        return values.detach()
    is_array = isinstance(values, np.ndarray) or sparse.issparse(values)
    kind = type(values).__name__
    try:
        array: Any = values if is_array else np.asarray(values)
    except (ValueError, TypeError) as error:
        raise InputError(f"{who_has} no 2-D table of numbers, got {kind}: {error}") from error
    wrong = None
    if isinstance(array, np.ma.MaskedArray):
        wrong = "masked values: fill them or leave the rows out."
    elif array.ndim == 0:
        wrong = f"no rows: expected a 2-D table, got {kind}. Convert an iterator to a list."
    elif array.shape == (0,):
        wrong = "no instances: leave it out."
    elif array.ndim != 2:
        wrong = f"shape {array.shape}: expected a 2-D table, one row per instance."
        if array.ndim == 1 and who_has.startswith("bag"):
            wrong += " A bag of one instance is row.reshape(1, -1)."
    elif array.dtype.kind not in "fiub":
        wrong = (
            f"type {array.dtype}: expected real numbers. Convert or drop columns of other types."
        )
    if wrong is not None:
        raise InputError(f"{who_has} {wrong}")
    if sparse.issparse(array):
        matrix = array.tocsr()
        if not matrix.has_canonical_format:
            matrix = matrix.copy()
            matrix.sum_duplicates()
        return matrix
    return np.asarray(array) if isinstance(array, np.matrix) else array


def read_only(array: Any) -> Any:
    """Return a read-only view of an array, or of the arrays of a CSR."""
    if isinstance(array, np.ndarray):
        view = array.view()
        view.flags.writeable = False
        return view
    if sparse.issparse(array):
        return _csr(array, *map(read_only, (array.data, array.indices, array.indptr)))
    return array  # a streamed table, or a tensor: torch has no read-only tensors


def row_range(instances: Instances, start: int, stop: int) -> Instances:
    """Return the rows start:stop as a view, also for a CSR, whose own slicing copies."""
    if not sparse.issparse(instances):
        return instances[start:stop]
    indptr = instances.indptr[start : stop + 1]
    stored = slice(indptr[0], indptr[-1])
    return _csr(instances, instances.data[stored], instances.indices[stored], indptr - indptr[0])


def _csr(like: Any, data: Array, indices: Array, indptr: Array) -> Any:
    """A CSR of its parts, without a copy and without the checks of SciPy."""
    view = type(like)((len(indptr) - 1, like.shape[1]), dtype=like.dtype)
    view.data, view.indices, view.indptr = data, indices, indptr
    view.has_canonical_format = True
    return view


def is_range(order: Ints) -> bool:
    """Whether positions are 0, 1, 2, ..."""
    return bool(np.array_equal(order, np.arange(len(order))))


def cell_text(value: Any) -> str:
    """Format a value: three decimals; "yes" or empty; empty for a missing value.

    Parameters
    ----------
    value : object
        A cell of a table.

    Returns
    -------
    str

    Examples
    --------
    >>> from bagwise._common.tables import cell_text
    >>> [cell_text(value) for value in (0.12345, 7, True, None, "slide")]
    ['0.123', '7', 'yes', '', 'slide']
    """
    if value is None or isinstance(value, bool | np.bool_):
        return "yes" if value else ""
    if not isinstance(value, float | np.floating):
        return str(value)
    number = float(value)
    text = f"{number:.3f}" if number == 0 or 1e-3 <= abs(number) < 1e6 else f"{number:.3g}"
    return "" if text == "nan" else text


def are_numbers(values: Iterable[Any]) -> bool:
    """Whether a column has only numbers (or missing values), which are right-aligned."""
    kinds = {type(value) for value in values if value is not None}
    return bool(kinds) and all(
        issubclass(kind, int | float | np.number) and kind is not bool for kind in kinds
    )


def slices(n: int, size: int) -> list[slice]:
    """Cover the range of n by consecutive slices of at most `size`."""
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]
