"""A waiter's request on its way: its time limit, what is asked when its connection dies, and its undo."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Generic, TypeVar

from ..scripts.base import Call
from .settlement import Release
from .waiter import Waiter

if TYPE_CHECKING:
    from .gate import Gate

R = TypeVar("R")


class Expired(Exception):
    """The acquire's own timeout passed while its request was on its way."""


class Attempt(Generic[R]):
    """One request that may get the waiter the lock. If nobody awaits it to its end, it is withdrawn or undone.

    Args:
        gate: the name's.
        waiter: for whom it is.
        call: the request.
    """

    __slots__ = ("_call", "_doing", "_gate", "_reply", "_seconds", "_undo", "_waiter", "due")

    def __init__(self, gate: Gate, waiter: Waiter, call: Call[R]) -> None:
        self._gate = gate
        self._waiter = waiter
        self._call: Call[R] = call
        self._undo: Release | None = None
        self.due: float = math.inf
        call.unanswered = self._unanswered

    async def answer(self, now: float, until: float, doing: str = "") -> R:
        """Write the request and wait for its answer.

        Args:
            now: clock time.
            until: clock time at which it is given up.
            doing: what it is for, in words; empty if giving it up is no failure of the server's.

        Raises:
            Expired: it was given up, and `doing` is empty.
            BackendError: no answer by then, or the server refuses.
        """
        runtime, call = self._gate.runtime, self._call
        self._doing, self._seconds = doing, until - now
        reply = self._reply = runtime.backend.run(call)
        runtime.watchdog.schedule(self, until)
        try:
            return await reply
        except BaseException:
            if not call.withdraw():
                self._undo = self._gate.undo(self._waiter)
            raise
        finally:
            runtime.watchdog.forget(self)

    def on_due(self, now: float, late: float) -> None:
        if not self._reply.done():
            late_answer = self._gate.runtime.unanswered(self._call.name, self._doing, self._seconds)
            self._reply.set_exception(late_answer if self._doing else Expired())

    def _unanswered(self) -> bool:
        if self._undo is not None:  # nobody wants it any more, and its undo may be unwritten yet
            self._undo.taint()
            return False
        self._waiter.tainted = True
        return True
