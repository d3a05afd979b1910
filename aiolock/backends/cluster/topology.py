"""Finds out who serves which slot: once for all callers, however many of them were sent elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Collection
from typing import Protocol

from ...clock import format_seconds
from ...errors import AiolockError, BackendError, ConfigurationError
from ...log import Log
from ..redis import Address, ErrorReply, Link, Seeds, refused, unconnected, without_frames
from ..worker import Worker
from .slots import SlotMap, read_map

logger: Log = Log("aiolock.cluster")

HEAD_START = 0.3
"""Seconds that a node gets to answer before another is asked, too."""
SPREAD = 0.25
"""Seconds over which managers spread what one event makes all of them ask."""
PAUSE = 0.75
"""Seconds between two maps, at most, while nodes are away; and nearly that at least, if all goes well."""


class Wants(Protocol):
    """What the map is for."""

    @property
    def unsettled(self) -> bool: ...

    @property
    def doubtful(self) -> Collection[Address]: ...

    def learn(self, known: SlotMap) -> None: ...


class Topology:
    """Asks one node of the cluster for the map, on a connection of its own that is closed at once.

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
        self._worker: Worker[None] | None = None
        self._told: Wants | None = None
        self._asked = False  # for a newer map than that which is on its way
        self._last = float("-inf")

    async def find(self, timeout: float) -> tuple[SlotMap, Address]:
        """Return the first map, and who gave it.

        Raises:
            BackendError: no node answers, or none serves any slot.
            ConfigurationError: a server is not part of a cluster, or does not suit.
        """
        try:
            async with asyncio.timeout(timeout):
                known, answered = await self._ask(())
        except TimeoutError as error:
            nodes = ", ".join(map(str, self._seeds.addresses))
            raise BackendError(
                "", f"none of {nodes} answered within {format_seconds(timeout)} s: are these nodes of the cluster?",
                transient=True,
            ) from error  # fmt: skip
        if not any(known.owners):
            raise BackendError("", f"the cluster that {answered} is part of serves no slot", transient=True)
        self.failure = None
        return known, answered

    def begin(self, told: Wants) -> None:
        """Tell `told` of each new map from now on."""
        self._told = told

    def refresh(self) -> None:
        """Ask for a new map soon; and again, as long as `Wants.unsettled`."""
        self._asked = True
        if self._worker is None and self._told is not None:
            self._worker = Worker(self._work, self._done, "aiolock cluster map")

    def forget(self) -> None:
        """Its loop was closed: nothing of it runs any more."""
        self._told = self._worker = None

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
        loop = asyncio.get_running_loop()
        wait = random.uniform(0.0, SPREAD)
        if loop.time() - self._last < PAUSE:
            wait = random.uniform(PAUSE / 3, PAUSE)
        while (told := self._told) is not None:
            await asyncio.sleep(wait)
            self._asked = False
            try:
                known, answered = await self._ask(told.doubtful)
            except AiolockError as error:
                if self.failure is None:
                    logger.warning("no node of the cluster says who serves which slot: %s", error)
                self.failure = without_frames(error)
            else:
                self.failure = None
                logger.debug("%s says who serves which slot", answered)
                told.learn(known)
            self._last = loop.time()
            if not self._asked and not told.unsettled and self.failure is None:
                return
            wait = random.uniform(PAUSE / 3, PAUSE)

    def _done(self, _: None) -> None:
        self._worker = None
        if self._asked:
            self.refresh()

    async def _ask(self, doubtful: Collection[Address]) -> tuple[SlotMap, Address]:
        addresses = list({*self._nodes, *self._seeds.addresses})
        random.shuffle(addresses)
        addresses.sort(key=lambda address: address in doubtful)
        failures: dict[Address, AiolockError] = {}
        asking: dict[asyncio.Task[SlotMap], Address] = {}
        try:
            while addresses or asking:
                if addresses:
                    address = addresses.pop(0)
                    asking[asyncio.create_task(self._ask_one(address))] = address
                head_start = HEAD_START if addresses else None
                done, _ = await asyncio.wait(asking, timeout=head_start, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    address = asking.pop(task)
                    try:
                        known = task.result()
                    except AiolockError as error:
                        failures[address] = error
                    else:
                        self._nodes = known.nodes
                        return known, address
        finally:
            for task in asking:
                task.cancel()
            if asking:
                await asyncio.wait(asking)
        raise _failure(failures)

    async def _ask_one(self, address: Address) -> SlotMap:
        link: Link | None = None
        try:
            async with asyncio.timeout(self._timeout):
                link = await self._seeds.connector(address, False).connect()
                [reply] = await link.ask([(b"CLUSTER", b"SLOTS")])
        except Exception as error:
            failure = unconnected(error)
            raise failure from failure.__cause__
        finally:
            if link is not None:
                link.close()
                with contextlib.suppress(OSError):
                    await link.closed()
        if isinstance(reply, ErrorReply):
            if "cluster support disabled" in str(reply):
                raise ConfigurationError("", f"the server {address} is not part of a cluster: use LockManager(url)")
            raise refused("", "CLUSTER SLOTS", reply)
        try:
            return read_map(reply, address, self._seeds.remap)
        except ValueError as error:
            raise BackendError("", f"{address} answered CLUSTER SLOTS with something unexpected ({error})") from error


def _failure(failures: dict[Address, AiolockError]) -> AiolockError:
    for error in failures.values():
        if isinstance(error, ConfigurationError):
            return error
    each = "; ".join(f"{address}: {error}" for address, error in sorted(failures.items()))
    transient = any(isinstance(error, BackendError) and error.transient for error in failures.values())
    failure = BackendError("", f"no node of the cluster answers: {each}", transient=transient)
    failure.__cause__ = next(iter(failures.values()), None)
    return failure
