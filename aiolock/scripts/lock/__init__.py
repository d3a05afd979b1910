"""The lock's scripts, and how a request to each is written."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..base import Arg, Call, Ending, Part, Script
from ..keys import DIRTY_MS, GRACE_MS, Keys
from ..outcomes import AcquireOutcome, Held, ReleaseOutcome, RenewOutcome, TransferOutcome, no_grant, no_renewal
from . import decode, twins

ACQUIRE: Script[AcquireOutcome] = Script(__name__, "acquire", twins.acquire, decode.acquire, no_grant)
RELEASE = Script(__name__, "release", twins.release, decode.release)
TRANSFER: Script[TransferOutcome] = Script(__name__, "transfer", twins.transfer, decode.transfer, no_grant)
RENEW = Script(__name__, "renew", twins.renew, decode.renew, no_renewal)
FORCE_RELEASE = Script(__name__, "force_release", twins.force_release, decode.flag)
INFO = Script(__name__, "info", twins.info, decode.info)
CONFIRM = Script(__name__, "confirm", twins.confirm, decode.flag)
SCRIPTS = (ACQUIRE, RELEASE, TRANSFER, RENEW, FORCE_RELEASE, INFO, CONFIRM)


class LockCalls:
    """Requests about one lock name.

    Args:
        keys: how keys are named.
        name: the lock's name.
    """

    __slots__ = ("_key_names", "_keys", "channels", "name")

    kind = "lock"
    weight = 1

    def __init__(self, keys: Keys, name: str) -> None:
        self.name: str = name
        self._keys = keys.of(self.kind, name)
        self._key_names = keys
        self.channels: tuple[str, ...] = (self._keys.free,)

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
        keys = self._keys
        named = (keys.lock, keys.state, keys.dead(owner))
        args = (owner, ttl_ms, floor, metadata)
        if mark_ms:
            return Call(self.name, ACQUIRE, (*named, keys.polled), (*args, depth, fence, mark_ms))
        return Call(self.name, ACQUIRE, named, args if depth == 1 and fence == 0 else (*args, depth, fence))

    def release(self, owner: str, ttl_ms: int, left: int, ending: Ending, tainted: bool) -> Call[ReleaseOutcome]:
        keys, grace = self._keys, ttl_ms + GRACE_MS
        args: tuple[Arg, ...] = (owner, grace, keys.free)
        if tainted:
            args = (*args, ending, left, grace)
        elif left or ending != "clean":
            args = (*args, ending, left)
        return Call(self.name, RELEASE, (keys.lock, keys.state, keys.dead(owner)), args)

    def transfer(
        self, owner: str, fence: int, successor: str, ttl_ms: int, floor: int, metadata: str, tainted: bool
    ) -> Call[TransferOutcome]:
        keys = self._keys
        dead_ms = ttl_ms + GRACE_MS if tainted else 0
        args = (owner, fence, successor, ttl_ms, floor, metadata, _dirty(ttl_ms), dead_ms, keys.free)
        named = (keys.lock, keys.state, keys.dead(owner), keys.dead(successor), keys.polled)
        return Call(self.name, TRANSFER, named, args)

    def renewal(self, owner: str, fence: int, ttl_ms: int) -> Part:
        return Part((self._keys.lock, self._keys.state), (owner, str(fence), ttl_ms))

    def force_release(self, fence: int = 0) -> Call[bool]:
        before, _, after = self._key_names.manager("*").partition("*")
        args = (fence, self._keys.free, before, after)
        return Call(self.name, FORCE_RELEASE, (self._keys.lock, self._keys.state), args)

    def info(self) -> Call[Held | None]:
        return Call(self.name, INFO, (self._keys.lock, self._keys.state), ())


def _dirty(ttl_ms: int) -> int:
    """How long a state lasts from a grant: never less than the lock it belongs to."""
    return max(DIRTY_MS, ttl_ms + GRACE_MS)


def renew(parts: Iterable[Part]) -> Call[list[RenewOutcome]]:
    """One request that extends many holds, each judged by itself."""
    keys: list[str] = []
    args: list[Arg] = [DIRTY_MS]
    for part in parts:
        keys += part.keys
        args += part.args
    return Call("", RENEW, keys, args)


def confirm(acquire: Call[AcquireOutcome], minted: int, agreed: int) -> Call[bool]:
    """What follows an `acquire` that was granted under the fence `minted`, where a quorum agreed on another."""
    return Call(acquire.name, CONFIRM, acquire.keys[:2], (acquire.args[0], minted, agreed))
