"""Runs a coroutine and cancels its task at chosen suspensions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Generator, Mapping
from typing import Any, Literal

from tests.unit.world import later

When = int | Literal["answer"]
"""When a cancel comes: this many turns of the loop after the suspension; -1 means in that very step, or in the turn in
which the awaited result is there, so that the answer has come and the task is cancelled all the same.
"""


class Stepper(Awaitable[Any]):
    """Counts the suspensions of `work`, and cancels the running task at those in `cancels`.

    Args:
        work: what to run.
        cancels: maps the number of a suspension, from 1, to the moment in it.
    """

    def __init__(self, work: Coroutine[Any, Any, Any], cancels: Mapping[int, When]) -> None:
        self.suspensions = 0
        self._work = work
        self._cancels = dict(cancels)

    @property
    def all_sent(self) -> bool:
        """Whether every cancel had its suspension."""
        return not self._cancels

    def __await__(self) -> Generator[Any, Any, Any]:
        task = asyncio.current_task()
        assert task is not None
        inner = self._work.__await__()
        error: BaseException | None = None
        while True:
            try:
                waited_for = next(inner) if error is None else inner.throw(error)
            except StopIteration as stop:
                return stop.value
            self.suspensions += 1
            when = self._cancels.pop(self.suspensions, None)
            if when == "answer" and waited_for is not None:
                waited_for.add_done_callback(lambda _: task.cancel())
            elif when == "answer":
                later(0, task.cancel)
            elif when is not None:
                later(when + 1, task.cancel)
            error = None
            try:
                yield waited_for
            except BaseException as thrown:
                error = thrown
