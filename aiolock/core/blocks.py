"""The blocks that were entered through one lock object: which of them ends when one is left."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from sys import _getframe
from types import CodeType, FrameType

from .caller import BETWEEN, GENERATOR, instance
from .guard import Guard


class Blocks(dict[int, Guard]):
    """Open blocks by the frame that entered them: the innermost of each, the last entered at the end.

    `async with` leaves in the frame in which it entered, so that is certain, whatever task runs it. If `__aenter__` and
    `__aexit__` are called in other ways, the object that calls them decides, such as an exit stack, and then the task.
    A block that may still run is never ended instead of another.
    """

    __slots__ = ()

    def enter(self, frame: int, code: CodeType, guard: Guard, several: bool) -> None:
        """A block begins in the frame with this id and code; called by the `__aenter__` of the lock object.

        Args:
            frame, code: of its caller.
            guard: the block.
            several: its task has others on the name, so that it may be unclear which of them is left.
        """
        guard.frame, guard.code = frame, code
        guard.via = instance(_getframe(2)) if frame and (several or code.co_name in BETWEEN) else 0
        guard.outer = self.pop(frame, None) if self else None
        self[frame] = guard

    def leave(self, task: asyncio.Task[object] | None) -> Guard | None:
        """A block is left, in `task`; called by the `__aexit__` of the lock object.

        Returns:
            That block; None if it is unclear which, or none is open.
        """
        if len(self) == 1:
            frame, guard = self.popitem()
            if guard.task is task and guard.outer is None:
                return guard
            self[frame] = guard
        via = 0
        try:
            caller = _getframe(2)
        except ValueError:  # no Python frame around
            pass
        else:
            frame, code, via = id(caller), caller.f_code, instance(caller)
            known = self.get(frame)
            # Ids of ended frames are reused. A coroutine ends in its task; a generator may be closed by another.
            if known is not None and known.code is code and (known.task is task or code.co_flags & GENERATOR):
                self._remove(known)
                return known
        known = self._of(task, via)
        if known is not None:
            self._remove(known)
        return known

    def _of(self, task: asyncio.Task[object] | None, via: int) -> Guard | None:
        running = set(_stack())  # their blocks run on, unless they are left in an odd way
        idle = [guard for guard in self.all() if (guard.frame, guard.code) not in running]
        for guard in idle:
            if via and guard.via == via:
                return guard
        mine = [guard for guard in self.all() if guard.task is task]
        others = [guard for guard in self.all() if guard.task is not task]
        if not mine:
            ended = all(guard.task is None or guard.task.done() for guard in others)
            return others[0] if len(others) == 1 or (others and ended) else None
        # Rather one that no object is known to have entered: another object's may still be in use.
        known = sorted((guard for guard in mine if guard in idle), key=lambda guard: guard.via > 0)
        if known:
            return known[0]
        return None if others else mine[0]

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


def _stack() -> Iterator[tuple[int, CodeType]]:
    frame: FrameType | None = _getframe(1)
    while frame is not None:
        yield id(frame), frame.f_code
        frame = frame.f_back
