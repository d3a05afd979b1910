"""What you can create a manager with: a URL, a client, or a backend. What keeps its locks is imported on first use."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from ..errors import ConfigurationError
from ..event_log import log_event
from ..events import Event
from .base import Backend
from .presence import PRESENCE, Presence
from .stores import store_of

if TYPE_CHECKING:
    from .redis import Client, ClusterClient, Replicas
    from .redis.seeds import Seeds
    from .redis.sentinels import Sentinels
    from .stores import Database
    from .transactional.engine import Engine


def backend_of(
    source: str | Client | ClusterClient | Seeds | Sentinels | Backend | Database,
    request_timeout: float,
    namespace: str,
    replicas: Replicas | None = None,
    pushes: bool = True,
    tell: Callable[[Event], None] = log_event,
    presence: Presence = PRESENCE,
) -> Backend:
    """The backend of what a manager is made with.

    Args:
        source: a URL, a client, some nodes of a cluster, the Sentinels of a master, a pool or an engine of PostgreSQL,
            or a backend.
        request_timeout: seconds one answer of a server may take.
        namespace: prefix of all keys and channels.
        replicas: the replicas that must acknowledge a grant; None for none.
        pushes: False if there will be no subscription.
        tell: told of connections that are lost and back; not if the source is a backend.
        presence: how the servers know the manager.

    Raises:
        ConfigurationError: a source or namespace that cannot work, or a source without replicas.
    """
    store = store_of(source)
    if replicas is not None and (store or isinstance(source, Backend)):
        raise ConfigurationError("", "min_replicas needs the URL of a server: this backend has no replicas")
    if isinstance(source, str) and store == "memory":
        from .memory import MemoryBackend, named_store

        return MemoryBackend(named_store(source.removeprefix("memory://")))
    if isinstance(source, str) and store == "etcd":
        from .coordinator import CoordinatorBackend
        from .coordinator.paths import Paths
        from .etcd import EtcdAddress, EtcdCluster, EtcdStore

        cluster = EtcdCluster(EtcdAddress(source), Paths(namespace).mailbox(""))
        return CoordinatorBackend(EtcdStore(cluster), namespace, request_timeout, tell)
    if isinstance(source, str) and store == "zookeeper":
        from .coordinator import CoordinatorBackend
        from .zookeeper import ZooKeeperAddress, ZooKeeperStore

        return CoordinatorBackend(ZooKeeperStore(ZooKeeperAddress(source)), namespace, request_timeout, tell)
    if store:
        from .transactional import TransactionalBackend

        engine = _engine(store, cast("str | Database", source), request_timeout, pushes)
        return TransactionalBackend(engine, None, request_timeout, tell)
    if isinstance(source, Backend):
        return source
    from .servers import servers_of

    servers = cast("str | Client | ClusterClient | Seeds | Sentinels", source)
    return servers_of(servers, request_timeout, namespace, replicas, pushes, tell, presence)


def _engine(store: str, source: str | Database, request_timeout: float, pushes: bool) -> Engine:
    if store == "sqlite" and isinstance(source, str):
        from .sqlite import SQLiteEngine, path_of

        return SQLiteEngine(path_of(source), request_timeout)
    if store == "mysql" and isinstance(source, str):
        from .mysql import MySQLEngine

        return MySQLEngine(source, request_timeout, pushes)
    from .postgres import PostgresEngine

    return PostgresEngine(source, request_timeout, pushes)
