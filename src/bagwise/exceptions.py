"""The errors and warnings of bagwise.

Every error is a :class:`BagwiseError` and also the built-in error a caller would expect
(``ValueError``, ``TypeError``, ``FileNotFoundError``, ...), so existing ``except`` clauses work.
"""

import difflib
import sys
import warnings
from collections.abc import Iterable

__all__ = [
    "BagwiseError",
    "DataNotFoundError",
    "DataWarning",
    "FileFormatError",
    "InputError",
    "InputTypeError",
    "LabelError",
    "MissingExtraError",
    "ModelFileError",
    "NotEnoughMemoryError",
    "OutputExistsError",
    "SparseInputError",
]

WRAPPERS = ("bagwise", "sklearn", "joblib", "contextlib")  # packages whose frames are skipped


class BagwiseError(Exception):
    """Base class of all errors that bagwise raises."""


class InputError(BagwiseError, ValueError):
    """The input or a parameter is invalid."""


class InputTypeError(InputError, TypeError):
    """The data contain something that is not a number."""


class SparseInputError(InputTypeError):
    """The instances are sparse, and the model needs dense ones."""


class LabelError(InputError):
    """The labels do not match the bags, or the classes of the model."""


class NotEnoughMemoryError(InputError, MemoryError):
    """A computation on this input would need more memory than is available."""


class FileFormatError(InputError):
    """The contents of a file do not match its format or its columns."""


class ModelFileError(BagwiseError, ValueError):
    """A saved model cannot be loaded safely."""


class DataNotFoundError(BagwiseError, FileNotFoundError):
    """A data set or a file was not found."""


class OutputExistsError(BagwiseError, FileExistsError):
    """The output file exists and may not be overwritten."""


class MissingExtraError(BagwiseError, ImportError):
    """An optional package is needed and not installed."""


class DataWarning(UserWarning):
    """The data contain something that is probably a mistake."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return " Did you mean A or B?" for an error, with similar names; empty if there are none."""
    by_letters = {each.lower(): each for each in reversed([*known])}
    near = difflib.get_close_matches(str(name).lower(), by_letters, n=3, cutoff=0.5)
    return f" Did you mean {' or '.join(by_letters[each] for each in near)}?" if near else ""


def counted(n: int, noun: str) -> str:
    """Return a number and its noun for a message: 1 bag, 2 bags."""
    return f"{n} {noun}{'' if n == 1 else 's'}"


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn with the location of the user's code that led to the call.

    A fixed ``stacklevel`` is not possible: the number of frames that scikit-learn adds around
    ``fit`` depends on its version, on pipelines and on searches.

    Parameters
    ----------
    message : str
        What happened, and what to do about it.
    category : type of Warning, default=UserWarning
        The class of the warning.
    """
    level, frame = 1, sys._getframe()
    while frame.f_back and str(frame.f_globals.get("__name__")).split(".")[0] in WRAPPERS:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
