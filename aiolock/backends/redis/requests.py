"""A call on its way: kept from `run` until its reply, over as many connections as that takes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

from ...errors import BackendError
from ...log import Log
from ...scripts.base import Call, PartRefused, drop
from ..base import resolve
from .error_reply import ErrorReply

R = TypeVar("R")
logger: Log = Log("aiolock.redis")


class Request(Generic[R]):
    """A call, and the future of its maker.

    Args:
        call: what to run.
        future: its result, if it is awaited; others may cancel it or fail it at any time.
        refused: gets the server's error reply, and decides what becomes of the request. A backend that takes over
            another's request sets its own.

    Attributes:
        misses: how often it was refused without having run, and written again.
    """

    __slots__ = ("call", "future", "misses", "refused")

    def __init__(
        self,
        call: Call[R],
        future: asyncio.Future[R] | None,
        refused: Callable[[Request[Any], ErrorReply], None],
    ) -> None:
        self.call: Call[R] = call
        self.future: asyncio.Future[R] | None = future
        self.misses: int = 0
        self.refused: Callable[[Request[Any], ErrorReply], None] = refused

    @property
    def doing(self) -> str:
        """What it asks of the server, for messages."""
        name = f" of lock {self.call.name!r}" if self.call.name else ""
        return f"{self.call.script.name}{name}"

    @property
    def withdrawn(self) -> bool:
        """It was withdrawn before any server could see it."""
        return self.call.withdrawn and self.call.writes == 0

    def again(self) -> bool:
        """Ask the maker of the call whether to write it again."""
        try:
            return self.call.unanswered()
        except Exception:
            logger.exception("the callback of an unanswered request failed")
            return False

    def answer(self, reply: Any, doubt: BackendError | None = None) -> None:
        """Take the server's reply, or its error reply; `doubt` says why it may not outlast the server."""
        if isinstance(reply, ErrorReply):
            self.refused(self, reply)
            return
        script = self.call.script
        try:
            result: R | BackendError = script.decode(reply)
            if doubt is not None and script.unacknowledged is not None:
                result = script.unacknowledged(cast(R, result), doubt)
        except PartRefused as error:
            self.refused(self, ErrorReply(str(error)))
            return
        except Exception as error:
            result = BackendError(
                self.call.name, f"Redis answered {self.doing} with something unexpected: does a proxy change replies?"
            )
            result.__cause__ = error
        self.settle(result)

    def withdraw(self) -> None:
        """It was never written, and never will be."""
        self.settle(BackendError(self.call.name, f"{self.doing} was withdrawn before it was sent", transient=True))

    def settle(self, result: R | BackendError) -> None:
        """End the call: first its `settle`, then whoever awaits its future."""
        call = self.call
        if call.settle is not None:
            try:
                call.settle(result)
            except Exception:
                logger.exception("the callback of a finished request failed")
        call.settle, call.unanswered = None, drop  # they may refer to the call: avoid a reference cycle
        future = self.future
        if future is not None and not future.done():
            if isinstance(result, BackendError):
                resolve(future, result)
            else:
                future.set_result(result)
