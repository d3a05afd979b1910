"""The multi lock's scripts in Python over a `Store`: the executable specification of the Lua beside it."""

from __future__ import annotations

from collections.abc import Sequence

from ..base import TwinReply, believable
from ..keys import DIRTY_MS
from ..lock.name import Name, kept
from ..store import Store, WrongType


class Part(Name):
    """One of the names, and what prevents granting it to the owner.

    Args:
        store: where it is.
        keys: its state, queue and alive.
        name: the name itself.
        owner: who asks.

    Attributes:
        mine: the owner holds it.
        given: the owner is the first in its queue, and the name is free.
        younger: a multi lock that has waited for less time has reserved it.
        number: the owner's in the queue, None if it does not wait there.
    """

    def __init__(self, store: Store, keys: Sequence[str], name: str, owner: str) -> None:
        super().__init__(store, keys)
        self.name = name
        self.mine: bool = self.live and self.holder == owner
        self.given = self.younger = False
        self.number: int | None = None if self.mine else store.zscore(self.queue, owner)

    @property
    def blocked(self) -> bool:
        """Whether another owner has it and does not give way."""
        return self.live and not self.mine and not self.younger


class Request:
    """ARGV of acquire, and the names it is about.

    Args:
        store: where they are.
        keys: KEYS.
        args: ARGV.
    """

    owner: str
    floor: str
    metadata: str
    counted: str
    channel: str
    ttl: int
    liveness: int
    number: int | None
    whole: int

    def __init__(self, store: Store, keys: Sequence[str], args: Sequence[str]) -> None:
        self.owner, ttl, self.floor, self.metadata, liveness, self.counted, self.channel, number, *names = args
        self.ttl, self.liveness = int(ttl), int(liveness)
        self.store: Store = store
        self.parts: list[Part] = [
            Part(store, keys[3 * i + 1 : 3 * i + 4], name, self.owner) for i, name in enumerate(names)
        ]
        for part in self.parts:
            part.now_us, part.now = self.parts[0].now_us, self.parts[0].now
        numbers = (part.before if part.mine and not part.depth else part.number for part in self.parts)
        self.number = int(number) or next((known for known in numbers if known is not None), None)
        self.whole = sum(part.mine and part.depth > 0 for part in self.parts)

    def read_all(self) -> None:
        """Settle what is free; see what can be taken from others."""
        for part in self.parts:
            if not part.live:
                part.vacate()
                if self.store.zcard(part.queue):
                    if self.number and self.liveness:
                        self.join(part)
                    part.given = part.settle(self.channel, self.owner, self.floor) == self.owner
            elif self.number and not part.mine and not part.depth and ":+" in part.holder:
                part.younger = (part.before, part.holder) > (self.number, self.owner)

    def join(self, part: Part) -> None:
        part.join(self.owner, self.liveness, self.counted, self.metadata, self.number)

    def take(self, part: Part, depth: int, expires: int, metadata: str) -> None:
        """Give one name to the owner: until it has them all, or for good."""
        if part.younger:
            part.keep(part.alive, kept(self.liveness))
            self.store.zadd(part.queue, part.before, part.holder)
            part.keep(part.queue, kept(self.liveness))
        if part.mine and not depth:
            part.expires = max(part.expires, expires)
            part.write()
            return
        part.last_fence = None
        part.grant(self.owner, depth, expires, metadata, self.floor, None if depth else self.number)
        self.store.zrem(part.queue, self.owner)

    def granted(self) -> str:
        abandoned = max(part.dirty for part in self.parts)
        return f"granted {self.parts[0].fence} {min(part.pttl for part in self.parts)} {abandoned}"


