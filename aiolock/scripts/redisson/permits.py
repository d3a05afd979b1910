"""Requests about Redisson's semaphore of permits that expire."""

from __future__ import annotations

import copy
from dataclasses import replace

from ..base import Call, Combiner, Ending, Part, Reply, Script, as_list, as_number, copied
from ..bid import Bid
from ..keys import GRACE_MS
from ..lock import decode as lock
from ..outcomes import AcquireOutcome, Granted, Refused, ReleaseOutcome, RenewOutcome, no_grant, no_renewal
from . import SET_COUNT, RLockCalls, decode

_PACKAGE = __package__


NOBODY = "nobody: it has no more until someone sets how many there are"


def _acquired(reply: Reply) -> AcquireOutcome:
    if isinstance(reply, bytes) and reply.startswith(b"refused "):
        _, pttl, taken = reply.split(b" ", 2)
        return Refused(int(pttl), 0, _holder(taken))
    outcome = decode.acquire(reply)
    if isinstance(outcome, Granted):
        return replace(outcome, fence=0, capacity=outcome.fence)
    return outcome


def _holder(taken: bytes) -> str:
    """Whose permit expires next: an owner of ours, or its id in Java, of which the server has the bytes."""
    owner, ours, _ = taken.rpartition(b"#")
    return owner.decode() if ours and owner.isascii() else taken.hex() or NOBODY


def _counted(reply: Reply) -> tuple[int, int]:
    free, taken = map(as_number, as_list(reply))
    return free, taken


ACQUIRE: Script[AcquireOutcome] = Script(_PACKAGE, "permits_acquire", _acquired, no_grant, ("now",))
RENEW: Script[list[RenewOutcome]] = Script(_PACKAGE, "permits_renew", lock.renew, no_renewal, ("now",))
RELEASE = Script(_PACKAGE, "permits_release", decode.release, prelude=("now",), ends=copied)
INFO = Script(_PACKAGE, "permits_info", _counted, prelude=("now",))
SCRIPTS = (ACQUIRE, RENEW, RELEASE, INFO)
_renew: Combiner[RenewOutcome] = Combiner(RENEW)


class PermitCalls(RLockCalls):
    """Requests about an RPermitExpirableSemaphore, for acquisitions of some of its permits.

    Each permit has an id, as in Java. An acquisition that gives some of its permits back keeps the first ids.

    Args:
        name: the semaphore's, and its key.
        weight: how many permits an acquisition takes.
    """

    __slots__ = ("_had", "weight")

    kind = "redisson.permits"
    ordered = True

    def __init__(self, name: str, weight: int) -> None:
        super().__init__(name)
        self.weight: int = weight
        self.free_channel: str = self._keys.permits_channel
        self._had = weight

    @property
    def renew_many(self) -> Combiner[RenewOutcome]:  # type: ignore[override]
        """Makes one request of many renewals."""
        return _renew

    def weighing(self, weight: int) -> PermitCalls:
        """Return the same requests, for what is left of an acquisition."""
        calls = copy.copy(self)
        calls.weight = weight
        return calls

    def acquire(self, bid: Bid) -> Call[AcquireOutcome]:
        """Take permits, or learn when the next ones expire."""
        keys = (self.name, self._keys.permits, self._keys.dead(bid.owner))
        return Call(self.name, ACQUIRE, keys, (bid.owner, bid.ttl_ms, self.weight, self.free_channel))

    def renewal(self, owner: str, fence: int, ttl_ms: int) -> Part:
        """Extend what an owner has."""
        return Part((self._keys.permits,), (owner, ttl_ms, self.weight))

    def release(self, owner: str, ttl_ms: int, left: int, ending: Ending, tainted: bool) -> Call[ReleaseOutcome]:
        """Give permits back: all, or what the owner had above its weight."""
        keys = (self.name, self._keys.permits)
        args = (owner, self.weight if left else 0, self._had, self.free_channel)
        if left or not tainted:
            return Call(self.name, RELEASE, keys, args)
        return Call(self.name, RELEASE, (*keys, self._keys.dead(owner)), (*args, ttl_ms + GRACE_MS))

    def set_permits(self, permits: int) -> Call[bool]:
        """Say how many there are, if nobody has."""
        return Call(self.name, SET_COUNT, (self.name,), (permits, self.free_channel, permits))

    def count(self) -> Call[tuple[int, int]]:
        """Ask how many are free and how many are taken."""
        return Call(self.name, INFO, (self.name, self._keys.permits), ())
