"""Warnings that point at the user's line."""

import sys
import warnings

WRAPPERS = ("bagwise", "sklearn", "joblib", "contextlib")  # between the user and us


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn, naming the line of the user that led here.

    A fixed ``stacklevel`` cannot: how many frames scikit-learn puts around ``fit`` depends on its
    version, on pipelines and on searches.

    Parameters
    ----------
    message : str
        What happened, and what to do about it.
    category : type of Warning, default=UserWarning
        Its kind.
    """
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and _package(frame.f_globals) in WRAPPERS:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def _package(names: dict[str, object]) -> str:
    return str(names.get("__name__", "")).partition(".")[0]
