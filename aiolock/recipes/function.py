"""The function that a recipe calls with a lease."""

from __future__ import annotations

import inspect
from collections.abc import Callable


def check_takes(fn: Callable[..., object], what: str, argument: str) -> None:
    """Raise if `fn` cannot be called with one argument, so that a mistake in the code shows before anything is held.

    Raises:
        TypeError: names `what` the function is, and its `argument`.
    """
    try:
        signature = inspect.signature(fn)
    except ValueError:  # of a builtin
        return
    try:
        signature.bind(None)
    except TypeError as error:
        raise TypeError(f"{what} gets one argument, {argument}, but {fn!r} does not fit: {error}") from None
