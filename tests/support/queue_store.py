"""A store with queues of its own, in memory: what etcd is to the backend, without its wire."""

from __future__ import annotations

import asyncio
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol, cast

from aiolock.backends.coordinator.store import Away, Last, Lost, Moved, OwnPlace, Place, Refusal, Store, View
from aiolock.clock import Clock, SystemClock
from aiolock.errors import BackendError


class Watching(Protocol):
    """One that watches places."""

    def told(self, key: str, gone: bool) -> None:
        """Something happened to one."""


class Queues:
    """What all stores see: places, in order, until their time is over.

    Args:
        clock: the server's.
        longest: seconds that a place is kept at most.

    Attributes:
        trips: how many requests were answered.
    """

    def __init__(self, clock: Clock | None = None, longest: float = math.inf) -> None:
        self.clock: Clock = clock or SystemClock()
        self.longest = longest
        self.revision = 1
        self.trips = 0
        self.places: defaultdict[str, dict[str, Place]] = defaultdict(dict)
        self.until: dict[str, float] = {}
        self.last: dict[str, Last] = {}  # by path
        self.stores: set[Watching] = set()
        self._timer: object = None

    def queue(self, path: str) -> list[Place]:
        """The places of a name, first to last."""
        self.expire()
        return list(self.places[path].values())

    def forget(self) -> None:
        """All data are lost, but not the count."""
        for path, places in list(self.places.items()):
            for key in list(places):
                self.drop(path, key)
        self.last.clear()

    def expire(self) -> None:
        """End what was not kept."""
        now = self.clock.now()
        for path, places in list(self.places.items()):
            for key in [key for key in places if self.until[key] <= now]:
                self.drop(path, key)

    def drop(self, path: str, key: str) -> bool:
        """End a place, whoever has it."""
        there = self.places[path].pop(key, None) is not None
        if there:
            del self.until[key]
            self.changed(path, key, gone=True)
        return there

    def changed(self, path: str, key: str, gone: bool) -> None:
        """Tell who watches it."""
        self.revision += 1
        for store in list(self.stores):
            store.told(key, gone)

    def prolong(self, key: str, ttl_ms: int) -> float:
        """It lasts for so long from now on; return until when."""
        until = self.until[key] = self.clock.now() + ttl_ms / 1000
        if self._timer is None:
            self._schedule()
        return until

    def _schedule(self) -> None:
        due = min(self.until.values(), default=None)
        self._timer = None
        if due is not None:
            pause = max(0.0, due - self.clock.now()) + 0.001
            self._timer = self.later(pause, self._on_time)

    def _on_time(self) -> None:
        self.expire()
        self._schedule()

    @staticmethod
    def later(seconds: float, act: Callable[[], None]) -> object:
        """Do something then."""
        return asyncio.get_running_loop().call_later(seconds, act)

    # What stores ask for: see `Store`. Each changes the place that it is given as the answer does.

    def enter(self, own: OwnPlace, waits: bool) -> View:
        key, places = f"{own.path}/{own.owner}", self.places[own.path]
        if own.ttl_ms / 1000 > self.longest:
            raise Refusal(f"the test keeps a place for {self.longest} s, not for {own.ttl_ms / 1000} s: ask for less")
        if key not in places and not (places and not waits and own.weight >= own.capacity):
            self.revision += 1
            places[key] = Place(key, own.owner, self.revision, own.weight, own.capacity, 1, own.note)
        if key in places:
            own.key, own.order, own.lasts = key, places[key].order, self.prolong(key, own.ttl_ms)
            if next(iter(places)) == key:
                self._claim(own)
        return View(list(places.values()), self.revision)

    def look(self, path: str) -> View:
        return View(list(self.places[path].values()), self.revision, self.last.get(path, Last()).fence)

    def claim(self, own: OwnPlace) -> bool:
        if own.key not in self.places[own.path]:
            return False
        own.lasts = self.prolong(own.key, own.ttl_ms)
        self._claim(own)
        return True

    def _claim(self, own: OwnPlace) -> None:
        if own.claimed:
            return
        last = self.last.get(own.path)
        if last is None:
            last = Last(own.order)
        own.claim(last)
        if own.whole:
            self.last[own.path] = Last(own.order, held=True, took=own.abandoned)
        elif own.shared:
            self.last[own.path] = last

    def leave(self, own: OwnPlace, clean: bool) -> bool:
        key = f"{own.path}/{own.owner}"
        place, last = self.places[own.path].get(key), self.last.get(own.path, Last())
        if place is not None and (own.noted or (last.fence == place.order and last.held)):
            self.last[own.path] = Last(place.order, held=not clean)
        return self.drop(own.path, key)

    def keep(self, own: OwnPlace) -> bool:
        there = own.key in self.places[own.path]
        if there:
            own.lasts = self.prolong(own.key, own.ttl_ms)
        return there

    def rewrite(self, own: OwnPlace) -> bool:
        places = self.places[own.path]
        there = own.key in places
        if there:
            places[own.key] = places[own.key]._replace(weight=own.weight, depth=own.depth)
            if own.lessened:
                self.last[own.path] = Last(own.order)
            self.changed(own.path, own.key, gone=False)
        return there

    def remove(self, path: str, places: Sequence[Place]) -> int:
        return sum([self.drop(path, place.key) for place in places])

    def remaining(self, place: Place) -> float:
        return max(0.0, self.until.get(place.key, 0.0) - self.clock.now())

    def news(self, key: str, seen: int) -> bool | None:
        """What has become of a place since then: whether it is gone, or None if nothing has happened."""
        if key not in self.until:
            return True
        return False if seen < self.revision else None


