"""A store with queues of its own, in memory: what etcd is to the backend, without its wire."""

from __future__ import annotations

import asyncio
import math
from collections import defaultdict
from collections.abc import Callable, Sequence

from aiolock.backends.coordinator.store import Away, Lost, Moved, OwnPlace, Place, Refusal, Store, View
from aiolock.clock import Clock, SystemClock
from aiolock.errors import BackendError


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
        self.last: dict[str, tuple[int, bool]] = {}  # by path: a fence, and whether its holder has not left yet
        self.stores: set[QueueStore] = set()
        self._timer: asyncio.TimerHandle | None = None

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

    def keep(self, key: str, ttl: float) -> None:
        """It lasts for so many seconds from now on."""
        self.until[key] = self.clock.now() + ttl
        if self._timer is None:
            self._schedule()

    def _schedule(self) -> None:
        due = min(self.until.values(), default=None)
        self._timer = None
        if due is not None:
            pause = max(0.0, due - self.clock.now()) + 0.001
            self._timer = asyncio.get_running_loop().call_later(pause, self._on_time)

    def _on_time(self) -> None:
        self.expire()
        self._schedule()


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

    async def enter(self, own: OwnPlace, waits: bool) -> View:
        queues, key = self.queues, f"{own.path}/{own.owner}"
        lost = await self._trip("enter")
        if own.ttl_ms / 1000 > queues.longest:
            raise Refusal(f"the test keeps a place for {queues.longest} s, not for {own.ttl_ms / 1000} s: ask for less")
        places = queues.places[own.path]
        found = key in places
        if not found and not (places and not waits and own.weight >= own.capacity):
            queues.revision += 1
            places[key] = Place(key, own.owner, queues.revision, own.weight, own.capacity, 1, own.note)
            queues.keep(key, own.ttl_ms / 1000)
        noted = self._note(own, places[key].order) if next(iter(places)) == key else None
        if lost:
            own.tainted = True
        await self._return(lost)
        if key in places:
            own.key, own.order, own.lasts = key, places[key].order, queues.until[key]
            self._claimed(own, noted)
        return View(list(places.values()), queues.revision)

    def _note(self, own: OwnPlace, order: int) -> tuple[int, bool]:
        """A place is in: note that; return what was noted before."""
        last = self.queues.last.get(own.path, (order, False))
        if own.whole:
            self.queues.last[own.path] = order, True
        elif own.shared:
            self.queues.last[own.path] = last
        return (order, False) if last == (order, True) else last

    def _claimed(self, own: OwnPlace, noted: tuple[int, bool] | None) -> None:
        if noted is not None and not own.claimed:
            own.claimed, own.fence = True, own.order
            own.abandoned = noted[1] and (own.whole or own.shared)
            if own.shared and not own.whole:
                own.fence = noted[0]

    async def look(self, path: str) -> View:
        lost = await self._trip("look")
        view = View(
            list(self.queues.places[path].values()), self.queues.revision, self.queues.last.get(path, (0, 0))[0]
        )
        await self._return(lost)
        return view

    async def claim(self, own: OwnPlace) -> bool:
        lost = await self._trip("claim")
        there = own.key in self.queues.places[own.path]
        noted = self._note(own, own.order) if there and not own.claimed else None
        if there:
            self.queues.keep(own.key, own.ttl_ms / 1000)
        await self._return(lost)
        if there:
            own.lasts = self.queues.until.get(own.key, 0.0)
            self._claimed(own, noted)
        return there

    async def leave(self, own: OwnPlace, clean: bool) -> bool:
        lost = await self._trip("leave")
        key = f"{own.path}/{own.owner}"
        place = self.queues.places[own.path].get(key)
        if place and (own.noted or self.queues.last.get(own.path) == (place.order, True)):
            self.queues.last[own.path] = place.order, not clean
        there = self.queues.drop(own.path, key)
        await self._return(lost)
        return there

    async def keep(self, owns: Sequence[OwnPlace]) -> Sequence[bool]:
        lost = await self._trip("keep")
        there = [own.key in self.queues.places[own.path] for own in owns]
        for own, kept in zip(owns, there, strict=True):
            if kept:
                self.queues.keep(own.key, own.ttl_ms / 1000)
                own.lasts = self.queues.until[own.key]
        await self._return(lost)
        return there

    async def rewrite(self, own: OwnPlace) -> bool:
        lost = await self._trip("rewrite")
        places = self.queues.places[own.path]
        there = own.key in places
        if there:
            places[own.key] = places[own.key]._replace(weight=own.weight, depth=own.depth)
            if own.lessened:
                self.queues.last[own.path] = own.order, False
            self.queues.changed(own.path, own.key, gone=False)
        await self._return(lost)
        return there

    async def remove(self, path: str, places: Sequence[Place]) -> int:
        lost = await self._trip("remove")
        count = sum([self.queues.drop(path, place.key) for place in places])
        await self._return(lost)
        return count

    async def remaining(self, place: Place) -> float:
        lost = await self._trip("remaining")
        left = self.queues.until.get(place.key, 0.0) - self.clock.now()
        await self._return(lost)
        return max(0.0, left)

    def listen(self, mailbox: str, hear: Callable[[str], None]) -> None:
        self._mailboxes[mailbox] = hear

    async def send(self, mailbox: str, text: str) -> None:
        lost = await self._trip("send")
        for store in self.queues.stores:
            if (hear := store._mailboxes.get(mailbox)) is not None and store._up.is_set():
                asyncio.get_running_loop().call_soon(hear, text)
        await self._return(lost)

    def watch(self, own: OwnPlace, keys: Sequence[str], seen: int) -> None:
        if not keys:
            self._watched.pop(own, None)
            return
        self._watched[own] = dict.fromkeys(keys, seen)
        for key in keys:
            if key not in self.queues.until:
                asyncio.get_running_loop().call_soon(self._tell, own, key, True)
            elif seen < self.queues.revision:
                asyncio.get_running_loop().call_soon(self._tell, own, key, False)

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
