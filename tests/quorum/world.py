"""Three in-memory nodes on one virtual clock, each with a server clock and faults of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from aiolock import BackendError, LockManager
from aiolock.scripts.base import Call
from aiolock.scripts.keys import NameKeys
from aiolock.scripts.lock import LockCalls
from aiolock.scripts.store import Store
from aiolock.testing import MemoryBackend, VirtualClock
from tests.support import locks

R = TypeVar("R")

NAME = "order:42"
TTL = 30.0


def keys_of(name: str = NAME) -> NameKeys:
    return locks.KEYS.of("lock", name)


def calls_of(name: str = NAME) -> LockCalls:
    """What a quorum's manager asks of each of its nodes."""
    return LockCalls(locks.KEYS, name, 3_000, races=True)


class Link(MemoryBackend):
    """One manager's connection to a node. It may hang, with everything that was written to it unanswered.

    Args:
        store: the node's.
        clock: shared by all.
    """

    def __init__(self, store: Store, clock: VirtualClock) -> None:
        super().__init__()
        self.store = store
        self.clock = clock
        self.down = False
        self.run_id = f"{id(store):x}"
        self.sent: list[tuple[str, str]] = []  # scripts in the order of writing, and their first argument: the owner
        self.hangs_on: Callable[[Call[Any]], bool] = lambda call: False
        self._stuck: list[Call[Any]] = []

    async def open(
        self, *, timeout: float, reconnected: Callable[[], None], needed: Callable[[], bool] | None = None
    ) -> None:
        if self.down:
            raise BackendError("", "Redis cannot be reached: it is down", transient=True)
        await super().open(timeout=timeout, reconnected=reconnected, needed=needed)

    def post(self, call: Call[Any]) -> None:
        self.sent.append((call.script.name, str(call.args[0]) if call.args else ""))
        if not (self._stuck or self.hangs_on(call)):
            super().post(call)
            return
        call.writes += 1
        call.sent_at = self.clock.now()
        self._stuck.append(call)

    def hang(self, script: str = "") -> None:
        """Execute nothing from the next call (of that script) on."""
        self.hangs_on = lambda call: script in ("", call.script.name)

    def thaw(self) -> None:
        """Execute and answer in order what was written."""
        self.hangs_on = lambda call: False
        stuck, self._stuck = self._stuck, []
        for call in stuck:
            sent_at, writes = call.sent_at, call.writes
            self._answer(call)
            call.sent_at, call.writes = sent_at, writes

    def die(self, *, executed: bool) -> None:
        """Lose the connection under what was written; it is back at once."""
        self.hangs_on = lambda call: False
        stuck, self._stuck = self._stuck, []
        if executed:
            for call in stuck:
                self._execute(call)
        for call in stuck:
            if call.unanswered():
                self._answer(call)
            else:
                call.end(BackendError(call.name, "the connection died", transient=True))


class Trio:
    """Three stores that share nothing.

    Args:
        ahead: seconds by which each node's wall clock is ahead.
        rates: how fast each node's wall clock runs.
    """

    def __init__(self, ahead: tuple[float, ...] = (0, 0, 0), rates: tuple[float, ...] = (1, 1, 1)) -> None:
        self.clock = VirtualClock()
        began = self.clock.wall_us()

        def wall(ahead: float, rate: float) -> Callable[[], int]:
            return lambda: began + round(ahead * 1e6 + (self.clock.wall_us() - began) * rate)

        self.stores = [Store(wall(*skew)) for skew in zip(ahead, rates, strict=True)]

    def links(self) -> list[Link]:
        return [Link(store, self.clock) for store in self.stores]

    def manager(self, links: list[Link], **options: Any) -> LockManager:
        return LockManager.quorum(links, **{"ttl": TTL, "recheck": 600.0, "request_timeout": 4.0, **options})

    def holders(self, name: str = NAME) -> list[str]:
        """The id of the manager that holds it, node by node; '' if none does."""
        return [locks.state(store, name).manager for store in self.stores]

    def held(self, name: str = NAME) -> list[bool]:
        return [locks.held(store, name) for store in self.stores]

    def fences(self, name: str = NAME) -> list[int]:
        return [locks.state(store, name).fence for store in self.stores]

    def set_fences(self, *fences: int) -> None:
        for store, fence in zip(self.stores, fences, strict=True):
            locks.change(store, fence=fence)

    def tombstones(self) -> list[int]:
        return [len(locks.tombstones(store)) for store in self.stores]

    def drop(self, *nodes: int) -> None:
        """Restart these nodes empty, counted from 0."""
        for node in nodes:
            self.stores[node].flush()


@contextmanager
def away(*links: Link) -> Iterator[None]:
    """The links have no connection inside the block: requests to them wait."""
    outages = [link.outage() for link in links]
    for outage in outages:
        outage.__enter__()
    yield
    for outage in outages:
        outage.__exit__(None, None, None)
