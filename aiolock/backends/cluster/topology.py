"""Finds out who serves which slot: once for all callers, however many of them were sent elsewhere."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable

from ...clock import format_seconds
from ...errors import AiolockError, BackendError, ConfigurationError
from ...log import Log
from ..redis import without_frames
from ..redis.seeds import Address, Seeds
from ..worker import Worker
from .router import Router
from .slots import SlotMap
from .source import Source

logger: Log = Log("aiolock.cluster")

HEAD_START = 0.3
"""Seconds that a node gets to answer before another is asked, too."""
SPREAD = 0.25
"""Seconds over which managers spread what one event makes all of them ask."""
PAUSE = 0.75
"""Seconds between two maps, at most, while nodes are unreachable; and nearly that at least, if all goes well."""
LOOK = (0.6, 0.75)
"""Seconds between two maps, least and most, while all is well and something is held or waited for: so a failover of
which nothing else tells, because the old master is silent or knows nothing of it, is noticed within a second.
"""


class Topology:
    """Asks one node of the cluster for the map, on a connection of its own that is closed when no one needs the next.

    Args:
        seeds: how to connect, and whom to ask first.
        timeout: seconds for one answer.

    Attributes:
        failure: why the last attempt failed; None if it did not.
    """

    def __init__(self, seeds: Seeds, timeout: float) -> None:
        self.failure: AiolockError | None = None
        self._seeds = seeds
        self._timeout = timeout
        self._nodes: frozenset[Address] = frozenset()
        self._ids: frozenset[str] = frozenset()  # of the cluster's nodes
        self._strangers: frozenset[Address] = frozenset()  # that answered for another cluster when it was last asked
        self._worker: Worker[None] | None = None
        self._told: Router | None = None
        self._asked = False  # for a newer map than that which is on its way
        self._doubt: asyncio.Future[None] | None = None  # while it waits for the next look
        self._last = float("-inf")
        self._source: Source | None = None  # that gave the last map

    async def find(self, timeout: float) -> tuple[SlotMap, Address]:
        """Return the first map, and who gave it.

        Raises:
            BackendError: no node answers, or none serves any slot.
            ConfigurationError: a server is not part of a cluster, or does not suit.
        """
        self._ids = frozenset()
        try:
            async with asyncio.timeout(timeout):
                known, answered = await self._ask(_equally)
        except TimeoutError as error:
            nodes = ", ".join(map(str, self._seeds.addresses))
            raise BackendError(
                "", f"none of {nodes} answered within {format_seconds(timeout)} s: are these nodes of the cluster?",
                transient=True,
            ) from error  # fmt: skip
        finally:
            await self._leave()
        if not any(known.owners):
            raise BackendError("", f"the cluster that {answered} is part of serves no slot", transient=True)
        self.failure = None
        return known, answered

    def begin(self, told: Router) -> None:
        """Tell `told` of each new map from now on."""
        self._told = told

    def refresh(self) -> None:
        """Ask for a new map soon; and again, as long as `Router.unsettled`."""
        self._asked = True
        if self._doubt is not None and not self._doubt.done():
            self._doubt.set_result(None)
        self.watch()

    def watch(self) -> None:
        """Ask now and then, as long as `Router.in_use`."""
        if self._worker is None and self._told is not None:
            self._worker = Worker(self._work, self._done, "aiolock cluster map")

    def forget(self) -> None:
        """Its loop was closed: nothing of it runs any more."""
        self._told = self._worker = self._doubt = None
        source, self._source = self._source, None
        if source is not None:
            source.sever()

    def stop(self) -> Worker[None] | None:
        """Ask no more.

        Returns:
            What has to end first, if it was asking.
        """
        self._told = None
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.stop()
        return worker

    async def _work(self) -> None:
        loop, learned = asyncio.get_running_loop(), None
        try:
            while (told := await self._due()) is not None:
                asked, self._asked = self._asked, False
                try:
                    known, answered = await self._ask(told.rank)
                except AiolockError as error:
                    if self.failure is None:
                        logger.warning("no node of the cluster says who serves which slot: %s", error)
                    self.failure = without_frames(error)
                else:
                    self.failure = None
                    if asked or known.owners is not learned:
                        logger.debug("%s says who serves which slot", answered)
                        told.learn(known)
                    learned = known.owners
                if asked:
                    self._last = loop.time()
                if self.failure is not None or (asked and told.unsettled):
                    self._asked = True
        finally:
            await self._leave()

    async def _due(self) -> Router | None:
        """Wait until it is time to ask; None if no one needs a map."""
        loop, idle = asyncio.get_running_loop(), False
        while (told := self._told) is not None:
            if self._asked:
                wait = random.uniform(0.0, SPREAD)
                if loop.time() - self._last < PAUSE:
                    wait = random.uniform(PAUSE / 3, PAUSE)
                await asyncio.sleep(wait)
                return self._told
            self._doubt = loop.create_future()
            await asyncio.wait((self._doubt,), timeout=random.uniform(*LOOK))
            if self._doubt.done():
                continue
            if told.in_use:
                return told
            if idle:  # twice: what was answered just now is in use in a moment
                return None
            idle = True
        return None

    def _done(self, _: None) -> None:
        self._worker = self._doubt = None
        if self._asked:
            self.refresh()

    async def _leave(self) -> None:
        source, self._source = self._source, None
        if source is not None:
            await source.close()

    async def _ask(self, rank: Callable[[Address], int]) -> tuple[SlotMap, Address]:
        kept = self._source
        addresses = list({*self._nodes, *self._seeds.addresses})
        random.shuffle(addresses)
        addresses.sort(key=lambda address: (rank(address), kept is None or kept.address != address))
        failures: dict[Address, AiolockError] = {}
        asking: dict[asyncio.Task[SlotMap], Source] = {}
        asked = [] if kept is None else [kept]
        best: tuple[SlotMap, Source] | None = None
        strange: dict[Address, tuple[SlotMap, Source]] = {}
        try:
            while addresses or asking:
                if addresses:
                    address = addresses.pop(0)
                    source = kept
                    if source is None or source.address != address:
                        source = Source(address, self._seeds, self._timeout)
                        asked.append(source)
                    asking[asyncio.create_task(source.find_map())] = source
                head_start = HEAD_START if addresses else None
                done, _ = await asyncio.wait(asking, timeout=head_start, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    source = asking.pop(task)
                    try:
                        known = task.result()
                    except AiolockError as error:
                        failures[source.address] = error
                        continue
                    if self._ids and known.ids.isdisjoint(self._ids):
                        strange[source.address] = known, source
                    elif best is None or known.reliable:
                        best = known, source
                if best is not None and best[0].reliable:
                    break
            self._complain(strange)
            given = [address for address in self._seeds.addresses if address in strange]
            if best is None and 2 * len(given) > len(self._seeds.addresses):
                best = strange[given[0]]  # it was set up again
        finally:
            self._source = None if best is None else best[1]
            for task in asking:
                task.cancel()
            try:
                if asking:
                    await asyncio.wait(asking)
            finally:
                for source in asked:
                    if source is not self._source:
                        source.drop()
        if best is None:
            for address in strange:
                failures[address] = BackendError("", "it is part of another cluster", transient=True)
            raise _failure(failures)
        known, source = best
        self._nodes, self._ids = known.nodes, known.ids
        return known, source.address

    def _complain(self, strange: Iterable[Address]) -> None:
        for address in set(strange) - self._strangers:
            logger.warning("%s answers for another cluster: it is ignored; leave it out of the URLs", address)
        self._strangers = frozenset(strange)


def _equally(address: Address) -> int:
    return 0


def _failure(failures: dict[Address, AiolockError]) -> AiolockError:
    for error in failures.values():
        if isinstance(error, ConfigurationError):
            return error
    each = "; ".join(f"{address}: {error}" for address, error in sorted(failures.items()))
    transient = any(isinstance(error, BackendError) and error.transient for error in failures.values())
    failure = BackendError("", f"no node of the cluster answers: {each}", transient=transient)
    failure.__cause__ = next(iter(failures.values()), None)
    return failure
