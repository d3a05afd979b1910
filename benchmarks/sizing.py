"""What a server needs for many processes, a crowd at one name, and many names: `python -m benchmarks.sizing`.

It prints three tables. All managers are in this process, so the seconds until all are in again are mostly its own: they
are an upper bound. Counts, bytes and memory are not touched by that.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from redis import Redis

from aiolock import BackendError, LockLost, LockManager
from aiolock.testing.server import RedisServer

from .tables import number, table
from .usage import Usage, Watch

if TYPE_CHECKING:
    from tests.support.sentinels import SentinelSet

Item = TypeVar("Item")
TTL = 30.0
WINDOW = 20.0
"""Seconds; each lease is renewed twice in them, each queue's heartbeat sent 20 times."""
AT_ONCE = 50
"""So many managers open, or so many names are asked for, at the same time."""
SHRINKS = 5.0
"""Seconds after which the server has taken back most of the buffers of a connection that is silent."""
PATIENCE = 300.0
REQUEST_TIMEOUT = 30.0
"""All of them share one process, so some answers wait longer than the default."""
NAMED_BY = 10
"""So many processes hold the many names."""
FAULTS = ["fault", "what", "s until the last is in", "CPU of the server, s", "lost"]
ONCE = ["turn of a process", "commands", "bytes in", "bytes out", "CPU of the server, ms"]
HEAD = ["each", "commands/s", "bytes/s in", "bytes/s out", "CPU of the server, ms/s", "bytes of memory"]


class Restarted:
    """A server that comes back empty.

    Attributes:
        fault: what `fail` does.
        forgets: whether all locks are lost then.
        raw: a client of its own.
    """

    fault, forgets = "restart", True

    def __init__(self, server: RedisServer) -> None:
        self._server = server
        self.raw = Redis(server.host, server.port)

    def manager(self) -> LockManager:
        """The manager of one more process."""
        return LockManager(self._server.url, ttl=TTL, request_timeout=REQUEST_TIMEOUT)

    async def fail(self) -> None:
        """Return once it answers again."""
        await asyncio.to_thread(self._server.restart)

    def cpu(self) -> float:
        """Seconds since it started."""
        return Usage.of(self.raw).cpu


class FailedOver:
    """A master whose replica has its data when it dies; three Sentinels promote that."""

    fault, forgets = "failover", False

    def __init__(self, watched: SentinelSet) -> None:
        self._watched = watched
        self.raw = watched.link(watched.master())
        self._replica = watched.replica()
        self._before = 0.0

    def manager(self) -> LockManager:
        """The manager of one more process."""
        addresses, service = self._watched.addresses, self._watched.service
        return LockManager.sentinel(addresses, service=service, ttl=TTL, request_timeout=REQUEST_TIMEOUT)

    async def fail(self) -> None:
        """Kill the master; return once the replica is one."""
        self._before = Usage.of(self._watched.link(self._replica)).cpu
        self._watched.kill(self._watched.master())
        await self._watched.promoted(self._replica)

    def cpu(self) -> float:
        """Seconds of the new master since the old one died."""
        return Usage.of(self._watched.link(self._replica)).cpu - self._before


class Holders:
    """Names that are held at the same time, each by a task; a lease that is lost is asked for again."""

    def __init__(self, managers: Sequence[LockManager], names: int) -> None:
        self._names = [(managers[one % len(managers)], f"own:{one}") for one in range(names)]
        self._tasks: list[asyncio.Task[None]] = []
        self.entries = 0

    async def enter(self) -> None:
        """Return once all are held."""
        for some in parts(self._names):
            self._tasks += [asyncio.create_task(self._hold(*one)) for one in some]
            await self.entered(len(self._tasks))

    async def entered(self, entries: int) -> None:
        """Return once so many have been granted since the beginning."""
        async with asyncio.timeout(PATIENCE):
            while self.entries < entries:  # noqa: ASYNC110 - a hundred thousand tasks need no event each
                await asyncio.sleep(0.01)

    async def leave(self) -> None:
        """Release all."""
        for some in parts(self._tasks):
            for task in some:
                task.cancel()
            await asyncio.wait(some)

    async def _hold(self, manager: LockManager, name: str) -> None:
        while True:
            with contextlib.suppress(LockLost, BackendError):
                async with manager.lock(name):
                    self.entries += 1
                    await asyncio.Event().wait()


