"""The front door: lifecycle and factories."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn

from .backends.base import Backend
from .backends.memory import MemoryBackend, named_store
from .backends.quorum import QuorumBackend
from .backends.redis import RedisBackend
from .core.policy import (
    Policy,
    check_duration,
    check_margin,
    check_metadata,
    check_timeout,
    check_ttl,
)
from .core.runtime import Limits, Runtime
from .errors import ConfigurationError, LossReason
from .primitives.lock import DEFAULT, Default, Lock
from .scripts.keys import check_name

if TYPE_CHECKING:
    from redis.asyncio import Redis

OURS = {
    "timeout": "ttl= is how long the lock lives, acquire_timeout= how long an acquire may wait",
    "blocking_timeout": "acquire_timeout=",
    "blocking": "lock.try_acquire()",
    "sleep": "nothing: waiters are woken by a message",
    "thread_local": "nothing: reentrancy is by task",
    "lease_time": "ttl=",
    "wait": "acquire_timeout=",
    "auto_renewal": "renew=",
    "expire": "ttl=",
}


class LockManager:
    """All locks of one process and event loop: one connection, one watchdog, however many locks.

    Making one does no I/O and needs no loop. `async with manager:` connects; after that it can be entered again, on
    another loop too. Enter it after a fork, not before.

    Args:
        source: `redis://`, `rediss://` or `unix://` URL; a `redis.asyncio.Redis`, whose address and credentials are
            used for a connection of our own; `memory://` for one store a manager, or `memory://name` for one shared
            in this process; or a backend (see `aiolock.testing`).
        namespace: prefix of all keys and channels; printable, without braces and spaces.
        ttl: seconds the server keeps a lock without renewal, 0.1 to 30 days; renewed at a third of it.
        margin: seconds before the server's expiry at which a lease counts as lost here, the body's clean-up budget;
            None for ttl/10, within 0.05 and 3.
        acquire_timeout: seconds an acquire may wait; None for without limit.
        renew: False makes fixed leases, which end at their deadline.
        request_timeout: seconds one answer of the server may take.
        recheck: seconds after which a waiter looks for itself, whatever it heard.
        handoff_limit: how often in a row a release hands the lock on inside this process while others wait.

    Raises:
        ConfigurationError: an argument that cannot work.
    """

    def __init__(
        self,
        source: str | Redis | Backend,
        *,
        namespace: str = "aiolock",
        ttl: float = 30.0,
        margin: float | None = None,
        acquire_timeout: float | None = None,
        renew: bool = True,
        request_timeout: float = 5.0,
        recheck: float = 5.0,
        handoff_limit: int = 16,
    ) -> None:
        self._margin = margin
        self._policy = Policy(
            ttl=check_ttl("", ttl),
            margin=check_margin("", margin, float(ttl)),
            acquire_timeout=check_timeout("", "acquire_timeout", acquire_timeout),
            renew=bool(renew),
            max_hold=None,
            cancel_on_loss=True,
            metadata=None,
        )
        if isinstance(handoff_limit, bool) or not isinstance(handoff_limit, int) or handoff_limit < 0:
            raise ConfigurationError("", f"handoff_limit must be a whole number from 0, not {handoff_limit!r}")
        limits = Limits(
            check_duration("", "request_timeout", request_timeout, least=0.01),
            check_duration("", "recheck", recheck, least=0.01),
            handoff_limit,
        )
        self._runtime = Runtime(_backend(source, limits.request_timeout), namespace, limits)
        self._entering = False

    @classmethod
    def quorum(
        cls,
        sources: Sequence[str | Redis | Backend],
        *,
        namespace: str = "aiolock",
        ttl: float = 30.0,
        margin: float | None = None,
        acquire_timeout: float | None = None,
        renew: bool = True,
        request_timeout: float = 5.0,
        recheck: float = 5.0,
        handoff_limit: int = 16,
    ) -> LockManager:
        """A manager whose locks are held on a majority of independent servers, and survive the loss of the others.

        Read docs/quorum.md first: it costs twice the round trips, and most users want one server and fences.

        Args:
            sources: three or more masters that share nothing, each as `LockManager` takes one; five survive the loss of
                two. All processes must be given the same servers.
            namespace: as for `LockManager`, and so are the other options.
            ttl: seconds the servers keep a lock without renewal. A node that does not answer an acquire within a
                twentieth of it (0.25 s at least) is left out of that attempt.
            margin: see `LockManager`. A hundredth of the ttl and 2 ms more are taken off for drifting clocks.
            acquire_timeout: see `LockManager`.
            renew: see `LockManager`.
            request_timeout: see `LockManager`; a majority has half of it for anything but an acquire.
            recheck: see `LockManager`.
            handoff_limit: after so many acquisitions in a row by this process's tasks the lock is left to others for
                50 ms.

        Raises:
            ConfigurationError: fewer than three servers, one of them twice, or an argument that cannot work.
        """
        patience = check_duration("", "request_timeout", request_timeout, least=0.01)
        if isinstance(sources, str) or not isinstance(sources, Sequence):
            raise ConfigurationError("", "a quorum needs a list of servers: LockManager.quorum([url, url, url])")
        nodes = [_backend(source, patience) for source in sources]
        return cls(
            QuorumBackend(nodes, request_timeout=patience),
            namespace=namespace,
            ttl=ttl,
            margin=margin,
            acquire_timeout=acquire_timeout,
            renew=renew,
            request_timeout=request_timeout,
            recheck=recheck,
            handoff_limit=handoff_limit,
        )

    def lock(
        self,
        name: str,
        *,
        ttl: float | None = None,
        acquire_timeout: float | Default | None = DEFAULT,
        renew: bool | None = None,
        max_hold: float | None = None,
        cancel_on_loss: bool = True,
        metadata: str | None = None,
        **foreign: object,
    ) -> Lock:
        """A reentrant lock. No I/O; works before the manager is entered.

        Args:
            name: any text of 1 to 512 bytes in UTF-8.
            ttl: seconds, instead of the manager's.
            acquire_timeout: seconds an acquire may wait, or None for without limit, instead of the manager's.
            renew: instead of the manager's.
            max_hold: seconds a hold may last at most, however well it is renewed; None for no limit.
            cancel_on_loss: False lets the guarded body run on after a loss; `lease.lost`, `lease.reason` and
                `await lease.wait_lost()` tell, and the block still ends with `LockLost`.
            metadata: text that `info()` and timeouts of others show, next to this process's host and pid.

        Raises:
            ConfigurationError: an argument that cannot work.
            TypeError: a keyword of another library; names ours.
        """
        if foreign:
            _refuse_foreign(next(iter(foreign)))
        name = check_name(name)
        default = self._policy
        lasting = default.ttl if ttl is None else check_ttl(name, ttl)
        limit = default.acquire_timeout
        if not isinstance(acquire_timeout, Default):
            limit = check_timeout(name, "acquire_timeout", acquire_timeout)
        policy = Policy(
            ttl=lasting,
            margin=check_margin(name, self._margin, lasting),
            acquire_timeout=limit,
            renew=default.renew if renew is None else bool(renew),
            max_hold=None if max_hold is None else check_duration(name, "max_hold", max_hold, least=0.001),
            cancel_on_loss=bool(cancel_on_loss),
            metadata=check_metadata(name, metadata),
        )
        return Lock(self._runtime, name, policy)

    def _need_one_server(self, name: str, kind: str) -> None:
        """Raise in the factory of what a quorum does not offer; `kind` in the plural, such as "fair locks"."""
        if self._runtime.backend.nodes > 1:
            raise ConfigurationError(
                name, f"{kind} are not offered by a quorum, as {name!r} would be: make it from a LockManager of one "
                "server"
            )  # fmt: skip

    async def __aenter__(self) -> LockManager:
        """Connect.

        Raises:
            BackendError: the server does not answer within `request_timeout`, or refuses.
            ConfigurationError: entered already, or the server is too old.

        Cancellation: nothing stays open. Cost: one connection, one subscription.
        """
        runtime = self._runtime
        if runtime.bound and not runtime.usable:
            runtime.check("")
        if runtime.bound or self._entering:
            raise ConfigurationError("", "this manager is entered already: enter it once, and share it between tasks")
        self._entering = True
        try:
            await self._connect()
        finally:
            self._entering = False
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close: no new acquires, waiters are turned away, guarded blocks cancelled with `CLOSED` and awaited for
        `request_timeout` at most, then their locks released. A block that does not end keeps its key until its ttl.
        Harmless if it is closed already, and in a forked child, whose parent goes on using the connection.

        Cancellation: closes without waiting any longer; what was written stays written. No task, connection or key
        stays.
        """
        runtime = self._runtime
        if not runtime.usable or runtime.closing:
            return
        runtime.closing = True
        try:
            for gate in list(runtime.gates.values()):
                gate.close()
            for hold in list(runtime.holds.values()):
                hold.lose(LossReason.CLOSED)
            await runtime.drained()
        finally:
            try:
                for gate in list(runtime.gates.values()):
                    gate.expel()
                await runtime.backend.aclose()
            finally:
                runtime.unbind()
                await runtime.watchdog.stop()

    async def _connect(self) -> None:
        runtime = self._runtime
        patience = runtime.limits.request_timeout
        runtime.bind()
        try:
            await runtime.backend.open(timeout=patience, reconnected=self._verify)
            runtime.watchdog.start(runtime.backend)
            told = runtime.signals.listen(runtime.keys.manager(runtime.id), runtime.on_manager_message)
            limit = runtime.limit(
                told, runtime.clock.now() + patience, lambda: runtime.unanswered("", "subscribing for")
            )
            try:
                await told
            finally:
                runtime.watchdog.forget(limit)
        except BaseException:
            runtime.closing = True
            try:
                await runtime.backend.aclose()
            finally:
                runtime.unbind()
                await runtime.watchdog.stop()
            raise

    def _verify(self) -> None:
        for hold in list(self._runtime.holds.values()):
            hold.verify()

    def __repr__(self) -> str:
        runtime = self._runtime
        state = "closed" if not runtime.bound else f"holds={len(runtime.holds)}"
        return f"<LockManager ttl={self._policy.ttl:g} {state}>"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a LockManager cannot leave its process: make one in the other process")


def _backend(source: str | Redis | Backend, request_timeout: float) -> Backend:
    if isinstance(source, str):
        scheme, found, rest = source.partition("://")
        if scheme == "memory" and found:
            return MemoryBackend(named_store(rest))
        return RedisBackend(source, request_timeout=request_timeout)
    if isinstance(source, Backend):
        return source
    return RedisBackend(source, request_timeout=request_timeout)


def _refuse_foreign(keyword: str) -> NoReturn:
    if keyword in OURS:
        raise TypeError(f"lock() has no {keyword!r}; here it is {OURS[keyword]}")
    raise TypeError(f"lock() got an unexpected keyword argument {keyword!r}")
