"""Warnings that point to the user's line."""

import sys
import warnings

WRAPPERS = ("bagwise", "sklearn", "joblib", "contextlib")  # packages whose frames are skipped


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
    while frame.f_back is not None and _package(frame.f_globals) in WRAPPERS:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def _package(names: dict[str, object]) -> str:
    return str(names.get("__name__", "")).partition(".")[0]
