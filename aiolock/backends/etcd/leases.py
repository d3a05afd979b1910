"""Leases of etcd: each keeps one place. One that is free again keeps the next, so an acquire needs one request."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from ...clock import Clock
from ..coordinator.store import Away, Refusal
from .link import Link
from .messages import GRANT, KEEP_ALIVE, REVOKE, TIME_TO_LIVE
from .wire import Message, num

FRESH = 10
"""A lease is as good as new for this part of its time."""


class EtcdLease:
    """A lease that etcd has granted.

    Attributes:
        id: etcd's number.
        asked: whole seconds that were asked for.
        ttl: whole seconds that it lasts without a renewal.
        renewed: clock time from which that counts.
    """

    __slots__ = ("asked", "id", "renewed", "ttl")

    def __init__(self, number: int, asked: int, ttl: int, renewed: float) -> None:
        self.id: int = number
        self.asked: int = asked
        self.ttl: int = ttl
        self.renewed: float = renewed

    @property
    def expires(self) -> float:
        """Clock time before which etcd does not end it."""
        return self.renewed + self.ttl

    def extend(self, ttl: int, since: float) -> None:
        """It lasts for that long, counted from this clock time."""
        self.ttl, self.renewed = ttl, max(self.renewed, since)

    def fresh(self, now: float) -> bool:
        """Whether it need not be renewed for its next user."""
        return now < self.renewed + self.ttl / FRESH


class Leases:
    """Those of one manager.

    Args:
        link: returns the connection, once there is one.
        clock: of their times.
    """

    def __init__(self, link: Callable[[], Awaitable[Link]], clock: Clock) -> None:
        self._link = link
        self._clock = clock
        self._free: dict[int, list[EtcdLease]] = {}

    async def take(self, ttl_ms: int) -> EtcdLease:
        """Return one that lasts for the whole time, and that nobody has.

        Raises:
            Refusal: etcd cannot keep a place for so long.
        """
        seconds = whole_seconds(ttl_ms)
        free = self._free.setdefault(seconds, [])
        while free:
            lease = free.pop()
            if await self.freshen(lease):
                return lease
        now = self._clock.now()
        answer = Message(await (await self._link()).ask(GRANT, num(1, seconds)))
        lease = EtcdLease(answer.number(2), seconds, answer.number(3), now)
        if lease.ttl * 1000 < ttl_ms:
            await self.end(lease)
            raise Refusal(f"etcd keeps a place for {lease.ttl} s, not for {ttl_ms / 1000:g} s: ask for a shorter ttl")
        return lease

    async def freshen(self, lease: EtcdLease) -> bool:
        """Renew it if that is worth a request; return False if it is gone."""
        now = self._clock.now()
        if lease.fresh(now):
            return True
        (ttl,) = await self.renew([lease])
        if ttl:
            lease.extend(ttl, now)
        return ttl > 0

    async def renew(self, leases: Sequence[EtcdLease]) -> list[int]:
        """Let them last for their time from now on; return how many seconds that is, 0 for one that is gone.

        A member that was the leader may answer for a moment, though it is none any more: who relies on this asks the
        cluster afterwards.
        """
        if not leases:
            return []
        bodies = [num(1, lease.id) for lease in leases]
        answers = [Message(answer) for answer in await (await self._link()).ask_many(KEEP_ALIVE, bodies)]
        known = {answer.number(2): max(0, answer.number(3)) for answer in answers}
        return [known.get(lease.id, 0) for lease in leases]

    def give_back(self, lease: EtcdLease) -> None:
        """Nothing has it any more."""
        self._free.setdefault(lease.asked, []).append(lease)

    async def end(self, lease: EtcdLease) -> None:
        """End it, and all that it keeps; also what a late request would make it keep. Without an answer it ends by
        itself.
        """
        try:
            await (await self._link()).ask(REVOKE, num(1, lease.id))
        except (Away, Refusal):
            return

    async def remaining(self, number: int) -> float:
        """How many seconds a lease lasts, whoever has it."""
        try:
            return float(max(0, Message(await (await self._link()).ask(TIME_TO_LIVE, num(1, number))).number(3)))
        except Refusal:  # there is no such lease
            return 0.0

    async def aclose(self) -> None:
        """End those that are free, if there is a connection."""
        leases = [lease for free in self._free.values() for lease in free if self._clock.now() < lease.expires]
        self._free.clear()
        await asyncio.gather(*map(self.end, leases))


def whole_seconds(ttl_ms: int) -> int:
    """The shortest time of a lease that is no shorter."""
    return max(1, -(-ttl_ms // 1000))
