"""Four processes use a fair lock, a read-write lock and a semaphore at once; one is killed, one stopped for a while."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections import Counter

from .conftest import Crew
from .worker import CROWD

PROCESSES, TTL, LIVENESS = 4, 1.5, 1.0


async def test_a_crowd(crew: Crew) -> None:
    """Broken by any script of the family that grants without room, or forgets a holder."""
    workers = [crew.start("crowd", TTL, LIVENESS) for _ in range(PROCESSES)]
    await crew.until(lambda: len(crew.events("ready")) == PROCESSES)
    stopped, killed = workers[0], workers[1]
    crew.stop(stopped)
    await asyncio.sleep(0.3)
    crew.kill(killed)
    await asyncio.sleep(TTL * 1.2)
    resumed = time.monotonic()
    os.kill(stopped.pid, signal.SIGCONT)

    def enough() -> bool:
        """Check that all got in often, including the stopped process after its stop."""
        entries = [event for event in crew.events("granted") if not event["lost"]]
        whats = {(event["pid"], event["op"]): event["what"] for event in crew.events("began")}
        often = Counter(whats[event["pid"], event["op"]] for event in entries)
        again = any(event["pid"] == stopped.pid and event["at"] > resumed for event in entries)  # type: ignore[operator]
        return again and all(often[what] > 10 for what in CROWD)

    await crew.until(enough, seconds=60.0)
    (crew.folder / "enough").touch()
    await crew.done(stopped, *workers[2:])
    crew.judge()
