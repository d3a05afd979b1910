"""A time limit for an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from .scheduler import NEVER

R = TypeVar("R")


class Limit(Generic[R]):
    """Fails a future at a clock time.

    Args:
        reply: must be done by then.
        error: creates the error when the time has come.
    """

    __slots__ = ("_error", "_reply", "due")

    def __init__(self, reply: asyncio.Future[R], error: Callable[[], BaseException]) -> None:
        self.due: float = NEVER
        self._reply = reply
        self._error = error

    def on_due(self, now: float, late: float) -> None:
        if not self._reply.done():
            self._reply.set_exception(self._error())
