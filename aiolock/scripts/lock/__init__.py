"""The scripts of the lock and the fair lock: a name with one holder and a queue of processes and fair tasks.

An owner id is `<manager id>:<counter>`, or `<manager id>:f<counter>` for a task that waits under the fair rule. Each
script is composed of its files in order: what is needed most often comes before everything that defines functions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ...owner import TASK
from ..base import Arg, Call, Combiner, Ending, Keep, Part, Script, as_flag, copied
from ..bid import Bid, told
from ..keys import DEAD, GRACE_MS, Keys
from ..outcomes import (
    AcquireOutcome,
    Asked,
    Kept,
    Missing,
    RefreshOutcome,
    ReleaseOutcome,
    RenewOutcome,
    Standing,
    TransferOutcome,
    no_grant,
    no_nesting,
    no_renewal,
)
from . import decode

STATE = ("version", "clock", "state")
SETTLE = ("state", "grant", "crowd", "settle")
JOIN = (*SETTLE, "alive", "join")

ACQUIRE: Script[AcquireOutcome] = Script(
    __name__, "acquire", decode.acquire, no_grant, ("version", "clock", "acquire_own", "acquire_free", *JOIN, "own")
)
RELEASE = Script(
    __name__,
    "release",
    decode.release,
    prelude=("version", "release_free", "clock", "release_pass", *SETTLE),
    ends=copied,
)


def _end_of(transfer: Call[Any]) -> Call[Any] | None:
    """The release of who handed the name on; None for a detached hold, whose work goes on."""
    owner, _, _, ttl_ms, _, _, over, channel, _, _, *tombstone = transfer.args
    if over == 2:
        return None
    keys, args = transfer.keys[:3], (owner, int(ttl_ms) + GRACE_MS, channel)
    if not tombstone:
        return Call(transfer.name, RELEASE, keys, args)
    return Call(transfer.name, RELEASE, transfer.keys[:4], (*args, "clean", 0, *tombstone, ""))


TRANSFER: Script[TransferOutcome] = Script(
    __name__,
    "transfer",
    decode.transfer,
    no_grant,
    ("version", "clock", "transfer_local", "transfer_pass", *JOIN, "own"),
    _end_of,
)
NEST: Script[Kept | Missing] = Script(__name__, "nest", decode.nest, no_nesting, STATE)
RENEW: Script[list[RenewOutcome]] = Script(
    __name__, "renew", decode.renew, no_renewal, ("version", "clock", "renew_one", "state")
)
REFRESH = Script(__name__, "refresh", decode.refresh, prelude=("version", "clock", *SETTLE, "alive"))
FORCE_RELEASE = Script(__name__, "force_release", as_flag, prelude=("version", "clock", *SETTLE))
REQUEST_RELEASE = Script(__name__, "request_release", decode.request_release, prelude=STATE)
INFO = Script(__name__, "info", decode.info, prelude=STATE)
CONFIRM = Script(__name__, "confirm", as_flag, prelude=STATE)
FOLLOWS = Script(__name__, "follows", as_flag, prelude=STATE)
DEPART = Script(__name__, "depart", as_flag)
renew: Combiner[RenewOutcome] = Combiner(RENEW)
SCRIPTS = (
    *(ACQUIRE, TRANSFER, RELEASE, NEST, RENEW, REFRESH, FORCE_RELEASE, REQUEST_RELEASE, INFO, CONFIRM, FOLLOWS),
    DEPART,
)


class LockCalls:
    """Requests about one lock name.

    Args:
        keys: names the keys.
        name: the lock's name.
        liveness_ms: how long a waiter counts as alive without a refresh.
        ordered: each acquisition waits in the queue by itself; otherwise its process does, for all its tasks.
        races: there is no queue, so a release is announced to all waiters, and they race.
    """

    __slots__ = ("_channel", "_keys", "_liveness_ms", "free_channel", "mark", "name", "ordered", "queues")

    kind = "lock"
    weight = 1
    transfers = True
    one_refresh = True
    keeps = True
    renew_many = renew

    def __init__(self, keys: Keys, name: str, liveness_ms: int, *, ordered: bool = False, races: bool = False) -> None:
        self.name: str = name
        self.ordered: bool = ordered
        self.mark: str = TASK if ordered else ""
        found = keys.of(self.kind, name)
        self.queues: bool = not races
        self.free_channel: str = found.free if races else ""
        self._keys = found.of_lock
        self._channel = keys.managers
        self._liveness_ms = liveness_ms

    @property
    def names(self) -> tuple[str, ...]:
        """The one name."""
        return (self.name,)

    @property
    def refresh_many(self) -> Combiner[RefreshOutcome]:
        """Makes one request of many waiters' refreshes."""
        return Combiner(REFRESH, (self._channel,))

    def acquire(self, bid: Bid) -> Call[AcquireOutcome]:
        """Hold the name, or queue for it; what the queue has granted becomes a hold.

        Args:
            bid: who wants it.
        """
        owner, ttl_ms, floor, metadata, liveness_ms, counted, number = bid
        managers = self._channel
        if liveness_ms:  # three values in one argument: each argument costs time to pack
            managers = f"{managers} {liveness_ms} {'1' if counted else '0'}"
            managers = f"{managers} {number}" if number else managers
        keys = (*self._keys, self._keys[0] + DEAD + owner)
        return Call(self.name, ACQUIRE, keys, (owner, ttl_ms, floor, metadata, managers))

    def refresh(self, bid: Bid) -> Part:
        """Return a heartbeat of a manager; it bids for the first of its entries in the queue."""
        return Part(self._keys, (bid.owner, bid.liveness_ms, int(bid.counted), told(bid.metadata)[0]))

    def transfer(self, owner: str, fence: int, bid: Bid, over: int, tainted: bool) -> Call[TransferOutcome]:
        """End `owner`, and hand the name to who bids or, if the turn is over, to the next in the queue.

        A turn that is not `over` ends nevertheless while the first in the queue waits under the fair rule; 2 is for a
        detached hold, which has no turn, and whose time must not be over. Who bids is a new owner, or a task with the
        fair rule that is already in the queue.
        """
        successor, ttl_ms, floor, metadata, liveness_ms, counted, _ = bid
        keys = (*self._keys, self._keys[0] + DEAD + owner, self._keys[0] + DEAD + successor)
        turn = int(over), self._channel, liveness_ms, int(counted)
        args = (owner, fence, successor, ttl_ms, floor, metadata, *turn)
        return Call(self.name, TRANSFER, keys, (*args, ttl_ms + GRACE_MS) if tainted else args)

    def resume(self, owner: str, fence: int, bid: Bid, tainted: bool) -> Call[TransferOutcome]:
        """Move a detached hold to who bids, even past waiters; a hold whose time is over ends."""
        bid = bid._replace(liveness_ms=self._liveness_ms, counted=False)
        return self.transfer(owner, fence, bid, over=2, tainted=tainted)

    def release(
        self, owner: str, ttl_ms: int, left: int, ending: Ending, tainted: bool, keep: Keep | None = None
    ) -> Call[ReleaseOutcome]:
        """Lower the owner's depth to `left`; at 0 it leaves the name and its queue.

        Args:
            owner: the one that ends; if it waits, it leaves the queue.
            ttl_ms: its ttl.
            left: levels left.
            ending: how the last one ends.
            tainted: a request of this owner went unanswered: leave a tombstone.
            keep: for how long the name stays taken.
        """
        grace = ttl_ms + GRACE_MS
        args = (owner, grace, self._channel)
        if tainted or left or ending != "clean" or self.free_channel or keep:
            how: tuple[Arg, ...] = (ending, left, grace if tainted else 0, self.free_channel)
            return Call(self.name, RELEASE, (*self._keys, self._keys[0] + DEAD + owner), (*args, *how, *(keep or ())))
        return Call(self.name, RELEASE, self._keys, args)

    def nest(self, owner: str, fence: int, ttl_ms: int, depth: int) -> Call[Kept | Missing]:
        """Raise the depth of a hold, and extend it."""
        return Call(self.name, NEST, self._keys[:1], (owner, fence, ttl_ms, depth))

    def renewal(self, owner: str, fence: int, ttl_ms: int) -> Part:
        """Extend a hold."""
        return Part(self._keys[:1], (owner, fence, ttl_ms))

    def force_release(self, fence: int = 0) -> Call[bool]:
        """End a hold, whoever has it, or only one with this fence."""
        told = (self.free_channel,) if self.free_channel else ()
        return Call(self.name, FORCE_RELEASE, self._keys, (fence, self._channel, *told))

    def request_release(self, owner: str = "") -> Call[Asked]:
        """Ask whoever holds it to finish, or only this owner."""
        return Call(self.name, REQUEST_RELEASE, self._keys[:1], (owner, self._channel))

    def follows(self, owner: str, fence: int, before: int) -> Call[bool]:
        """Ask whether a hold was granted right after the one with the fence `before`."""
        return Call(self.name, FOLLOWS, self._keys[:1], (owner, fence, before))

    def departure(self, manager: str) -> Call[bool]:
        """Forget that a manager lives: it closes, and waits no more."""
        return Call(self.name, DEPART, self._keys[2:], (manager,))

    def info(self, waiting: str = "") -> Call[Standing]:
        """Ask who holds and who waits; `waiting` is the owner whose rank you ask for."""
        return Call(self.name, INFO, self._keys[:2], (waiting,))


