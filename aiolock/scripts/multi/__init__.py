"""The multi lock's scripts: several plain locks at once, all or none. They work on the same keys as the plain lock.

An owner id is `<manager id>:+<counter>`. While it waits for some names it may keep others provisionally: *reserved*. It
has one number in all queues, that of its first; an owner with a lower number takes what a higher one has reserved.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import ClassVar

from ...owner import SEVERAL
from ..base import Arg, Call, Combiner, Ending, Part, Script, copied
from ..bid import Bid, told
from ..joint import JointCall, JointPart
from ..keys import GRACE_MS, Keys
from ..lock import DEPART, JOIN, REFRESH, SETTLE, STATE, LockCalls
from ..lock.decode import nest as nested
from ..lock.decode import release as released
from ..lock.decode import renew as renewed
from ..outcomes import (
    AcquireOutcome,
    Held,
    Kept,
    Missing,
    RefreshOutcome,
    ReleaseOutcome,
    RenewOutcome,
    no_grant,
    no_nesting,
    no_renewal,
)
from . import decode, join


def _of_lock(files: Sequence[str]) -> list[str]:
    return [f"lock/{file}" for file in files]


ACQUIRE: Script[AcquireOutcome] = Script(
    __name__,
    "acquire",
    decode.acquire,
    no_grant,
    ("lock/version", "lock/clock", "acquire_free", *_of_lock(JOIN), "read", "take"),
)
FINISH = ("lock/version", "lock/clock", *_of_lock(SETTLE), "finish", "worse")
RELEASE: Script[ReleaseOutcome] = Script(__name__, "release", released, prelude=FINISH, ends=copied)
GIVE_BACK: Script[ReleaseOutcome] = Script(__name__, "release", released, prelude=FINISH)
NEST: Script[Kept | Missing] = Script(__name__, "nest", nested, no_nesting, (*_of_lock(STATE), "worse"))
RENEW = Script(__name__, "renew", renewed, no_renewal, (*_of_lock(STATE), "worse"))
INFO = Script(__name__, "info", decode.info, prelude=_of_lock(STATE))
SCRIPTS = (ACQUIRE, RELEASE, NEST, RENEW, INFO)
SPELT = 64
"""Up to so many names are spelt out where they are one."""


def joined(names: Sequence[str]) -> str:
    """Return one name for several; no two sets have the same. That of many names is short, as it is in each message."""
    whole = " + ".join(name.replace("+", "++") for name in names)
    if len(names) <= SPELT:
        return whole
    digest = hashlib.blake2b(whole.encode(), digest_size=16).hexdigest()
    return f"{names[0]} + … + {names[-1]} ({len(names)} names, {digest})"


class MultiCalls:
    """Requests about several lock names at once.

    Args:
        keys: names the keys.
        names: the locks' names, sorted, each once.
    """

    __slots__ = ("_channel", "_dead", "_keys", "name", "names")

    kind = "multi"
    weight = 1
    free_channel = ""  # the manager gets a message for a grant
    mark = SEVERAL
    ordered = False
    transfers = False
    queues = True
    one_refresh = False
    keeps = False

    def __init__(self, keys: Keys, names: Sequence[str]) -> None:
        self.name: str = joined(names)
        self.names: tuple[str, ...] = tuple(names)
        parts = [keys.of(LockCalls.kind, name) for name in names]
        self._dead = parts[0].dead
        self._keys = tuple(key for part in parts for key in part.of_lock)
        self._channel = keys.managers

    @property
    def states(self) -> Sequence[str]:
        """The key of each name's state."""
        return self._keys[::3]

    @property
    def groups(self) -> Sequence[MultiCalls]:
        """The same, for the names of each group: all are in one."""
        return (self,)

    def upto(self, count: int) -> MultiCalls:
        """Return requests about the first `count` groups."""
        return self

    @property
    def renew_many(self) -> Combiner[RenewOutcome]:
        """Makes one request of many renewals."""
        return renew

    @property
    def refresh_many(self) -> Combiner[RefreshOutcome]:
        """Makes one request of many waiters' refreshes, including those of plain locks."""
        return Combiner(REFRESH, (self._channel,))

    def acquire(self, bid: Bid) -> Call[AcquireOutcome]:
        """Hold all names, or queue.

        An owner that has none of the names queues for one, `Queued.part`: the one with the oldest hold. When it is
        granted that, it has a reservation. The same request then keeps it for another `liveness_ms` of the bid,
        reserves what is free, takes what younger owners have reserved, and queues for all others. Only `Granted` says
        that the names are held.

        Args:
            bid: who wants them; with the number that `Queued.queue_number` said before it keeps its place, in other
                queues, too.
        """
        owner, ttl_ms, floor, metadata, liveness_ms, counted, number = bid
        args: tuple[Arg, ...] = (owner, ttl_ms, floor, metadata, liveness_ms, int(counted), self._channel)
        return Call(self.name, ACQUIRE, (self._dead(owner), *self._keys), (*args, number, *self.names))

    def refresh(self, bid: Bid, part: str = "") -> Part:
        """Return a heartbeat of an owner that has none of the names, and queues for `part`; '' is the first name.

        The answer is that to a plain lock's waiter: `Granted` is a reservation of the one name.
        """
        at = 3 * self.names.index(part) if part else 0
        return Part(self._keys[at : at + 3], (bid.owner, bid.liveness_ms, int(bid.counted), told(bid.metadata)[0]))

    def release(self, owner: str, ttl_ms: int, left: int, ending: Ending, tainted: bool) -> Call[ReleaseOutcome]:
        """Lower the owner's depth to `left`; at 0 it leaves all names and their queues."""
        return self._release(RELEASE, owner, ttl_ms, left, ending, ttl_ms + GRACE_MS if tainted else 0)

    def give_back(self, owner: str, ttl_ms: int, keep: str) -> Call[ReleaseOutcome]:
        """End what the owner has reserved, and leave all queues except that of the name `keep`.

        What it holds permanently stays, so a late copy changes nothing. The answer means nothing.
        """
        call = self._release(GIVE_BACK, owner, ttl_ms, 0, "back", 0)
        at = 1 + 3 * self.names.index(keep)
        call.keys = (*call.keys[:at], *call.keys[at + 3 :])
        return call

    def _release(
        self, script: Script[ReleaseOutcome], owner: str, ttl_ms: int, left: int, ending: str, dead_ms: int
    ) -> Call[ReleaseOutcome]:
        args: tuple[Arg, ...] = (owner, ttl_ms + GRACE_MS, self._channel, ending, left, dead_ms)
        return Call(self.name, script, (self._dead(owner), *self._keys), args)

    def nest(self, owner: str, fence: int, ttl_ms: int, depth: int) -> Call[Kept | Missing]:
        """Raise the depth of a hold in all names, and extend it."""
        return Call(self.name, NEST, self._keys[::3], (owner, fence, ttl_ms, depth))

    def renewal(self, owner: str, fence: int, ttl_ms: int) -> Part:
        """Extend a hold; never what is only reserved."""
        return Part(self._keys[::3], (owner, fence, ttl_ms, len(self.names)))

    def departure(self, manager: str) -> Call[bool]:
        """Forget that a manager lives: it closes, and waits no more."""
        return Call(self.name, DEPART, self._keys[2::3], (manager,))

    def info(self) -> Call[list[Held | None]]:
        """Ask who holds which of the names."""
        return Call(self.name, INFO, self._keys[::3], ())


class _Renewals(Combiner[RenewOutcome]):
    """Makes one request that extends many holds of several names each; or one whose names are in several groups."""

    __slots__ = ()

    most_keys: ClassVar[int] = 256  # a script extends a name in about 0.01 ms

    def __call__(self, parts: Iterable[Part]) -> Call[list[RenewOutcome]]:
        parts = tuple(parts)
        if parts and isinstance(parts[0], JointPart):
            return JointCall("", [self((part,)) for part in parts[0].parts], join.renewed)
        return super().__call__(parts)


renew: Combiner[RenewOutcome] = _Renewals(RENEW)
