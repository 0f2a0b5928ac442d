"""Functions that make the estimators of the papers."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

Given = ParamSpec("Given")
Estimator = TypeVar("Estimator")


def function_of(cls: Callable[Given, Estimator], name: str) -> Callable[Given, Estimator]:
    """A function that makes an estimator, with the parameters and the docstring of its class.

    Parameters
    ----------
    cls : type
        The class.
    name : str
        The name of the function.

    Returns
    -------
    callable
    """

    @functools.wraps(cls, updated=())
    def make(*args: Given.args, **options: Given.kwargs) -> Estimator:
        return cls(*args, **options)

    made: Any = make
    made.__name__ = made.__qualname__ = name
    made.__signature__ = inspect.signature(cls).replace(return_annotation=cls)
    return make
