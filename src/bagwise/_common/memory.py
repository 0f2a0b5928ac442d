"""Available memory, and an error before a computation that needs more."""

import contextlib
import os
import re
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.exceptions import InputError, NotEnoughMemoryError

_UNITS = {prefix: 1000**power for power, prefix in enumerate(["", "k", "m", "g", "t"])}
_UNITS |= {f"{prefix}i": 1024**power for power, prefix in enumerate(["", "k", "m", "g", "t"])}
_FALLBACK = 4 * 2**30  # bytes assumed if the system does not report its memory
_ALWAYS_GRANTED = 2**26  # bytes that are accepted without a check


def require_memory(
    n_bytes: float, *, purpose: str, remedy: str, available: float | None = None
) -> None:
    """Refuse a computation whose largest arrays do not fit into memory, before it starts.

    Parameters
    ----------
    n_bytes : float
        Bytes that will be allocated at once.
    purpose : str
        Content of these bytes, with the relevant sizes: the subject of the message.
    remedy : str
        Advice to the user.
    available : float, default=None
        Bytes available where the computation will run; by default those available to this process.

    Raises
    ------
    NotEnoughMemoryError
        If less is available.

    Examples
    --------
    >>> from bagwise._common.memory import require_memory
    >>> require_memory(1e30, purpose="the kernel of 10**14 bags", remedy="use fewer bags")
    Traceback (most recent call last):
        ...
    bagwise.exceptions.NotEnoughMemoryError: the kernel of 10**14 bags needs
    1000000000000000000000.0 GB of memory, and ... GB are available: use fewer bags.
    """
    if n_bytes <= _ALWAYS_GRANTED:
        return
    if available is None:
        available = available_memory()
    if n_bytes > available:
        raise NotEnoughMemoryError(
            f"{purpose} needs {n_bytes / 1e9:.1f} GB of memory, and {available / 1e9:.1f} GB are "
            f"available: {remedy}."
        )


def as_float64(rows: Any) -> Any:
    """Convert a dense or sparse table to float64, or refuse the copy before it is made.

    Parameters
    ----------
    rows : ndarray or CSR of shape (n_rows, n_features)
        The table, returned as it is if it is float64.

    Returns
    -------
    ndarray or CSR
    """
    if rows.dtype != np.float64:
        require_memory(
            8.0 * rows.size,  # stored values, if sparse
            purpose=f"a copy of {rows.shape[0]:,} instances as float64",
            remedy="use fewer bags or features (InstancePCA), or a model that reads blocks, such "
            "as PrimalDualMISVM",
        )
    return rows.astype(np.float64, copy=False)


def byte_count(limit: int | float | str | None) -> int:
    """Convert ``"2GB"``, ``"512MiB"`` or a number to bytes; None is half of the available memory.

    Examples
    --------
    >>> from bagwise._common.memory import byte_count
    >>> byte_count("1.5GB"), byte_count("2 MiB"), byte_count(1000)
    (1500000000, 2097152, 1000)
    """
    if limit is None:
        return available_memory() // 2
    if isinstance(limit, Real) and not isinstance(limit, bool) and 0 <= limit < np.inf:
        return int(limit)
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?i?)b?\s*", str(limit).lower())
    if not isinstance(limit, str) or match is None:
        raise InputError(f"memory_limit={limit!r} is not a size: give bytes, or '2GB'.")
    return int(float(match[1]) * _UNITS[match[2]])


def available_memory() -> int:
    """Bytes that can be used without swapping, also inside a container with a limit."""
    found = [_FALLBACK]
    with contextlib.suppress(OSError, ValueError, AttributeError):
        found = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    with contextlib.suppress(OSError, ValueError, IndexError):
        text = Path("/proc/meminfo").read_text("ascii")
        found.append(1024 * int(text.partition("MemAvailable:")[2].split()[0]))
    with contextlib.suppress(OSError, ValueError, IndexError):
        group = Path("/sys/fs/cgroup")
        limit = int((group / "memory.max").read_text("ascii"))
        used = int((group / "memory.current").read_text("ascii"))
        text = (group / "memory.stat").read_text("ascii")
        cached = int(text.partition("\ninactive_file ")[2].split()[0])  # released if needed
        found.append(max(0, limit - used + cached))
    return min(found)
