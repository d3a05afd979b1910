"""What a hold, its task and its block know of each other."""

from __future__ import annotations

import asyncio
import weakref
from abc import abstractmethod
from typing import TYPE_CHECKING

from ..scripts.base import Ending
from .calls import Calls

if TYPE_CHECKING:
    from .hold import Hold
    from .release import ReleaseResult


class Block:
    """A guarded block, as its lease and its hold see it."""

    __slots__ = ()

    task: asyncio.Task[object] | None
    """The task that entered it."""

    @abstractmethod
    def cancel(self, reason: str) -> None:
        """Cancel it, if it still runs: its hold is lost."""

    @abstractmethod
    def abandon(self) -> None:
        """Its task has ended without leaving it, and its scope has ended with it."""


class Level:
    """One acquisition of a hold, as the hold, its task and its block see it; `Lease` is what you get."""

    __slots__ = ("__weakref__", "_calls", "_guard", "_hold", "_lock", "_result", "_task")

    def __init__(self, hold: Hold, calls: Calls, task: asyncio.Task[object] | None) -> None:
        self._hold: Hold = hold
        self._calls: Calls = calls  # of this acquisition's weight
        self._task: asyncio.Task[object] | None = task  # the task that acquired it; None once that has ended
        self._guard: Block | None = None  # what a loss cancels; None after a plain `await lock.acquire()`
        self._lock: weakref.ref[object] | None = None  # what it was acquired through, by hand
        self._result: ReleaseResult | None = None  # once it was given up

    @abstractmethod
    def _give_up(self, ending: Ending, abandoned: bool = False) -> ReleaseResult:
        """Release it with a given ending; `abandoned` if its task has ended inside its block."""
