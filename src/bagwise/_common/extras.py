"""Import of optional packages on first use, with the pip command in the error if one is missing."""

import importlib
from types import ModuleType

from bagwise.exceptions import MissingExtraError

__all__ = ["import_extra"]


def import_extra(module: str, *, extra: str) -> ModuleType:
    """Import an optional module, or raise an error that states how to install it.

    Parameters
    ----------
    module : str
        Dotted name of the module, for example ``"pyarrow.parquet"``.
    extra : str
        The extra of bagwise that installs it, for example ``"io"``.

    Returns
    -------
    module
        The imported module.

    Raises
    ------
    MissingExtraError
        If the package is not installed.

    Examples
    --------
    >>> from bagwise._common.extras import import_extra
    >>> import_extra("no_such_package", extra="io")
    Traceback (most recent call last):
        ...
    bagwise.exceptions.MissingExtraError: 'no_such_package' is needed here and is not installed: \
pip install "bagwise[io]"
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        if error.name is None or error.name.partition(".")[0] != package:
            raise
        raise MissingExtraError(
            f'{package!r} is needed here and is not installed: pip install "bagwise[{extra}]"'
        ) from error
