"""The errors and warnings of bagwise.

Every error is a :class:`BagwiseError` and also the built-in error a caller would expect
(``ValueError``, ``TypeError``, ``FileNotFoundError``, ...), so existing ``except`` clauses work.
"""

from __future__ import annotations

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