class Crowd:
    """Tasks of as many managers, which wait for one name, and leave it as soon as they have it."""

    def __init__(self, managers: Sequence[LockManager]) -> None:
        self._managers = managers
        self._go = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def queue(self, raw: Redis) -> None:
        """Return once all wait behind the first."""
        first, *rest = self._managers
        inside = asyncio.Event()
        self._tasks.append(asyncio.create_task(self._visit(first, inside)))
        await inside.wait()
        self._tasks += [asyncio.create_task(self._visit(manager)) for manager in rest]
        async with asyncio.timeout(PATIENCE):
            while raw.zcard("aiolock:lock:{crowd}:queue") < len(rest):  # type: ignore[operator]  # noqa: ASYNC110
                await asyncio.sleep(0.1)

    async def done(self) -> None:
        """Return once the last has been in."""
        self._go.set()
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*self._tasks)

    async def _visit(self, manager: LockManager, inside: asyncio.Event | None = None) -> None:
        while True:
            with contextlib.suppress(LockLost, BackendError):
                async with manager.lock("crowd"):
                    if inside is not None:
                        inside.set()
                        await self._go.wait()
                return


def parts(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    """A few at a time."""
    return (items[at : at + AT_ONCE] for at in range(0, len(items), AT_ONCE))


@contextlib.asynccontextmanager
async def opened(place: Restarted | FailedOver, count: int) -> AsyncIterator[list[LockManager]]:
    """As many managers."""
    managers = [place.manager() for _ in range(count)]
    try:
        for some in parts(managers):
            await asyncio.gather(*(manager.open() for manager in some))
        yield managers
    finally:
        for some in parts(managers):
            await asyncio.gather(*(manager.close() for manager in some), return_exceptions=True)


async def steady(raw: Redis) -> Usage:
    """What is used in a second."""
    watch = Watch(raw)
    began = time.monotonic()
    await asyncio.sleep(WINDOW)
    return watch.used() / (time.monotonic() - began)


async def warm(place: Restarted) -> None:
    """Let the server learn the scripts: all that come later know them by their hash."""
    async with opened(place, 3) as managers:
        async with managers[0].lock("warm", ttl=1.0):
            await asyncio.sleep(1.0)
        crowd = Crowd(managers)
        await crowd.queue(place.raw)
        await asyncio.sleep(2.0)
        await crowd.done()
    place.raw.flushall()


def line(what: str, count: int, used: Usage | None, memory: float) -> list[str]:
    """A row of the first table: the share of each."""
    each = used / count if used else None
    told = (each.commands, each.received, each.sent, each.cpu * 1e3) if each else (None,) * 4
    return [what, *(number(value) for value in (*told, memory / count))]


def once(what: str, count: int, used: Usage) -> list[str]:
    """A row of the second table."""
    each = used / count
    return [what, *(number(value) for value in (each.commands, each.received, each.sent, each.cpu * 1e3))]


async def holding(place: Restarted, processes: int, names: int) -> tuple[Usage, float, float]:
    """Processes that hold names: what a second uses, the memory, and the memory once the names are free."""
    whole = Watch(place.raw)
    async with opened(place, processes) as managers:
        holders = Holders(managers, names)
        await holders.enter()
        await asyncio.sleep(TTL / 3)  # the first renewal of each connection brings its script
        used = await steady(place.raw)
        held = whole.used().memory
        await holders.leave()
        await asyncio.sleep(SHRINKS)
        return used, held, whole.used().memory


async def waiting(place: Restarted, count: int) -> tuple[Usage, float, Usage, Usage]:
    """Processes that wait for one name: a second, the memory, the first turn of all with its start, a later one."""
    whole = Watch(place.raw)
    async with opened(place, count) as managers:
        crowd = Crowd(managers)
        await crowd.queue(place.raw)
        await crowd.done()
        first, crowd = whole.used(), Crowd(managers)
        await crowd.queue(place.raw)
        await asyncio.sleep(2.0)  # so does the first heartbeat
        used = await steady(place.raw)
        queued, turns = whole.used().memory, Watch(place.raw)
        await crowd.done()
        return used, queued, first, turns.used()


async def held_again(place: Restarted | FailedOver, processes: int, names: int) -> list[str]:
    """Processes that hold names while the server fails."""
    async with opened(place, processes) as managers:
        holders = Holders(managers, names)
        await holders.enter()
        await place.fail()
        began = time.monotonic()
        await asyncio.gather(*(probe(manager, f"probe:{one}") for one, manager in enumerate(managers)))
        await holders.entered(2 * names if place.forgets else names)
        seconds, cpu = time.monotonic() - began, place.cpu()
        lost = holders.entries - names
        await holders.leave()
    return [place.fault, f"{processes:,} processes with {names:,} locks", number(seconds), number(cpu), f"{lost:,}"]


async def entered_again(place: Restarted | FailedOver, count: int) -> list[str]:
    """Processes that wait for one name while the server fails."""
    async with opened(place, count) as managers:
        crowd = Crowd(managers)
        await crowd.queue(place.raw)
        await place.fail()
        began = time.monotonic()
        await crowd.done()
        seconds, cpu = time.monotonic() - began, place.cpu()
    return [place.fault, f"{count:,} processes at one name", number(seconds), number(cpu), "–"]


async def probe(manager: LockManager, name: str) -> None:
    """Return once this process can lock again."""
    while True:
        with contextlib.suppress(LockLost, BackendError):
            async with manager.lock(name):
                return


async def failed_over(scene: Callable[[FailedOver], Awaitable[list[str]]]) -> list[str]:
    """A scene on a set of its own."""
    from tests.support.sentinels import start_sentinels

    with start_sentinels() as watched:
        return await scene(FailedOver(watched))


async def used(place: Restarted, processes: int, crowd: int, names: int) -> None:
    """Print what a quiet day uses: two tables."""
    await warm(place)
    second, held, _ = await holding(place, processes, processes)
    rows = [line(f"process of {processes:,}, with a lock", processes, second, held)]
    second, queued, first, later = await waiting(place, crowd)
    rows.append(line(f"process of {crowd:,} that wait for one name", crowd, second, queued))
    second, held, free = await holding(place, NAMED_BY, names)
    rows.append(line(f"lock of {names:,} that {NAMED_BY} processes hold", names, second, held))
    rows.append(line("the same, free", names, None, free))
    print(table(HEAD, rows))
    turns = [once("first, from its start on", crowd, first), once("later", crowd, later)]
    print("\n" + table(ONCE, turns) + "\n", flush=True)


async def again(place: Restarted, processes: int, crowd: int, names: int) -> None:
    """Print how long a restart and a failover last for them."""
    scenes: list[Callable[[Restarted | FailedOver], Awaitable[list[str]]]] = [
        lambda place: held_again(place, processes, processes),
        lambda place: entered_again(place, crowd),
        lambda place: held_again(place, NAMED_BY, names),
    ]
    rows = [await scene(place) for scene in scenes]
    print(table(FAULTS, rows + [await failed_over(scene) for scene in scenes]))


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sizing", description=__doc__)
    parser.add_argument("--processes", type=int, default=1_000, help="that hold a lock each")
    parser.add_argument("--crowd", type=int, default=1_000, help="processes that wait for one name")
    parser.add_argument("--names", type=int, default=20_000, help=f"that {NAMED_BY} processes hold")
    parser.add_argument("--faults", action="store_true", help="only the last table")
    asked = parser.parse_args()
    logging.disable(logging.ERROR)
    with RedisServer.start(owned=True) as server:
        for part in (again,) if asked.faults else (used, again):
            asyncio.run(part(Restarted(server), asked.processes, asked.crowd, asked.names))


if __name__ == "__main__":
    main()