class QueueStore(Store):
    """One process's link to them.

    Args:
        queues: the server.

    Attributes:
        cut: requests get no answer any more; 2: not even those that were done.
        fate: called at each request, with its name; what it raises is its answer; if it returns True, the request is
            done, and its answer is lost.
    """

    name = "a test"
    behind = "Mend the test"
    address = "the queues of a test"

    def __init__(self, queues: Queues) -> None:
        self.queues = queues
        self.clock: Clock = queues.clock
        self.fate: Callable[[str], bool] = lambda _: False
        self._up = asyncio.Event()
        self._watched: dict[OwnPlace, dict[str, int]] = {}
        self._mailboxes: dict[str, Callable[[str], None]] = {}

    async def open(self, moved: Moved, lost: Lost, back: Callable[[], None]) -> None:
        self._moved, self._lost, self._back = moved, lost, back
        self.queues.stores.add(self)
        self._up = asyncio.Event()
        self._up.set()
        await asyncio.sleep(0)

    def cut(self) -> None:
        """The connection is lost."""
        self._up.clear()
        self._watched.clear()
        self._lost(BackendError("", "the test has cut the connection", transient=True), True)

    def mend(self) -> None:
        """It is back."""
        self._up.set()
        self._back()

    async def ready(self) -> None:
        await self._up.wait()

    async def _trip(self, what: str) -> bool:
        """Whether the answer will be lost."""
        await asyncio.sleep(0)
        lost = self.fate(what)
        if not self._up.is_set():
            raise Away(BackendError("", "the test has cut the connection", transient=True), ran=False)
        self.queues.trips += 1
        self.queues.expire()
        return lost

    async def _return(self, lost: bool) -> None:
        await asyncio.sleep(0)
        if lost:
            raise Away(BackendError("", "the test has lost the answer", transient=True))

    async def _ask(self, what: str, own: OwnPlace, *more: Any) -> Any:
        """Have it done; if the answer arrives, the place is as that says."""
        lost, there = await self._trip(what), replace(own)
        answer = getattr(self.queues, what)(there, *more)
        own.tainted = own.tainted or lost
        await self._return(lost)
        adopt(own, there)
        return answer

    async def enter(self, own: OwnPlace, waits: bool) -> View:
        return cast(View, await self._ask("enter", own, waits))

    async def claim(self, own: OwnPlace) -> bool:
        return bool(await self._ask("claim", own))

    async def leave(self, own: OwnPlace, clean: bool) -> bool:
        return bool(await self._ask("leave", own, clean))

    async def rewrite(self, own: OwnPlace) -> bool:
        return bool(await self._ask("rewrite", own))

    async def look(self, path: str, notes: bool = False) -> View:
        lost = await self._trip("look")
        view = self.queues.look(path)
        await self._return(lost)
        return view

    async def keep(self, owns: Sequence[OwnPlace]) -> Sequence[bool]:
        lost = await self._trip("keep")
        there = [self.queues.keep(own) for own in owns]
        await self._return(lost)
        return there

    async def remove(self, path: str, places: Sequence[Place]) -> int:
        lost = await self._trip("remove")
        count = self.queues.remove(path, places)
        await self._return(lost)
        return count

    async def remaining(self, place: Place) -> float:
        lost = await self._trip("remaining")
        left = self.queues.remaining(place)
        await self._return(lost)
        return left

    def listen(self, mailbox: str, hear: Callable[[str], None]) -> None:
        self._mailboxes[mailbox] = hear

    async def send(self, mailbox: str, text: str) -> None:
        lost = await self._trip("send")
        for store in self.queues.stores:
            assert isinstance(store, QueueStore)
            if (hear := store._mailboxes.get(mailbox)) is not None and store._up.is_set():
                asyncio.get_running_loop().call_soon(hear, text)
        await self._return(lost)

    def watch(self, own: OwnPlace, keys: Sequence[str], seen: int) -> None:
        if not keys:
            self._watched.pop(own, None)
            return
        self._watched[own] = dict.fromkeys(keys, seen)
        for key in keys:
            if (gone := self.queues.news(key, seen)) is not None:
                asyncio.get_running_loop().call_soon(self._tell, own, key, gone)

    def told(self, key: str, gone: bool) -> None:
        """Something happened to it."""
        for own, keys in list(self._watched.items()):
            if key in keys:
                asyncio.get_running_loop().call_soon(self._tell, own, key, gone)

    def _tell(self, own: OwnPlace, key: str, gone: bool) -> None:
        if key in self._watched.get(own, {}):
            self._moved(own, key, gone)

    def most_ms(self, own: OwnPlace) -> float:
        return self.queues.longest * 1000

    def expiry(self, own: OwnPlace) -> float:
        return float(own.lasts or 0.0)

    async def aclose(self) -> None:
        self.queues.stores.discard(self)
        self._watched.clear()
        self._mailboxes.clear()
        self._up.clear()


def adopt(own: OwnPlace, answered: OwnPlace) -> None:
    """A place is as the answer about it says."""
    own.key, own.order, own.lasts = answered.key, answered.order, answered.lasts
    own.claimed, own.fence, own.abandoned = answered.claimed, answered.fence, answered.abandoned