def confirm(acquire: Call[AcquireOutcome], minted: int, agreed: int) -> Call[bool]:
    """Return what follows an `acquire` that was granted with the fence `minted`, if a quorum agreed on another."""
    return Call(acquire.name, CONFIRM, acquire.keys[:1], (acquire.args[0], minted, agreed))


class AcquireArgs(NamedTuple):
    """ARGV of an acquire that does not queue, in the order of the Lua's header: a quorum reads them by name."""

    owner: str
    ttl_ms: int
    floor: int
    metadata: str
    managers: str

    @classmethod
    def of(cls, call: Call[Any]) -> AcquireArgs:
        """Read the ARGV of `call`."""
        words: Any = call.args
        return cls(*words)


class ReleaseArgs(NamedTuple):
    """ARGV of release; `left` 0 ends the owner, `dead_ms` 0 leaves no tombstone, `channel` '' announces nothing, and
    `cut_ms` '' frees the name: see `Keep`.

    A request leaves out defaults at its end: each word costs time to pack and to read.
    """

    owner: str
    clean_ms: int
    managers: str
    ending: str = "clean"
    left: int = 0
    dead_ms: int = 0
    channel: str = ""
    cut_ms: int | str = ""
    left_ms: int | str = ""

    @classmethod
    def of(cls, call: Call[Any]) -> ReleaseArgs:
        """Read the ARGV of `call`, with its defaults."""
        words: Any = call.args
        return cls(*words)
