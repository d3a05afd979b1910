"""The front door: its options and its lifecycle."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Unpack

from .backends.base import Backend
from .backends.factory import backend_of
from .backends.presence import Presence
from .clock import format_seconds
from .core.lifecycle import Lifecycle
from .core.observers import Observers
from .core.policy import (
    Policy,
    ShortTtl,
    check_duration,
    check_flag,
    check_least,
    check_margin,
    check_timeout,
    check_ttl,
)
from .core.polling import Poll
from .core.runtime import Runtime
from .core.services import Limits
from .errors import ConfigurationError
from .events import Observer
from .identity import check_manager_name
from .manager_options import HINTS, RIGHT, ManagerOptions, QuorumOptions, replicas_of
from .primitives.factory import LockFactory
from .primitives.kinds import lock_calls
from .usage import AsyncOnly, Renamed, usage

if TYPE_CHECKING:
    from .backends.redis import Client, ClusterClient
    from .backends.redis.seeds import Seeds
    from .backends.redis.sentinels import Sentinels
    from .backends.stores import Database

PING = "ping"
"""The name of the lock that `ping()` looks at; whether anybody has it does not matter."""


class LockManager(LockFactory, AsyncOnly, Renamed):
    """All locks of one process and event loop: one connection (two with `min_replicas`) and one timer, however many
    locks.

    Creating one does no I/O and needs no loop. `async with manager:` connects, or `await manager.open()` in a start-up
    hook. After you leave it you can enter it again, on another loop too. If you fork, enter it after the fork.

    Wherever you pass seconds, you may pass a `datetime.timedelta`.

    Args:
        source: `redis://`, `rediss://`, `valkey://`, `valkeys://` or `unix://` URL; a `redis.asyncio.Redis` or
            `valkey.asyncio.Valkey`, whose address and credentials are used for a separate connection, or the same of a
            cluster; `sqlite:///locks.db` for a file that all processes of one host share, `sqlite:////var/locks.db` by
            an absolute path; `postgresql://user@host/database`, or an `asyncpg.Pool` or an `AsyncEngine` of SQLAlchemy,
            whose settings are used for connections of our own; `mysql://user@host/database` for MariaDB and MySQL;
            `etcd://host:2379`; `zookeeper://host:2181`;
            `memory://` for one store per manager, or `memory://name` for one shared in this process, without a warning
            as `memory://name?processes=1`; or a backend (see `aiolock.testing`).
        name: who it is, for people: `info()`, the errors of those that wait, `aiolock ls`, and CLIENT LIST show
            `name@host:pid`; 64 printable ASCII characters without spaces at most. Without one they show `host:pid`. In
            a container whose host name is not its id they show that, too: `name@host/id:pid`.
        namespace: prefix of all keys and channels; printable, without braces and spaces.
        ttl: seconds the server keeps a lock without renewal, 0.1 s to 30 days; it is renewed every third of that.
        margin: seconds before the server's expiry at which a lease counts as lost here, your block's clean-up budget;
            None for ttl/10, within 0.05 and 3.
        acquire_timeout: seconds an acquire may wait; None for no limit, as with `asyncio.Lock`.
        renew: False makes fixed leases, which end at their deadline.
        request_timeout: seconds one answer of the server may take.
        keepalive: seconds of silence after which the server is pinged, while nothing is held or
            waited for: that keeps a path through a proxy or NAT open. Otherwise it is asked after `request_timeout`.
        recheck: seconds after which a waiter asks at the latest, whatever it has heard. It matters for latches and for
            a quorum, which have no queue; a waiter in a queue asks every third of `liveness` anyway.
        handoff_limit: how often a release may hand the lock on inside this process in one turn, while other processes
            wait; 0 for never. A turn also ends once it has served the tasks that waited when it began, and after 20 ms.
            Every waiter enters within `processes x (handoff_limit + 2)` sections. On a quorum, which has no queue,
            this many hand-offs in a row are followed by a pause of 50 ms.
        liveness: seconds for which a process that waits in a queue counts as alive without a heartbeat; it sends one
            every third of that. Make it longer than the longest stall of the event loop: a process that is silent for
            longer loses its place. Make it shorter than you can wait for a frozen process whose turn it is. A
            grant after a wait lasts this long at most; the process asks, and enters once the server has made it last
            for the ttl.
        waiting: with `Poll(…)` waiters ask again and again instead of getting messages, and the connection uses RESP2;
            for servers and proxies without pub/sub. Waiters keep their place in the queue. If the server refuses
            SUBSCRIBE, the manager chooses `Poll()` by itself, with a WARNING.
        min_replicas: replicas that must acknowledge a grant or a renewal before it counts, from 1; otherwise it is
            undone. Count all replicas that could be promoted, if a failover must never make two holders. None asks for
            no replica.
        replica_timeout: seconds they may take; at most a tenth of the ttl and half of `request_timeout`.
        observer: called with each event of `aiolock.events`: what happens to locks and connections; or several of them.
            See `aiolock.events.Observer`. Metrics and traces are observers. The logs are there without one.

    Raises:
        ConfigurationError: an argument that cannot work.

    Example:
        ```python
        def watch(event: aiolock.events.Event) -> None:
            if isinstance(event, aiolock.events.Lost):
                print(f"{event.name!r} was lost after {event.held:.1f} s: {event.explanation}")

        locks = LockManager("redis://localhost:6379/0", observer=watch)
        ```
    """

    _called = "locks"

    @usage(RIGHT, HINTS)
    def __init__(
        self,
        source: str | Client | ClusterClient | Seeds | Sentinels | Backend | Database,
        *,
        name: str | None = None,
        namespace: str = "aiolock",
        ttl: float | timedelta = 30.0,
        margin: float | timedelta | None = None,
        acquire_timeout: float | timedelta | None = None,
        renew: bool = True,
        request_timeout: float | timedelta = 5.0,
        keepalive: float | timedelta = 30.0,
        recheck: float | timedelta = 5.0,
        handoff_limit: int = 16,
        liveness: float | timedelta = 3.0,
        waiting: Poll | None = None,
        min_replicas: int | None = None,
        replica_timeout: float | timedelta = 0.05,
        observer: Observer | Sequence[Observer] | None = None,
    ) -> None:
        lasting = check_ttl("", ttl)
        policy = Policy(
            ttl=lasting,
            margin=check_margin("", margin, lasting),
            acquire_timeout=check_timeout("", "acquire_timeout", acquire_timeout),
            renew=check_flag("", "renew", renew),
            max_hold=None,
            cancel_on_loss=True,
            metadata=None,
        )
        limits = Limits(
            check_duration("", "request_timeout", request_timeout, least=0.01),
            check_duration("", "recheck", recheck, least=0.01),
            check_least("handoff_limit", handoff_limit, 0),
            check_duration("", "liveness", liveness, least=0.1),
        )
        if waiting is not None and not isinstance(waiting, Poll):
            raise ConfigurationError("", f"waiting must be aiolock.Poll(…) or None, not {waiting!r}")
        replicas = replicas_of(min_replicas, replica_timeout, lasting, limits.request_timeout, namespace)
        presence = Presence(check_manager_name(name), check_duration("", "keepalive", keepalive, least=0.1))
        observers = Observers(observer, presence.name)
        backend = backend_of(
            source, limits.request_timeout, namespace, replicas, waiting is None, observers.tell, presence
        )
        if waiting is None and not backend.abilities.messages:
            waiting = Poll()
        runtime = Runtime(backend, namespace, limits, waiting, observers, presence.name)
        super().__init__(runtime, policy, margin, replicas, ShortTtl(backend.abilities.notice))
        self._lifecycle = Lifecycle(runtime)

    @classmethod
    def cluster(cls, urls: Sequence[str], **options: Unpack[ManagerOptions]) -> LockManager:
        """Return a manager whose locks are kept by the masters of a Redis Cluster; it offers everything.

        Each name is on one master, and moves with its slot. There is one connection to each master that serves a name
        in use, two with `min_replicas`, and one more while something is held or waited for. `LockManager(client)` with
        a `redis.asyncio.RedisCluster` does the same with that client's settings.

        Args:
            urls: of some of the nodes, with the same credentials and without a database. One is enough to find the
                others; list more in case it is down when you open the manager.
            options: as for `LockManager`.

        Raises:
            ConfigurationError: no URL, one with a database, different credentials, or an argument that cannot work.
                When you open the manager: a server is not part of a cluster.
        """
        from .backends.redis.seeds import Seeds

        return cls(Seeds(urls), **options)

    @classmethod
    def sentinel(
        cls,
        addresses: Sequence[tuple[str, int] | str],
        *,
        service: str,
        username: str | None = None,
        password: str | None = None,
        db: int = 0,
        **options: Unpack[ManagerOptions],
    ) -> LockManager:
        """Return a manager whose locks are kept by the master that Sentinels name, even after a failover.

        `LockManager(sentinel.master_for(service))` does the same with that client's settings, TLS for example.

        Args:
            addresses: of the Sentinels: `(host, port)`, or a URL with their own credentials. List all of them.
            service: what they call the master.
            username, password, db: of the master and its replicas.
            options: as for `LockManager`. Without `min_replicas` read docs/how-to/topologies.md.

        Raises:
            ConfigurationError: an argument that cannot work. On opening: no Sentinel there, or an unknown service.
        """
        from .backends.redis.sentinels import Sentinels

        return cls(Sentinels(addresses, service, username, password, db), **options)

    @classmethod
    def quorum(cls, sources: Sequence[str | Client | Backend], **options: Unpack[QuorumOptions]) -> LockManager:
        """Return a manager whose locks are held on a majority of independent servers, and survive the loss of the
        others.

        Read docs/how-to/quorum.md first: a quorum costs twice the round trips, and most users want one server and
        fences. It offers only `lock()`.

        Args:
            sources: three or more masters that share nothing, each as `LockManager` takes one; five survive the loss of
                two. Give all processes the same servers.
            ttl: seconds the servers keep a lock without renewal. A node that does not answer an acquire within a
                twentieth of it (0.25 s at least) is left out of that attempt.
            request_timeout: seconds an answer may take; a majority has half of it for anything but an acquire.

        The other arguments are those of `LockManager`.

        Raises:
            ConfigurationError: fewer than three servers, one of them twice, or an argument that cannot work.
        """
        from .backends.quorum import QuorumBackend  # only who uses it needs it
        from .backends.redis import is_cluster
        from .backends.redis.seeds import Seeds

        patience = check_duration("", "request_timeout", options.get("request_timeout", 5.0), least=0.01)
        if isinstance(sources, str) or not isinstance(sources, Sequence):
            raise ConfigurationError("", "a quorum needs a list of servers: LockManager.quorum([url, url, url])")
        if any(isinstance(source, Seeds) or is_cluster(source) for source in sources):
            raise ConfigurationError(
                "", "a cluster cannot be a node of a quorum, which needs servers that share nothing: use LockManager("
                "client, min_replicas=…), and the cluster's replicas"
            )  # fmt: skip
        namespace, pushes = options.get("namespace", "aiolock"), options.get("waiting") is None
        keepalive = check_duration("", "keepalive", options.get("keepalive", 30.0), least=0.1)
        presence = Presence(check_manager_name(options.get("name")), keepalive)
        tell = Observers(options.get("observer"), presence.name).tell
        nodes = [
            backend_of(source, patience, namespace, pushes=pushes, tell=tell, presence=presence) for source in sources
        ]

        def turns(node: Backend) -> LockManager:
            # Who has the turn and does not answer keeps all others waiting for no longer than this.
            locks = cls(node, namespace=f"{namespace}:turn", ttl=1.0, liveness=1.0, request_timeout=0.25)
            locks._runtime.observers.quiet = True  # a turn that is lost is no lock that is lost
            return locks

        return cls(QuorumBackend(nodes, request_timeout=patience, turns=turns if pushes else None), **options)

    async def open(self, *, strict: bool = True) -> LockManager:
        """Connect, if you cannot use `async with manager:`, as in a framework's start-up hook. Pair it with `close()`.

        Another task may close it, on the same event loop. Opening it twice is an error, as the first of two `close()`
        would take the locks from the code that expects the second. If one of several may open it, check `is_open`.

        Args:
            strict: False for a service that does more than what needs a lock: if the server does not answer, the
                manager is open anyway, with a WARNING, and keeps trying in the background. Until it has reached
                the server, `connected` is False, and all that asks it raises `BackendError` at once.

        Returns:
            The manager.

        Raises:
            BackendError: the server does not answer within `request_timeout`, if `strict`; or it refuses.
            ConfigurationError: open already, here or on another loop; still closing; closed meanwhile; no asyncio event
                loop runs (trio); or the server is too old.

        Cancellation: nothing stays open. Cost: one connection, two with `min_replicas`, and one subscription, none if
        it polls.

        Example:
            ```python
            app.on_startup.append(lambda app: locks.open())  # aiohttp
            app.on_cleanup.append(lambda app: locks.close())
            ```
        """
        await self._lifecycle.enter(strict)
        self._short.check(self._policy)
        return self

    async def close(self) -> None:
        """Close the manager. No acquire starts any more, and waiters get `NotAcquired`. Guarded blocks are cancelled
        with `CLOSED` and awaited for at most `request_timeout`; then their locks are released. Closing waits for the
        answers as long as some arrive, until there was none for `request_timeout`. A block that does not end keeps its
        key until its ttl. A task that is opening the manager gets `ConfigurationError`.

        It is harmless to close a manager that is closed or was never opened, or that another call is closing (which
        this call does not wait for), or in a forked child, whose parent keeps using the connection. You can open it
        again, on another loop too.

        A manager that you leave open is closed when `asyncio.run()` ends.

        Raises:
            ConfigurationError: it is open on another event loop, and stays open there; or no asyncio event loop runs.

        Cancellation: closes without further waiting; what was written stays written. No task, connection or key stays.
        """
        await self._lifecycle.close()

    @property
    def is_open(self) -> bool:
        """Whether locks may be asked for, in this process: opened, and not closed or closing. Without a server, too, if
        it was opened with `strict=False`. No I/O.

        Example:
            ```python
            if not locks.is_open:
                await locks.open()
            ```
        """
        return self._lifecycle.is_open

    async def ping(self) -> Literal[True]:
        """Ask the server now, as an acquire would: for a health check that must not trust the last attempt.

        It looks at a lock, so that the user's rights and the server's scripts are checked, too. On a quorum a majority
        answers, on a cluster one master.

        Returns:
            True.

        Raises:
            BackendError: no answer within `request_timeout`, Redis is unreachable or refuses.
            ConfigurationError: the manager is not entered, closed, of another loop, or of a parent process.

        Cancellation: nothing changes. Cost: one round trip, read-only.

        Example:
            ```python
            async with asyncio.timeout(1.0):
                await locks.ping()
            ```
        """
        await self._runtime.ask(lock_calls(self._runtime, PING).info(), "a ping that looks at")
        return True

    @property
    def connected(self) -> bool:
        """Whether it is open, and the server could be reached when that was last tried: for a readiness probe.

        On a quorum, a majority; on a cluster, each master that serves a name in use. No I/O: a server that no longer
        answers is noticed when the next request has had no answer for `request_timeout`. A held lock outlives an outage
        that is shorter than ttl × 2/3 − margin, so this is no reason to stop a process.

        Example:
            ```python
            @app.get("/ready")
            async def ready(response: Response) -> None:
                response.status_code = 200 if locks.connected else 503
            ```
        """
        return self._runtime.binding.ready and self._runtime.backend.unreachable is None

    async def aclose(self) -> None:
        """The same as `close()`, by the name that `contextlib.aclosing` calls."""
        await self._lifecycle.close()

    async def __aenter__(self) -> LockManager:
        """Connect, as `open()` does."""
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._lifecycle.close()

    def __repr__(self) -> str:
        runtime = self._runtime
        state = "closed" if not runtime.binding.bound else f"holds={len(runtime.holds)}"
        name = f"{runtime.binding.name!r} " if runtime.binding.name else ""
        return f"<LockManager {name}ttl={format_seconds(self._policy.ttl)} {state}>"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a LockManager cannot leave its process: create one in the other process")
