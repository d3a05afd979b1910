"""Queues in etcd: below a name's path each place has a key of its own, under a lease; its create-revision is its order.

So Go's `concurrency.Mutex` and `etcdctl lock` with the name's path as prefix are in the same queue. `<path>#last` says
who had all of the name last: "held" while it has it, or "took" if the one before it had vanished; so it finds that
again if the answer is lost. A lock that was released leaves nothing there.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence

from ...clock import Clock, SystemClock
from ..coordinator.store import Last, Lost, Moved, OwnPlace, Place, Store, View
from ..coordinator.turns import Turns
from ..coordinator.values import value_of
from .cluster import EtcdCluster
from .leases import EtcdLease, Leases, whole_seconds
from .messages import (
    TXN,
    Answer,
    above,
    delete,
    empty,
    get,
    made_by,
    nested,
    page,
    place_of,
    put,
    txn,
)
from .wire import Message

PARTS = 60
"""Of one transaction: etcd takes 128 operations, and some parts have two."""
LETTERS_MS = 60_000
"""For how long a message stays at most, if nobody removes it."""


class EtcdStore(Store):
    """One cluster.

    Args:
        cluster: the connection to it.
        clock: of the deadlines.
    """

    name = "etcd"
    behind = "Raise its revision (etcdutl snapshot restore --bump-revision)"

    def __init__(self, cluster: EtcdCluster, clock: Clock | None = None) -> None:
        self.address: str = cluster.address
        self.clock: Clock = clock or SystemClock()
        self._cluster = cluster

    async def open(self, moved: Moved, lost: Lost, back: Callable[[], None]) -> None:
        self._moved = moved
        self._leases = Leases(self._cluster.link, self.clock)
        self._turns = Turns()
        self._kept: dict[OwnPlace, int] = {}
        await self._cluster.open(lost, back)

    async def ready(self) -> None:
        await self._cluster.link()

    async def aclose(self) -> None:
        if self._cluster.connected:
            try:
                async with asyncio.timeout(1.0):
                    await self._leases.aclose()
            except TimeoutError:
                pass  # they end by themselves
        await self._cluster.aclose()

    async def _txn(self, compares: Sequence[bytes], then: Sequence[bytes], otherwise: Sequence[bytes] = ()) -> Answer:
        link = await self._cluster.link()
        return Answer(await link.ask(TXN, txn(compares, then, otherwise)))

    # Places.

    async def enter(self, own: OwnPlace, waits: bool) -> View:
        # etcd keeps no order among the requests of a connection: this process's places are taken one after the other.
        async with self._turns.of(own.path):
            return await self._enter(own, waits)

    async def _enter(self, own: OwnPlace, waits: bool) -> View:
        if own.lasts is None or not await self._leases.freshen(own.lasts):
            own.lasts = await self._leases.take(own.ttl_ms)
        lease: EtcdLease = own.lasts
        self._hurry(own)
        first, end, last = _keys(own.path)
        key = f"{own.path}/{own.owner}".encode()
        written = put(key, value_of(own), lease.id)
        join = nested([made_by(key, 0)], [written])
        own.tainted, tainted = True, own.tainted
        done = await self._txn(
            [empty(first, end)],
            [get(last), written, *_note(own, last)],
            [*([join] if waits or own.weight < own.capacity else []), get(first, end), get(last)],
        )
        own.tainted = tainted
        if done.succeeded:
            own.key, own.order = key.decode(), done.revision
            own.claim(_last(done.pairs(0)))
            only = Place(own.key, own.owner, own.order, own.weight, own.capacity, 1, own.note)
            return View([only], done.revision)
        places = [place_of(pair) for pair in done.pairs(-2)]
        mine = next((place for place in places if place.key == key.decode()), None)
        if mine is None:
            self._spare(own)
        else:
            own.key, own.order = mine.key, mine.order
        return View(places, done.revision, *_last(done.pairs(-1))[:2])

    async def look(self, path: str, notes: bool = False) -> View:
        first, end, last = _keys(path)
        done = await self._txn([], [get(first, end), get(last)])
        return View([place_of(pair) for pair in done.pairs(0)], done.revision, *_last(done.pairs(1))[:2])

    async def paths(self, root: str, after: str, most: int) -> tuple[list[str], str]:
        first = f"{root}/" if after == root else after
        done = await self._txn([], [page(first.encode(), f"{root}0".encode(), most)])
        keys = [pair.data(1).decode(errors="replace") for pair in done.pairs(0)]
        more = f"{keys[-1]}\0" if len(keys) == most else ""
        return [key.removesuffix("#last") if key.endswith("#last") else key.rpartition("/")[0] for key in keys], more

    async def claim(self, own: OwnPlace) -> bool:
        key, last = own.key.encode(), _keys(own.path)[2]
        note = _note(own, last)
        if own.tainted:  # it may have noted that before
            known = _last((await self._txn([], [get(last)])).pairs(0))
            note = [] if known.fence == own.order else note
        own.tainted, tainted = True, own.tainted
        asked = self._txn([made_by(key, own.order)], [get(last), *note])
        done, kept = await asyncio.gather(asked, self._leases.freshen(own.lasts))
        own.tainted = tainted
        if done.succeeded and kept:
            own.claim(_last(done.pairs(0)))
        return done.succeeded and kept

    async def leave(self, own: OwnPlace, clean: bool) -> bool:
        key, last = f"{own.path}/{own.owner}".encode(), _keys(own.path)[2]
        if not own.order and own.tainted:  # it may be there, and in
            places = (await self.look(own.path)).places
            at = next((at for at, place in enumerate(places) if place.key == key.decode()), None)
            if at is not None:
                own.order, own.claimed = places[at].order, at == 0
        there = False
        if own.order:
            noted = _ended(own, last, clean) if own.noted else []
            there = (await self._txn([made_by(key, own.order)], [delete(key), *noted])).succeeded
        if own.tainted and own.lasts is not None:  # a late copy of its request must find no lease
            await self._leases.end(own.lasts)
            own.lasts = None
        self._spare(own)
        return there

    def _spare(self, own: OwnPlace) -> None:
        lease, own.lasts = own.lasts, None
        self._kept.pop(own, None)
        self._set_patience()
        if lease is not None:
            self._leases.give_back(lease)

    async def keep(self, owns: Sequence[OwnPlace]) -> Sequence[bool]:
        for own in owns:
            lease: EtcdLease | None = own.lasts
            if lease is not None and lease.asked < whole_seconds(own.ttl_ms):
                await self._move(own)
        held = [own for own in owns if own.lasts is not None]
        leases: list[EtcdLease] = [own.lasts for own in held]
        began = self.clock.now()
        ttls = await self._leases.renew(leases)
        there: set[OwnPlace] = set()
        for at in range(0, len(held), PARTS):
            part = held[at : at + PARTS]
            done = await self._txn([], [get(own.key.encode(), keys_only=True) for own in part])
            there |= {own for at, own in enumerate(part) if [p.number(2) for p in done.pairs(at)] == [own.order]}
        kept = set()
        for own, lease, ttl in zip(held, leases, ttls, strict=True):
            if ttl and own in there:  # only now: the cluster stands behind it
                lease.extend(ttl, began)
                kept.add(own)
        return [own in kept for own in owns]

    async def _move(self, own: OwnPlace) -> None:
        """Put a place under a lease that lasts for longer."""
        lease, old = await self._leases.take(own.ttl_ms), own.lasts
        key = own.key.encode()
        done = await self._txn([made_by(key, own.order)], [put(key, value_of(own), lease.id)])
        if done.succeeded and own.lasts is old:
            own.lasts = lease
            self._hurry(own)
            self._leases.give_back(old)
        else:
            self._leases.give_back(lease)

    async def rewrite(self, own: OwnPlace) -> bool:
        if own.lasts is None:
            return False
        key, last = own.key.encode(), _keys(own.path)[2]
        ended = [put(last, b"clean %d" % own.order)] if own.lessened else []
        return (await self._txn([made_by(key, own.order)], [put(key, value_of(own), own.lasts.id), *ended])).succeeded

    async def remove(self, path: str, places: Sequence[Place]) -> int:
        count = 0
        for at in range(0, len(places), PARTS):
            part = places[at : at + PARTS]
            parts = [nested([made_by(one.key.encode(), one.order)], [delete(one.key.encode())]) for one in part]
            done = await self._txn([], parts)
            count += sum(done.nested(at).succeeded for at in range(len(part)))
        return count

    async def remaining(self, place: Place) -> float:
        return await self._leases.remaining(place.lasts)

    def most_ms(self, own: OwnPlace) -> float:
        return math.inf  # it can be moved to another lease

    def expiry(self, own: OwnPlace) -> float:
        lease: EtcdLease | None = own.lasts
        return 0.0 if lease is None else lease.expires

    def _hurry(self, own: OwnPlace) -> None:
        self._kept[own] = own.lasts.ttl
        self._set_patience()

    def _set_patience(self) -> None:
        """A member that is silent is left early enough for another to renew what is kept for the shortest time."""
        self._cluster.patience = min(self._kept.values(), default=30) / 6

    # Messages, and watches.

    def listen(self, mailbox: str, hear: Callable[[str], None]) -> None:
        self._cluster.always(mailbox, lambda gone, text: hear(text.decode()) if text else None)

    async def send(self, mailbox: str, text: str) -> None:
        lease = await self._leases.take(LETTERS_MS)
        await self._txn([], [put(mailbox.encode(), text.encode(), lease.id)])
        self._leases.give_back(lease)

    def watch(self, own: OwnPlace, keys: Sequence[str], seen: int) -> None:
        watches = self._cluster.watches
        for key in [key for key, (of, number) in own.watched.items() if key not in keys or of is not watches]:
            of, number = own.watched.pop(key)
            of.drop(number)
        for key in keys:
            if key not in own.watched and watches is not None:  # else it looks again once there is a connection

                def told(gone: bool | None, _: bytes, key: str = key) -> None:
                    if gone or gone is None:
                        self.watch(own, [other for other in own.watched if other != key], seen)
                    self._moved(own, key, bool(gone))

                number = watches.add(key, seen + 1, told, deletes_only=own.capacity == 1)
                own.watched[key] = watches, number


def _keys(path: str) -> tuple[bytes, bytes, bytes]:
    """Before the first place of a name, behind the last one, and where its last holder is noted."""
    return f"{path}/".encode(), f"{path}0".encode(), f"{path}#last".encode()


def _note(own: OwnPlace, last: bytes) -> list[bytes]:
    """What notes that a place is in."""
    if own.whole:
        number = b" %d" % own.order if own.order else b""
        return [nested([above(last, b"clean~")], [put(last, b"took" + number)], [put(last, b"held" + number)])]
    if own.shared:  # all that share a name without a last writer have the same fence: the first one's
        return [nested([made_by(last, 0)], [put(last, b"clean")])]
    return []


def _ended(own: OwnPlace, last: bytes, clean: bool) -> list[bytes]:
    """What notes that it has left."""
    if not clean:
        return [put(last, b"held %d" % own.order)]
    return [put(last, b"clean %d" % own.order)] if own.shared else [delete(last)]


def _last(pairs: Sequence[Message]) -> Last:
    for pair in pairs:
        word, _, fence = pair.data(5).partition(b" ")
        # Without a number: it was written together with the place.
        return Last(int(fence) if fence.isdigit() else pair.number(3), word in (b"held", b"took"), word == b"took")
    return Last()
