"""The queue family's scripts: a name with a capacity, holders with weights, and a queue. Semaphore and read-write lock.

A semaphore's capacity is its number of permits; a read-write lock's is so large that only a writer fills it. The files
that a script needs go in front of it: one file, one noun.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

from ..base import DONT_QUEUE, Arg, Call, Combiner, Ending, Keep, Part, Script, as_number, copied
from ..bid import Bid, wanting_slots
from ..keys import GRACE_MS, Keys
from ..lock import decode as lock
from ..outcomes import (
    AcquireOutcome,
    Ended,
    Failed,
    ReleaseOutcome,
    RenewOutcome,
    Standing,
    TransferOutcome,
    no_grant,
    no_renewal,
)
from . import decode

NAME = ("lock/version", "state", "clock", "record", "holders", "queue", "heal", "prune", "turn", "changes", "close")
EACH = (*NAME, "batch")
ASK = (*EACH, "slots", "ask")

ACQUIRE: Script[AcquireOutcome] = Script(__name__, "acquire", decode.acquire_one, no_grant, ASK)
REFRESH = Script(__name__, "acquire", decode.acquire_each, prelude=ASK)
RELEASE = Script(__name__, "release", decode.release, prelude=(*NAME, "slots"), ends=copied)
TRANSFER: Script[TransferOutcome] = Script(__name__, "transfer", decode.transfer, no_grant, (*NAME, "slots"))
RENEW = Script(__name__, "renew", lock.renew, no_renewal, EACH)
FORCE_RELEASE = Script(__name__, "force_release", decode.force_release, prelude=NAME)
REQUEST_RELEASE = Script(
    __name__, "request_release", decode.request_release, prelude=("lock/version", "state", "clock", "record")
)
SET_CAPACITY = Script(__name__, "set_capacity", as_number, prelude=NAME)
INFO = Script(__name__, "info", decode.info, prelude=("lock/version", "state", "clock", "record"))
SCRIPTS = (ACQUIRE, RELEASE, TRANSFER, RENEW, FORCE_RELEASE, SET_CAPACITY, INFO, REQUEST_RELEASE)


class QueueCalls:
    """Requests about one name of the family, for acquisitions of one weight.

    The server keeps the queue; each waiter has an entry of its own in it, and refreshes it.

    Args:
        keys: names the keys.
        kind: `rw` or `semaphore`.
        name: the name.
        capacity: how much weight can be held at once; what is stored wins.
        weight: of each acquisition.
        mints: an acquisition gets a fence of its own; otherwise that of the last one that did.
        liveness_ms: how long a waiter counts as alive without a refresh.
        slots: each acquisition learns the numbers of what it takes.
    """

    __slots__ = ("_capacity", "_channel", "_keys", "_liveness_ms", "_mints", "_slots", "kind", "name", "weight")

    names: tuple[str, ...] = ()
    free_channel = ""
    mark = ""
    ordered = True
    transfers = False
    queues = True
    one_refresh = False
    keeps = True

    def __init__(
        self,
        keys: Keys,
        kind: str,
        name: str,
        *,
        capacity: int,
        weight: int,
        mints: bool,
        liveness_ms: int,
        slots: bool = False,
    ) -> None:
        self.kind: str = kind
        self.name: str = name
        self.weight: int = weight
        self._keys = keys.of(kind, name)
        self._capacity = capacity
        self._mints = int(mints)
        self._liveness_ms = liveness_ms
        self._slots = slots
        self._channel = keys.managers

    @property
    def renew_many(self) -> Combiner[RenewOutcome]:
        """Makes one request of many renewals."""
        return Combiner(RENEW, (self._channel,))

    @property
    def refresh_many(self) -> Combiner[AcquireOutcome | Failed]:
        """Makes one request of many waiters' refreshes."""
        return Combiner(REFRESH, (self._channel,))

    def weighing(self, weight: int) -> QueueCalls:
        """Return the same requests, for acquisitions of another weight."""
        calls = copy.copy(self)
        calls.weight = weight
        return calls

    def acquire(self, bid: Bid) -> Call[AcquireOutcome]:
        keys, args = self._part(bid if bid.liveness_ms else bid._replace(number=DONT_QUEUE))
        return Call(self.name, ACQUIRE, keys, (self._channel, *args))

    def nest(self, owner: str, fence: int, ttl_ms: int, depth: int) -> Call[AcquireOutcome]:
        keys, args = self._part(Bid(owner, ttl_ms, 0, "", number=DONT_QUEUE), depth, fence)
        return Call(self.name, ACQUIRE, keys, (self._channel, *args))

    def refresh(self, bid: Bid) -> Part:
        """Return a waiter's heartbeat; one that the server has forgotten joins again with its old number."""
        return self._part(bid)

    def release(
        self, owner: str, ttl_ms: int, left: int, ending: Ending, tainted: bool, keep: Keep | None = None
    ) -> Call[ReleaseOutcome]:
        grace = ttl_ms + GRACE_MS
        dead_ms = grace if tainted else 0
        args = (self._channel, owner, left, self.weight, self._mints, ending, grace, dead_ms, self._capacity)
        keys = (*self._keys.queue, self._keys.dead(owner))
        return Call(self.name, RELEASE, keys, (*args, *(keep or ())))

    def resume(self, owner: str, fence: int, bid: Bid, tainted: bool) -> Call[TransferOutcome]:
        successor, ttl_ms, floor, metadata, *_ = bid
        dead_ms = ttl_ms + GRACE_MS if tainted else 0
        args = (self._channel, owner, fence, successor, ttl_ms, floor, metadata, dead_ms, self._capacity)
        keys = (*self._keys.queue, self._keys.dead(owner), self._keys.dead(successor))
        return Call(self.name, TRANSFER, keys, args)

    def renewal(self, owner: str, fence: int, ttl_ms: int) -> Part:
        return Part(self._keys.queue, (owner, str(fence), ttl_ms, self._capacity, self.weight))

    def force_release(self) -> Call[Ended]:
        return Call(self.name, FORCE_RELEASE, self._keys.queue, (self._channel, self._capacity))

    def request_release(self, owners: Sequence[str] = ()) -> Call[list[str]]:
        """Ask these owners to finish, or the first of all that hold. The answer says who holds: of these, or of all."""
        args: tuple[Arg, ...] = (self._channel, self._capacity, *owners)
        return Call(self.name, REQUEST_RELEASE, self._keys.queue, args)

    def set_capacity(self, capacity: int) -> Call[int]:
        return Call(self.name, SET_CAPACITY, self._keys.queue, (self._channel, capacity))

    def departure(self, manager: str) -> None:
        """Return None: nothing is kept of a manager but its waiters."""

    def info(self, waiting: str = "") -> Call[Standing]:
        """Ask who holds and who waits; `waiting` is the owner whose rank you ask for."""
        return Call(self.name, INFO, self._keys.queue, (self._capacity, waiting))

    def _part(self, bid: Bid, depth: int = 1, fence: int = 0) -> Part:
        owner, ttl_ms, floor, metadata, _, _, number = bid
        args = (
            owner,
            ttl_ms,
            depth,
            fence,
            self.weight,
            self._mints,
            floor,
            self._capacity,
            number,
            self._liveness_ms,
            wanting_slots(metadata) if self._slots else metadata,
        )
        return Part((*self._keys.queue, self._keys.dead(owner)), args)