def acquire(store: Store, keys: Sequence[str], args: Sequence[str]) -> TwinReply:
    request = Request(store, keys, args)
    parts = request.parts
    if store.exists(keys[0]):
        return "finished"
    if request.whole:
        if request.whole == len(parts) and len({part.fence for part in parts}) == 1:
            for part in parts:
                part.expires = max(part.expires, part.now + request.ttl)
                part.write()
            return request.granted()
        return "lost taken_over" if any(part.live and not part.mine for part in parts) else "lost deleted"
    request.read_all()
    request.floor = str(max(believable(request.floor), *(part.fence for part in parts)))
    blocked = [part for part in parts if part.blocked]
    if not blocked:
        for part in parts:
            request.take(part, 1, part.now + request.ttl, request.metadata)
        return request.granted()
    some = any(part.mine or part.given for part in parts)
    blocker = min(blocked, key=lambda part: (not some and part.number is None, part.fence))
    for part in parts if request.liveness else ():
        if part.blocked and (some or part is blocker):
            request.join(part)
        elif some and not part.blocked:
            request.take(part, 0, part.now + min(request.liveness, request.ttl), request.metadata)
    facts: list[TwinReply] = [blocker.pttl, str(blocker.fence), blocker.metadata, blocker.name]
    if not request.liveness:
        return ["refused", *facts]
    number = request.number or store.zscore(blocker.queue, request.owner)
    return ["queued", str(number), store.zrank(blocker.queue, request.owner) + 1, *facts]


def release(store: Store, keys: Sequence[str], args: Sequence[str]) -> TwinReply:
    owner, clean_ttl, channel, ending, left, dead_ttl = args
    fence, pttl, gone, failed = 0, [], None, None
    for at in range(1, len(keys), 3):
        try:
            name = Name(store, keys[at : at + 3])
            if name.holder != owner:
                gone = worse(gone, name.gone)
                if left == "0":
                    store.zrem(name.queue, owner)
                continue
            fence = name.fence
            if left != "0":
                name.depth = min(name.depth, int(left))
                name.write()
            elif ending != "back" or not name.depth:
                finish(name, channel, ending, int(clean_ttl))
            pttl.append(name.pttl)
        except WrongType as error:
            failed = error
    if left == "0" and dead_ttl != "0":
        store.set(keys[0], "1", int(dead_ttl))
    if failed is not None:
        raise failed
    if gone is not None:
        return f"missing {gone}"
    return f"released {fence}" if left == "0" else f"kept {min(pttl)}"


def finish(name: Name, channel: str, ending: str, clean_ttl: int) -> None:
    """End a hold or a reservation, and grant to the next in line."""
    name.vacate({"clean": "0", "dirty": "1"}.get(ending, name.dirty) if name.depth else name.dirty)
    if not name.settle(channel, None, "0"):
        name.write(clean_ttl if name.dirty == "0" else max(DIRTY_MS, clean_ttl))


def nest(store: Store, keys: Sequence[str], args: Sequence[str]) -> TwinReply:
    owner, fence, ttl, depth = args
    gone = None
    names = [Name(store, [key]) for key in keys]
    for name in names:
        if name.holder != owner or name.fence != int(fence):
            gone = worse(gone, name.gone)
    if gone is not None:
        return f"missing {gone}"
    for name in names:
        name.depth, name.expires = max(name.depth, int(depth)), max(name.expires, name.now + int(ttl))
        name.write()
    return f"kept {min(name.pttl for name in names)}"


def renew(store: Store, keys: Sequence[str], args: Sequence[str]) -> TwinReply:
    answers: list[TwinReply] = []
    at = 0
    for hold in range(0, len(args), 4):
        owner, fence, ttl, names = args[hold : hold + 4]
        pttl, gone, failed = [], None, None
        for key in keys[at : at + int(names)]:
            try:
                name = Name(store, [key])
            except WrongType as error:
                failed = f"error {error}"
                continue
            if name.holder != owner or name.fence > int(fence):
                gone = worse(gone, name.gone)
                continue
            if ttl != "0":
                name.fence = int(fence)
                name.expires = max(name.expires, name.now + int(ttl))
                name.write()
            pttl.append(name.pttl)
        at += int(names)
        answers.append(gone or failed or min(pttl))
    return answers


def info(store: Store, keys: Sequence[str], args: Sequence[str]) -> TwinReply:
    names = [Name(store, [key]) for key in keys]
    return [
        [name.holder, max(1, name.depth), name.pttl, str(name.fence), name.metadata] if name.live else []
        for name in names
    ]


def worse(one: str | None, other: str) -> str:
    return one if one == "taken_over" else other
