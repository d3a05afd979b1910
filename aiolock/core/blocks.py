"""The blocks that were entered through one lock object: which of them ends when one is left."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from types import CodeType, FrameType

from .caller import GENERATOR
from .guard import Guard


class Blocks(dict[int, Guard]):
    """Open blocks by the frame that entered them: the innermost of each, that entered last in the end.

    `async with` leaves in the frame in which it entered, so that is no guess, whatever task runs it. Who calls
    `__aenter__` and `__aexit__` by other ways is found by its task. A block that may run on is never ended for another.
    """

    __slots__ = ()

    def enter(self, frame: int, code: CodeType, guard: Guard) -> None:
        """A block begins in the frame with this id and code."""
        guard.frame, guard.code = frame, code
        guard.outer = self.pop(frame, None)
        self[frame] = guard

    def leave(self, task: asyncio.Task[object] | None, frame: int, code: CodeType) -> Guard | None:
        """A block is left, in `task`, by the frame with this id and code.

        Returns:
            That block; None if it cannot be told, or none is open.
        """
        guard = self.get(frame)
        # Ids of frames that have ended come again. A coroutine ends in its task; a generator may be closed by another.
        if guard is None or guard.code is not code or not (guard.task is task or code.co_flags & GENERATOR):
            guard = self._of(task)
        if guard is not None:
            self._remove(guard)
        return guard

    def _of(self, task: asyncio.Task[object] | None) -> Guard | None:
        mine = [guard for guard in self.all() if guard.task is task]
        others = [guard for guard in self.all() if guard.task is not task]
        if not mine:
            ended = all(guard.task is None or guard.task.done() for guard in others)
            return others[0] if len(others) == 1 or (others and ended) else None
        if not others:
            return mine[0]
        running = set(_stack())  # whose blocks run on, unless they are left by an odd way
        return next((guard for guard in mine if guard.frame not in running), None)

    def all(self) -> Iterator[Guard]:
        """Innermost first."""
        for guard in reversed(self.values()):
            inner: Guard | None = guard
            while inner is not None:
                yield inner
                inner = inner.outer

    def _remove(self, guard: Guard) -> None:
        inner = self[guard.frame]
        if inner is not guard:
            while inner.outer is not guard and inner.outer is not None:
                inner = inner.outer
            inner.outer = guard.outer
        elif guard.outer is not None:
            self[guard.frame] = guard.outer
        else:
            del self[guard.frame]


def _stack() -> Iterator[int]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield id(frame)
        frame = frame.f_back
