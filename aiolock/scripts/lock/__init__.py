"""The scripts of the lock and the fair lock: a name with one holder and a queue of processes and fair tasks.

An owner id is `<manager id>:<counter>`, of a task that waits under the fair rule `<manager id>:f<counter>`. Each script
is composed of its files in order: what is needed most often stands in front of all that defines functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ..base import Arg, Call, Ending, Part, Script
from ..keys import GRACE_MS, Keys
from ..outcomes import (
    AcquireOutcome,
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
from . import decode, twins

STATE = ("clock", "state")
SETTLE = ("state", "settle")
JOIN = (*SETTLE, "alive", "join")

ACQUIRE: Script[AcquireOutcome] = Script(
    __name__, "acquire", twins.acquire, decode.acquire, no_grant, ("clock", "acquire_free", *JOIN)
)
TRANSFER: Script[TransferOutcome] = Script(
    __name__, "transfer", twins.transfer, decode.transfer, no_grant, ("clock", "transfer_local", *JOIN)
)
RELEASE = Script(__name__, "release", twins.release, decode.release, prelude=("release_free", "clock", *SETTLE))
NEST: Script[Kept | Missing] = Script(__name__, "nest", twins.nest, decode.nest, no_nesting, STATE)
RENEW = Script(__name__, "renew", twins.renew, decode.renew, no_renewal, STATE)
REFRESH = Script(__name__, "refresh", twins.refresh, decode.refresh, prelude=("clock", *SETTLE, "alive"))
FORCE_RELEASE = Script(__name__, "force_release", twins.force_release, decode.flag, prelude=("clock", *SETTLE))
INFO = Script(__name__, "info", twins.info, decode.info, prelude=STATE)
CONFIRM = Script(__name__, "confirm", twins.confirm, decode.flag, prelude=STATE)
SCRIPTS = (ACQUIRE, TRANSFER, RELEASE, NEST, RENEW, REFRESH, FORCE_RELEASE, INFO, CONFIRM)


class LockCalls:
    """Requests about one lock name.

    Args:
        keys: how keys are named.
        name: the lock's name.
        liveness_ms: how long a waiter counts as alive without a refresh.
        ordered: each acquisition waits in the queue by itself; else its process does, for all its tasks.
        races: nobody keeps a queue, so a release is told to whoever waits, and they race.
    """

    __slots__ = ("_channel", "_keys", "_liveness_ms", "_tombstones", "channels", "mark", "name", "ordered")

    kind = "lock"
    weight = 1
    transfers = True
    one_refresh = True

    def __init__(self, keys: Keys, name: str, liveness_ms: int, *, ordered: bool = False, races: bool = False) -> None:
        self.name: str = name
        self.ordered: bool = ordered
        self.mark: str = "f" if ordered else ""  # by which scripts end a turn while such an owner is first
        found = keys.of(self.kind, name)
        self.channels: tuple[str, ...] = (found.free,) if races else ()
        self._keys = found.of_lock
        self._tombstones = found
        self._channel = keys.managers
        self._liveness_ms = liveness_ms

    @property
    def names(self) -> tuple[str, ...]:
        """The one name."""
        return (self.name,)

    @property
    def batch(self) -> Callable[[Iterable[Part]], Call[list[RenewOutcome]]]:
        """What makes one request of many renewals."""
        return renew

    @property
    def enter(self) -> Refresh:
        """What makes one request of many waiters' refreshes."""
        return Refresh(self._channel)

    def acquire(
        self,
        owner: str,
        ttl_ms: int,
        floor: int,
        metadata: str,
        liveness_ms: int = 0,
        counted: bool = True,
        more: Sequence[str] = (),
    ) -> Call[AcquireOutcome]:
        """Hold the name, or queue for it.

        A copy of the request may find that the queue granted the name meanwhile: a `pttl` below `ttl_ms` then says that
        it must be confirmed by a renewal, as every grant from a queue.

        Args:
            owner: who wants it.
            ttl_ms: how long it holds without a renewal.
            floor: the highest fence that this manager has seen.
            metadata: what others are told of the holder.
            liveness_ms: 0 refuses instead of queueing; -1 queues without saying that the manager lives, which another
                request said a moment ago; else for how long it says so.
            counted: the manager listens on its channel, so a message that reaches nobody proves that it is gone.
            more: owners of the same manager that queue behind it in this order, whatever becomes of the first.
        """
        managers = self._channel
        if liveness_ms:  # one word for three: each costs its packing
            managers = f"{managers} {liveness_ms if liveness_ms > 0 else -self._liveness_ms} {'1' if counted else '0'}"
        keys, args = (*self._keys, self._tombstones.dead(owner)), (owner, ttl_ms, floor, metadata, managers)
        if more:
            return Call(self.name, ACQUIRE, (*keys, *map(self._tombstones.dead, more)), (*args, *more))
        return Call(self.name, ACQUIRE, keys, args)

    def refresh(
        self,
        owner: str,
        ttl_ms: int,
        floor: int,
        metadata: str,
        queue_number: int,
        liveness_ms: int,
        counted: bool = True,
    ) -> Part:
        """A sign of life of a manager; `owner` is the first of its entries in the queue."""
        return Part(self._keys, (owner, liveness_ms, int(counted)))

    def transfer(
        self,
        owner: str,
        fence: int,
        successor: str,
        ttl_ms: int,
        floor: int,
        metadata: str,
        over: bool,
        liveness_ms: int,
        counted: bool,
        tainted: bool,
    ) -> Call[TransferOutcome]:
        """End `owner`, and hand the name to `successor` or, if the turn is over, to whoever the queue says.

        A turn that is not `over` ends nevertheless while the first in the queue waits under the fair rule. `successor`
        is a new owner, or a task of the fair rule that stands in the queue already.
        """
        args = (int(over), self._channel, liveness_ms, int(counted))
        return self._transfer(owner, fence, successor, ttl_ms, floor, metadata, args, tainted)

    def resume(
        self, owner: str, fence: int, successor: str, ttl_ms: int, floor: int, metadata: str, tainted: bool
    ) -> Call[TransferOutcome]:
        """Move a detached hold to `successor`, whoever waits; one whose time is over ends with it."""
        args = (2, self._channel, self._liveness_ms, 0)
        return self._transfer(owner, fence, successor, ttl_ms, floor, metadata, args, tainted)

    def _transfer(
        self,
        owner: str,
        fence: int,
        successor: str,
        ttl_ms: int,
        floor: int,
        metadata: str,
        turn: tuple[Arg, ...],
        tainted: bool,
    ) -> Call[TransferOutcome]:
        args = (owner, fence, successor, ttl_ms, floor, metadata, *turn)
        keys = (*self._keys, self._tombstones.dead(owner), self._tombstones.dead(successor))
        return Call(self.name, TRANSFER, keys, (*args, ttl_ms + GRACE_MS) if tainted else args)

    def release(self, owner: str, ttl_ms: int, left: int, ending: Ending, tainted: bool) -> Call[ReleaseOutcome]:
        """Lower the owner's depth to `left`; at 0 it is gone from the name and from its queue.

        Args:
            owner: who ends; one that waits leaves the queue.
            ttl_ms: its ttl.
            left: levels left.
            ending: how the last one ends.
            tainted: a request of this owner died unanswered: leave a tombstone.
        """
        grace = ttl_ms + GRACE_MS
        args = (owner, grace, self._channel)
        if tainted or left or ending != "clean" or self.channels:
            channel = self.channels[0] if self.channels else ""
            how = (ending, left, grace if tainted else 0, channel)
            return Call(self.name, RELEASE, (*self._keys, self._tombstones.dead(owner)), (*args, *how))
        return Call(self.name, RELEASE, self._keys, args)

    def nest(self, owner: str, fence: int, ttl_ms: int, depth: int) -> Call[Kept | Missing]:
        """Raise the depth of a hold, and put its end off."""
        return Call(self.name, NEST, self._keys[:1], (owner, fence, ttl_ms, depth))

    def renewal(self, owner: str, fence: int, ttl_ms: int, metadata: str = "") -> Part:
        """An extension of a hold; of a grant from the queue also the confirmation, which says the holder's metadata."""
        return Part(self._keys[:1], (owner, fence, ttl_ms, metadata))

    def force_release(self, fence: int = 0) -> Call[bool]:
        """End a hold, or that of one fence, whoever has it."""
        return Call(self.name, FORCE_RELEASE, self._keys, (fence, self._channel, *self.channels))

    def info(self, waiting: str = "") -> Call[Standing]:
        """Who holds and who waits; `waiting` is the owner whose rank is asked for."""
        return Call(self.name, INFO, self._keys[:2], (waiting,))


def renew(parts: Iterable[Part]) -> Call[list[RenewOutcome]]:
    """One request that extends many holds, each judged by itself."""
    return Call("", RENEW, *_joined((), parts))


@dataclass(frozen=True, slots=True)
class Refresh:
    """Makes one request of many waiters' refreshes.

    Args:
        channel: managers' channels, without their ids.
    """

    channel: str

    def __call__(self, parts: Iterable[Part]) -> Call[list[RefreshOutcome]]:
        return Call("", REFRESH, *_joined((self.channel,), parts))


def confirm(acquire: Call[AcquireOutcome], minted: int, agreed: int) -> Call[bool]:
    """What follows an `acquire` that was granted under the fence `minted`, where a quorum agreed on another."""
    return Call(acquire.name, CONFIRM, acquire.keys[:1], (acquire.args[0], minted, agreed))


def _joined(head: tuple[Arg, ...], parts: Iterable[Part]) -> tuple[list[str], list[Arg]]:
    keys: list[str] = []
    args: list[Arg] = list(head)
    for part in parts:
        keys += part.keys
        args += part.args
    return keys, args
