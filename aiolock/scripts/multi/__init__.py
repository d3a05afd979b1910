"""The multi lock's scripts: several plain locks at once, all or none. They work on the very keys of the plain lock."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ..base import Arg, Call, Ending, Part, Script
from ..keys import DIRTY_MS, GRACE_MS, Keys
from ..lock import LockCalls
from ..lock.decode import renew as renewed
from ..outcomes import AcquireOutcome, Held, ReleaseOutcome, RenewOutcome, no_grant, no_renewal
from . import decode, twins

ACQUIRE: Script[AcquireOutcome] = Script(__name__, "acquire", twins.acquire, decode.acquire, no_grant, ("part", "read"))
RELEASE = Script(__name__, "release", twins.release, decode.release, prelude=("part", "ends"))
RENEW = Script(__name__, "renew", twins.renew, renewed, no_renewal, ("part",))
INFO = Script(__name__, "info", twins.info, decode.info)
SCRIPTS = (ACQUIRE, RELEASE, RENEW, INFO)


def joined(names: Sequence[str]) -> str:
    """One name for several; no two sets have the same."""
    return " + ".join(name.replace("+", "++") for name in names)


class MultiCalls:
    """Requests about several lock names at once.

    Args:
        keys: how keys are named.
        names: the locks' names, sorted, each once.
    """

    __slots__ = ("_dead", "_keys", "_marked", "_names", "channels", "name")

    kind = "multi"
    weight = 1

    def __init__(self, keys: Keys, names: Sequence[str]) -> None:
        self.name: str = joined(names)
        self._names = tuple(names)
        parts = [keys.of(LockCalls.kind, name) for name in names]
        self._dead = parts[0].dead
        self._keys = tuple(key for part in parts for key in (part.lock, part.state))
        self._marked = tuple(key for part in parts for key in (part.lock, part.state, part.polled))
        self.channels: tuple[str, ...] = tuple(part.free for part in parts)

    @property
    def batch(self) -> Callable[[Iterable[Part]], Call[list[RenewOutcome]]]:
        """What makes one request of many renewals."""
        return renew

    def acquire(
        self,
        owner: str,
        ttl_ms: int,
        floor: int,
        metadata: str,
        depth: int = 1,
        fence: int = 0,
        queue_number: int = 0,
        mark_ms: int = 0,
    ) -> Call[AcquireOutcome]:
        state_ms = max(DIRTY_MS, ttl_ms + GRACE_MS)
        args: tuple[Arg, ...] = (owner, ttl_ms, depth, fence, floor, metadata, state_ms, mark_ms, *self._names)
        return Call(self.name, ACQUIRE, (self._dead(owner), *self._marked), args)

    def release(self, owner: str, ttl_ms: int, left: int, ending: Ending, tainted: bool) -> Call[ReleaseOutcome]:
        grace = ttl_ms + GRACE_MS
        args: tuple[Arg, ...] = (owner, left, ending, grace, grace if tainted else 0, *self.channels)
        return Call(self.name, RELEASE, (self._dead(owner), *self._keys), args)

    def renewal(self, owner: str, fence: int, ttl_ms: int) -> Part:
        return Part(self._keys, (owner, str(fence), ttl_ms, len(self._names)))

    def info(self) -> Call[list[Held | None]]:
        return Call(self.name, INFO, self._keys, ())


def renew(parts: Iterable[Part]) -> Call[list[RenewOutcome]]:
    """One request that extends many holds of several names each."""
    keys: list[str] = []
    args: list[Arg] = [DIRTY_MS]
    for part in parts:
        keys += part.keys
        args += part.args
    return Call("", RENEW, keys, args)
