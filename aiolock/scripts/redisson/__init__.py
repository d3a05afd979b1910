"""Redisson's locks on its own wire: its keys, channels and messages, by scripts of ours.

What counts is the state that a script leaves and what it publishes, so Redisson's own scripts are not needed. Ours set
the depth instead of counting it, know an owner id that is used once, and leave a tombstone where a request went
unanswered. So a copy of a request changes nothing, which scripts that count cannot promise.
"""

from __future__ import annotations

from ..base import Call, Combiner, Ending, Part, Script, as_flag, copied
from ..bid import Bid
from ..keys import GRACE_MS
from ..lock import decode as lock
from ..outcomes import (
    AcquireOutcome,
    Kept,
    Missing,
    RefreshOutcome,
    ReleaseOutcome,
    RenewOutcome,
    Standing,
    no_grant,
    no_nesting,
    no_renewal,
)
from . import decode
from .keys import RedissonKeys

LINE = ("now", "line")

ACQUIRE: Script[AcquireOutcome] = Script(__name__, "acquire", decode.acquire, no_grant, ("grant",))
NEST: Script[Kept | Missing] = Script(__name__, "nest", lock.nest, no_nesting)
RENEW: Script[list[RenewOutcome]] = Script(__name__, "renew", lock.renew, no_renewal)
RELEASE = Script(__name__, "release", decode.release, ends=copied)
FORCE_RELEASE = Script(__name__, "force_release", as_flag)
INFO = Script(__name__, "info", decode.info)
FAIR_ACQUIRE: Script[AcquireOutcome] = Script(__name__, "fair_acquire", decode.acquire, no_grant, ("grant", *LINE))
FAIR_REFRESH: Script[list[RefreshOutcome]] = Script(__name__, "fair_refresh", decode.refresh, prelude=LINE)
FAIR_RELEASE = Script(__name__, "fair_release", decode.release, prelude=LINE, ends=copied)
FAIR_FORCE_RELEASE = Script(__name__, "fair_force_release", as_flag, prelude=LINE)
SET_COUNT = Script(__name__, "set_count", as_flag)
LOCK = (ACQUIRE, NEST, RENEW, RELEASE, FORCE_RELEASE, INFO)
SCRIPTS = (*LOCK, FAIR_ACQUIRE, FAIR_REFRESH, FAIR_RELEASE, FAIR_FORCE_RELEASE, SET_COUNT)
_renew: Combiner[RenewOutcome] = Combiner(RENEW)
_refresh: Combiner[RefreshOutcome] = Combiner(FAIR_REFRESH)


class RLockCalls:
    """Requests about an RLock or RFencedLock, which are one lock if they have one name.

    Args:
        name: the lock's, and its key.
        fenced: acquire it as an RFencedLock, whose counter is the fence.
    """

    __slots__ = ("_fenced", "_keys", "free_channel", "name")

    kind = "redisson.lock"
    weight = 1
    mark = ""
    ordered = False
    queues = False
    transfers = False
    one_refresh = False
    keeps = False
    renew_many = _renew

    def __init__(self, name: str, fenced: bool = False) -> None:
        self.name: str = name
        self._fenced = fenced
        self._keys = RedissonKeys(name)
        self.free_channel: str = self._keys.channel

    @property
    def names(self) -> tuple[str, ...]:
        """None: no lock of another kind overlaps with it."""
        return ()

    @property
    def refresh_many(self) -> Combiner[RefreshOutcome]:
        """Never asked for: no one queues."""
        raise AssertionError(self.name)

    def acquire(self, bid: Bid) -> Call[AcquireOutcome]:
        """Hold the name, or learn who has it."""
        token = (self._keys.token,) if self._fenced else ()
        return Call(self.name, ACQUIRE, (self.name, self._keys.dead(bid.owner), *token), (bid.owner, bid.ttl_ms))

    def refresh(self, bid: Bid) -> Part:
        """Never asked for: no one queues."""
        raise AssertionError(bid)

    def nest(self, owner: str, fence: int, ttl_ms: int, depth: int) -> Call[Kept | Missing]:
        """Raise the depth of a hold, and extend it."""
        return Call(self.name, NEST, (self.name,), (owner, ttl_ms, depth))

    def renewal(self, owner: str, fence: int, ttl_ms: int) -> Part:
        """Extend a hold."""
        return Part((self.name,), (owner, ttl_ms))

    def release(self, owner: str, ttl_ms: int, left: int, ending: Ending, tainted: bool) -> Call[ReleaseOutcome]:
        """Lower the owner's depth to `left`; at 0 it leaves the name. How it ends makes no difference to Redisson."""
        args = (owner, left, self.free_channel)
        if left or not tainted:
            return Call(self.name, RELEASE, (self.name,), args)
        return Call(self.name, RELEASE, (self.name, self._keys.dead(owner)), (*args, ttl_ms + GRACE_MS))

    def force_release(self) -> Call[bool]:
        """End a hold, whoever has it."""
        return Call(self.name, FORCE_RELEASE, (self.name,), (self.free_channel,))

    def departure(self, manager: str) -> None:
        """Return None: nothing is kept of a manager."""

    def info(self, waiting: str = "") -> Call[Standing]:
        """Ask who holds and who waits; `waiting` is the owner whose rank you ask for."""
        hash, queue, _ = self._keys.line
        return Call(self.name, INFO, (hash, self._keys.token, queue), (waiting,))


class FairCalls(RLockCalls):
    """Requests about a fair lock: the same hash, and a queue in which each owner is told on a channel of its own.

    Args:
        name: the lock's, and its key.
        wait_ms: how long an owner that waits counts as alive without a heartbeat, once it is first.
    """

    __slots__ = ("_wait_ms",)

    ordered = True
    queues = True

    def __init__(self, name: str, wait_ms: int) -> None:
        super().__init__(name)
        self._wait_ms = wait_ms

    @property
    def refresh_many(self) -> Combiner[RefreshOutcome]:
        """Makes one request of many heartbeats."""
        return _refresh

    def turn_channel(self, owner: str) -> str:
        """The channel that says that it may be the owner's turn."""
        return f"{self.free_channel}:{owner}"

    def acquire(self, bid: Bid) -> Call[AcquireOutcome]:
        """Hold the name, or wait for it."""
        wait_ms = self._wait_ms if bid.liveness_ms else 0
        keys = (*self._keys.line, self._keys.dead(bid.owner))
        return Call(self.name, FAIR_ACQUIRE, keys, (bid.owner, bid.ttl_ms, wait_ms))

    def refresh(self, bid: Bid) -> Part:
        """Return a heartbeat of one that waits."""
        return Part(self._keys.line, (bid.owner, self._wait_ms))

    def release(self, owner: str, ttl_ms: int, left: int, ending: Ending, tainted: bool) -> Call[ReleaseOutcome]:
        """Lower the owner's depth to `left`; at 0 it leaves the name, or its queue."""
        args = (owner, left, self.free_channel)
        if left or not tainted:
            return Call(self.name, FAIR_RELEASE, self._keys.line, args)
        return Call(self.name, FAIR_RELEASE, (*self._keys.line, self._keys.dead(owner)), (*args, ttl_ms + GRACE_MS))

    def force_release(self) -> Call[bool]:
        """End a hold, whoever has it."""
        return Call(self.name, FAIR_FORCE_RELEASE, self._keys.line, (self.free_channel,))
