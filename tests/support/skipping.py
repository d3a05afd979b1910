"""Time passes at once when nothing is left to do: for tests in which nothing happens outside the loop."""

from __future__ import annotations

import asyncio
import selectors
import time
from typing import Any

from aiolock.clock import SystemClock
from aiolock.scripts.store import Store

_skipped = 0.0


def skip_waits(loop: asyncio.AbstractEventLoop) -> None:
    """Let `loop` jump to its next timer instead of waiting for it; uvloop waits as usual."""
    selector: selectors.BaseSelector | None = getattr(loop, "_selector", None)
    if selector is None:
        return
    look = selector.select

    def select(timeout: float | None = None) -> Any:
        global _skipped
        if timeout is None or timeout <= 0:  # only another thread or process can make progress, or there is no wait
            return look(timeout)
        found = look(0)
        if not found:
            _skipped += timeout
        return found

    loop.time = lambda: time.monotonic() + _skipped  # type: ignore[method-assign]
    selector.select = select  # type: ignore[method-assign]


class SkippingClock(SystemClock):
    """The clock of leases, in a loop that skips."""

    def __init__(self) -> None:
        super().__init__()
        now = self.now
        self.now = lambda: now() + _skipped


def skipping_store() -> Store:
    """A server whose clock moves along."""
    return Store(lambda: time.time_ns() // 1000 + round(_skipped * 1_000_000))
