"""The errors bagwise raises, as a tree.

Every error is a :class:`BagwiseError` and also the built-in error a caller would expect
(``ValueError``, ``TypeError``, ``FileNotFoundError``, ...), so existing ``except`` clauses work.
"""

from __future__ import annotations

__all__ = [
    "BagwiseError",
    "DataNotFoundError",
    "DataWarning",
    "DownloadError",
    "FileFormatError",
    "InputError",
    "InputTypeError",
    "LabelError",
    "MissingExtraError",
    "ModelFileError",
    "NotEnoughMemoryError",
    "OutputExistsError",
    "SparseInputError",
    "WorkerLostError",
]

INTERRUPTED = 130  # the exit code of a process that Ctrl-C ended, as shells count it


class BagwiseError(Exception):
    """The root of every error bagwise raises on purpose."""


class InputError(BagwiseError, ValueError):
    """The data cannot be read as bags, or not by this model."""


class InputTypeError(InputError, TypeError):
    """The data holds something that is not a number."""


class SparseInputError(InputTypeError):
    """Sparse instances reached a model that needs dense ones."""


class LabelError(InputError):
    """The labels do not fit the bags, or the classes the model knows."""


class NotEnoughMemoryError(InputError, MemoryError):
    """A computation on this input would need more memory than is available."""


class FileFormatError(InputError):
    """A file is not what its name or its columns promise."""


class ModelFileError(BagwiseError, ValueError):
    """A saved model cannot be loaded safely."""


class DataNotFoundError(BagwiseError, FileNotFoundError):
    """A data set or a file is not where it was looked for."""


class OutputExistsError(BagwiseError, FileExistsError):
    """Writing would overwrite a file, and nobody said it may."""


class DownloadError(BagwiseError, OSError):
    """A data set could not be fetched, or what arrived is not what was expected."""


class MissingExtraError(BagwiseError, ImportError):
    """An optional package is needed and not installed."""


class WorkerLostError(BagwiseError, RuntimeError):
    """A fit gave up after losing workers of a cluster too often, or the cluster is gone.

    `final` is whether another attempt is pointless.
    """

    final = False

    @classmethod
    def for_good(cls, message: str) -> WorkerLostError:
        """An error after which nobody tries again."""
        error = cls(message)
        error.final = True
        return error


class DataWarning(UserWarning):
    """Something in the data was read as it stands, and is probably not what was meant."""
