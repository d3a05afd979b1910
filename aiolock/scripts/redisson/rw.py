"""Requests about Redisson's read-write lock."""

from __future__ import annotations

import copy

from ..base import Call, Combiner, Ending, Part, Script, as_flag, copied
from ..bid import Bid
from ..keys import GRACE_MS
from ..lock import decode as lock
from ..outcomes import (
    AcquireOutcome,
    Kept,
    Missing,
    ReleaseOutcome,
    RenewOutcome,
    no_grant,
    no_nesting,
    no_renewal,
)
from . import SCRIPTS as OTHERS
from . import RLockCalls, decode

FULL = decode.FULL
_PACKAGE = __package__

READ_ACQUIRE: Script[AcquireOutcome] = Script(_PACKAGE, "read_acquire", decode.acquire, no_grant)
WRITE_ACQUIRE: Script[AcquireOutcome] = Script(_PACKAGE, "write_acquire", decode.acquire, no_grant)
NEST: Script[Kept | Missing] = Script(_PACKAGE, "rw_nest", lock.nest, no_nesting)
RENEW: Script[list[RenewOutcome]] = Script(_PACKAGE, "rw_renew", lock.renew, no_renewal)
READ_RELEASE = Script(_PACKAGE, "read_release", decode.release, ends=copied)
WRITE_RELEASE = Script(_PACKAGE, "write_release", decode.release, ends=copied)
FORCE_RELEASE = Script(_PACKAGE, "rw_force_release", as_flag)
SCRIPTS = (*OTHERS, READ_ACQUIRE, WRITE_ACQUIRE, NEST, RENEW, READ_RELEASE, WRITE_RELEASE, FORCE_RELEASE)
"""All of this wire."""
_renew: Combiner[RenewOutcome] = Combiner(RENEW)


class RWCalls(RLockCalls):
    """Requests about one side of an RReadWriteLock. The levels of a writer that also reads are all the writer's.

    Args:
        name: the lock's, and its key.
        weight: 1 to read, `FULL` to write, more for a writer that also reads.
    """

    __slots__ = ("weight",)

    kind = "redisson.rw"
    ordered = True

    def __init__(self, name: str, weight: int) -> None:
        super().__init__(name)
        self.weight: int = weight
        self.free_channel: str = self._keys.rw_channel

    @property
    def renew_many(self) -> Combiner[RenewOutcome]:  # type: ignore[override]
        """Makes one request of many renewals."""
        return _renew

    def weighing(self, weight: int) -> RWCalls:
        """Return the same requests, for what has this weight."""
        calls = copy.copy(self)
        calls.weight = weight
        return calls

    @property
    def _writes(self) -> bool:
        return self.weight >= FULL

    def _own(self, owner: str) -> tuple[tuple[str, ...], str]:
        """The keys and the field of a hold."""
        if self._writes:
            return (self.name,), f"{owner}:write"
        return (self.name, self._keys.timeout(owner)), owner

    def acquire(self, bid: Bid) -> Call[AcquireOutcome]:
        """Hold the name, or learn who has it."""
        keys, args = (self.name, self._keys.dead(bid.owner)), (bid.owner, bid.ttl_ms)
        if self._writes:
            return Call(self.name, WRITE_ACQUIRE, keys, args)
        return Call(self.name, READ_ACQUIRE, (*keys, self._keys.timeout(bid.owner)), args)

    def nest(self, owner: str, fence: int, ttl_ms: int, depth: int) -> Call[Kept | Missing]:
        """Raise the depth of a hold, and extend it."""
        keys, field = self._own(owner)
        return Call(self.name, NEST, keys, (field, ttl_ms, depth))

    def renewal(self, owner: str, fence: int, ttl_ms: int) -> Part:
        """Extend a hold."""
        keys, field = self._own(owner)
        return Part((keys[0], keys[-1]), (field, ttl_ms))

    def release(self, owner: str, ttl_ms: int, left: int, ending: Ending, tainted: bool) -> Call[ReleaseOutcome]:
        """Lower the owner's depth to `left`; at 0 it leaves the name."""
        dead = (self._keys.dead(owner),) if tainted and not left else ()
        grace = (ttl_ms + GRACE_MS,) if dead else ()
        if self._writes:
            args = (owner, left, self.free_channel, *grace)
            return Call(self.name, WRITE_RELEASE, (self.name, *dead), args)
        keys = (self.name, self._keys.timeout(owner), self._keys.timeouts, *dead)
        return Call(self.name, READ_RELEASE, keys, (owner, left, self.free_channel, ttl_ms, *grace))

    def force_release(self) -> Call[bool]:
        """End all holds, whoever has them."""
        return Call(self.name, FORCE_RELEASE, (self.name, self._keys.timeouts), (self.free_channel,))
