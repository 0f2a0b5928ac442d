"""Names of version 0.1 that moved: the error states their new location."""

from __future__ import annotations

import sys
from opcode import opname

TYPE_CHECKING = False  # type checkers know the name; importing typing would load many modules
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_PAGE_PARTS = ("Code", "Figure", "Section", "Table", "render_page")
MOVED = {
    "bagwise": {
        "kernels": "bagwise.compiled (numba functions) and bagwise.pairwise (kernels of bags)",
        "reproduction": "the package reproduction of a checkout, next to benchmarks",
    },
    "bagwise.inspection": {
        **dict.fromkeys(_PAGE_PARTS, "an internal part of bagwise.report"),
        "HeldOut": "bagwise.model_selection.HeldOut",
        "Media": "bagwise.report.Media",
        "Report": "bagwise.report.Report",
        "instance_model": "the methods of a BagPipeline (bagwise.preprocessing)",
    },
    "bagwise.pairwise": {"check_kernel": "an internal part of bagwise.pairwise"},
    "bagwise.review": dict.fromkeys(
        ("ConflictError", "ReviewServer", "ServedMedia", "match_corrections"),
        "an internal part of the command bagwise review",
    ),
}


def missing_name(module: str) -> Callable[[str], Any]:
    """Make the ``__getattr__`` of a module, which explains names of version 0.1.

    Parameters
    ----------
    module : str
        The full name of the module.

    Returns
    -------
    callable
        Raises AttributeError, as ``hasattr`` needs it. ``from module import name`` would replace
        its message; for a name that moved, it raises ImportError with the same message.
    """

    def __getattr__(name: str) -> Any:  # noqa: N807
        message = f"module {module!r} has no attribute {name!r}"
        if name not in MOVED[module]:
            raise AttributeError(message)
        kind = ImportError if _is_imported() else AttributeError
        raise kind(f"{message}: since version 0.2 it is {MOVED[module][name]}")

    return __getattr__


def _is_imported() -> bool:
    """Whether the ``__getattr__`` of a module was called by ``from module import name``."""
    frame = sys._getframe(1)
    while frame.f_code.co_name == "__getattr__" and frame.f_back is not None:
        frame = frame.f_back
    return opname[frame.f_code.co_code[frame.f_lasti]] == "IMPORT_FROM"
