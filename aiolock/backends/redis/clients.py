"""What we take from redis-py and valkey-py: how to connect. Everything that depends on their versions is in this file.

Private names of redis-py: `Connection._reader` and `Connection._writer`, the streams that it opened, and what it opens
them with, `Connection._connection_arguments`. A version that may not have them is refused by name. valkey-py does not
run: only the settings of its client are read.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeGuard
from urllib.parse import urlsplit

import redis

from ...errors import ConfigurationError
from .credentials import Credentials

OLDEST = (5, 0, 1)
NEWEST = 8
"""The newest major version of redis-py that is known to work."""
_UNKNOWN = "99.99.99"
"""The version that redis-py 5 reports if it was packed without its metadata."""

CONNECT_TIMEOUT = 10.0
_NOT_TAKEN = frozenset(
    {
        "connection_pool",
        "encoder_class",
        "himport_registry",
        "maint_notifications_config",
        "maint_notifications_pool_handler",
        "maintenance_notification_hash",
        "maintenance_state",
        "oss_cluster_maint_notifications_handler",
        "orig_host_address",
        "orig_socket_connect_timeout",
        "orig_socket_timeout",
        "parser_class",
        "retry",
        "retry_on_error",
        "retry_on_timeout",
    }
)
"""Retries, reading and the pool's own settings: ours differ."""
_OF_VALKEY = frozenset(
    {
        "client_name",
        "credential_provider",
        "db",
        "encoding",
        "encoding_errors",
        "host",
        "password",
        "path",
        "port",
        "socket_connect_timeout",
        "socket_keepalive",
        "socket_keepalive_options",
        "socket_type",
        "username",
    }
)
"""The same settings in redis-py, beside `ssl_…`."""


class Client(Protocol):
    """A `redis.asyncio.Redis` or `valkey.asyncio.Valkey`."""

    @property
    def connection_pool(self) -> object:
        """It has settings."""

    def aclose(self) -> Awaitable[None]:
        """It is not a client that blocks."""


class ClusterClient(Protocol):
    """A `redis.asyncio.RedisCluster` or `valkey.asyncio.ValkeyCluster`."""

    @property
    def nodes_manager(self) -> object:
        """It has the nodes that it was given."""

    def aclose(self) -> Awaitable[None]:
        """It is not a client that blocks."""


class Connection(Protocol):
    """The part of redis-py's connection that we use."""

    _reader: asyncio.StreamReader | None
    _writer: asyncio.StreamWriter | None

    async def connect(self) -> None:
        """Open the streams, authenticate, and select the database."""


Remap = Callable[[tuple[str, int]], tuple[str, int]]
"""Where a client reaches the node that announces this host and port."""
Recipe = tuple[Callable[..., Connection], dict[str, Any]]
"""What creates a connection, and its keywords."""


def check_version(installed: str) -> None:
    """Raise a `ConfigurationError` if redis-py `installed` is not among the versions that work."""
    numbers = tuple(int(part) for part in installed.split(".")[:3] if part.isdecimal())
    wanted = f"'redis>={'.'.join(map(str, OLDEST))},<{NEWEST + 1}'"
    if numbers < OLDEST:
        raise ConfigurationError("", f"redis-py {installed} is too old for this aiolock: pip install {wanted}")
    if numbers[0] > NEWEST and installed != _UNKNOWN:
        raise ConfigurationError(
            "", f"redis-py {installed} is newer than this aiolock: upgrade aiolock-redis, or pip install {wanted}"
        )


def recipe(source: str | Client, protocol: int) -> Recipe:
    """Return how to connect as `source` does.

    Args:
        source: a URL or client.
        protocol: 3 if messages may arrive between replies, otherwise 2.

    Raises:
        ConfigurationError: not a URL or client of one server; or an unknown version of redis-py.
    """
    check_version(redis.__version__)
    if isinstance(source, str):
        return adapted(_of_url(source), protocol)
    packages = _packages(source)
    if "fakeredis" in packages:
        raise ConfigurationError(
            "", "fakeredis cannot keep locks: give 'memory://' in tests (docs/how-to/testing.md), or a server's URL"
        )
    made = _of_valkey(source) if "valkey" in packages else _of_redis(source)
    return adapted(made, protocol, source.connection_pool)


def adapted(made: Recipe, protocol: int, pool: object = None) -> Recipe:
    """Return a user's recipe without what we do in our own way; for one backend, whose credentials are its own.

    Args:
        made: what the user would connect with.
        protocol: as for `recipe`.
        pool: that of the user's client, if there is one.
    """
    kind, options = made
    host = options.get("orig_host_address")
    options = {key: value for key, value in options.items() if key not in _NOT_TAKEN}
    if host:
        options["host"] = host
    options.update(protocol=protocol, socket_timeout=None, decode_responses=False, health_check_interval=0)
    options.setdefault("socket_connect_timeout", CONNECT_TIMEOUT)
    if options.get("credential_provider") is not None:
        options["credential_provider"] = Credentials(options["credential_provider"], pool)
    return kind, options


def is_cluster(source: object) -> TypeGuard[ClusterClient]:
    """Whether it is a cluster's asyncio client."""
    from redis.asyncio import RedisCluster

    if isinstance(source, RedisCluster):
        return True
    names = {f"{base.__module__}.{base.__qualname__}" for base in type(source).__mro__}
    return "valkey.asyncio.cluster.ValkeyCluster" in names


def of_cluster(source: Any) -> tuple[Recipe, list[tuple[str, int]], Remap | None]:
    """Return how a cluster's client connects, the nodes that it was given, and where it reaches others.

    Args:
        source: `is_cluster`.
    """
    from redis.asyncio import Connection as RedisConnection
    from redis.asyncio import SSLConnection

    check_version(redis.__version__)
    settings = source.connection_kwargs
    encrypted = settings["connection_class"].__name__ == SSLConnection.__name__
    options = settings_of(settings)
    nodes = [(str(node.host), int(node.port)) for node in source.nodes_manager.startup_nodes.values()]
    return (SSLConnection if encrypted else RedisConnection, options), nodes, source.nodes_manager.address_remap


def is_sentinel(source: object) -> TypeGuard[Client]:
    """Whether it is an asyncio client that a Sentinel made."""
    from redis.asyncio.sentinel import SentinelConnectionPool

    pool = getattr(source, "connection_pool", None)
    names = {f"{base.__module__}.{base.__qualname__}" for base in type(pool).__mro__}
    return isinstance(pool, SentinelConnectionPool) or "valkey.asyncio.sentinel.SentinelConnectionPool" in names


def of_sentinel(source: Any) -> tuple[str, Recipe, list[Recipe]]:
    """Return the service of a client that a Sentinel made, how its servers are reached, and how the Sentinels.

    Args:
        source: `is_sentinel`.

    Raises:
        ConfigurationError: it is a client of the replicas.
    """
    check_version(redis.__version__)
    pool = source.connection_pool
    if not pool.is_master:
        raise ConfigurationError("", "replicas keep no locks: give a client made by `sentinel.master_for(…)`")
    sentinels = [_plainly(client.connection_pool) for client in pool.sentinel_manager.sentinels]
    return str(pool.service_name), _plainly(pool), sentinels


def _plainly(pool: Any) -> Recipe:
    """How the connections of a pool are made, without what its own class adds."""
    from redis.asyncio import Connection as RedisConnection
    from redis.asyncio import SSLConnection

    names = {base.__name__ for base in pool.connection_class.__mro__}
    return SSLConnection if SSLConnection.__name__ in names else RedisConnection, settings_of(pool.connection_kwargs)


def of_host(host: str, port: int) -> Recipe:
    """Return how to connect to a host without credentials."""
    from redis.asyncio import Connection as RedisConnection

    return RedisConnection, {"host": host, "port": port}


def of_url(url: str) -> Recipe:
    """Return how a URL says to connect.

    Raises:
        ConfigurationError: not a URL of a server.
    """
    check_version(redis.__version__)
    return _of_url(url)


def take_streams(connection: Connection) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
    """Take the streams of `connection`: the caller must close them. None if none are open."""
    reader, connection._reader = connection._reader, None
    writer, connection._writer = connection._writer, None
    return (reader, writer) if reader is not None and writer is not None else None


async def open_on(connection: Connection, reached: socket.socket, context: ssl.SSLContext | None, host: str) -> None:
    """Open a connection on a socket that is connected; its end is the connection's, whatever happens.

    Args:
        connection: `is_direct`.
        reached: the socket.
        context: for TLS; None without.
        host: whose certificate the server must have.

    Raises:
        Exception: whatever redis-py raises.
    """
    left = [{"sock": reached, "ssl": context, "server_hostname": host if context else None}]
    vars(connection)["_connection_arguments"] = left.pop
    try:
        await connection.connect()
    finally:
        if left:  # the loop never got it
            reached.close()


def load_files(connection: Connection) -> ssl.SSLContext | None:
    """Load the files that TLS needs, and return its context; None if it is not used. redis-py would call a missing file
    an error of the network.

    Raises:
        OSError, ValueError: a file cannot be read, or does not hold what it must.
        TypeError: an option is of a wrong type.
    """
    settings = getattr(connection, "ssl_context", None)
    return None if settings is None else settings.get()  # which keeps it


def is_direct(kind: object) -> bool:
    """Whether connections of this class go to the host and port that they name, in the way that all know."""
    from redis.asyncio import Connection as RedisConnection
    from redis.asyncio import SSLConnection

    return kind in (RedisConnection, SSLConnection)


def _packages(client: Client) -> set[str]:
    """Return the packages of the classes of a client and of its connections."""
    connecting = getattr(getattr(client, "connection_pool", None), "connection_class", None)
    classes = (*type(client).__mro__, *getattr(connecting, "__mro__", ()))
    return {base.__module__.partition(".")[0] for base in classes}


def _of_redis(source: object) -> Recipe:
    from redis.asyncio import Connection as RedisConnection
    from redis.asyncio import Redis, RedisCluster, Sentinel
    from redis.asyncio.sentinel import SentinelConnectionPool

    if isinstance(source, RedisCluster):
        raise ConfigurationError("", "a Redis Cluster client is not a single server: give it to LockManager alone")
    if isinstance(source, Sentinel):
        raise ConfigurationError(
            "", "a redis.asyncio.Sentinel is not a client: give LockManager(sentinel.master_for(service))"
        )
    if not isinstance(source, Redis):
        raise _no_client(source)
    pool = source.connection_pool
    if isinstance(pool, SentinelConnectionPool):
        raise ConfigurationError("", "a client made by a Sentinel is not a single server: give it to LockManager alone")
    kind = pool.connection_class
    if kind.read_response is not RedisConnection.read_response:
        raise ConfigurationError(
            "", f"{kind.__qualname__} reads replies in its own way, and a lock's connection would not: "
            "give a URL, or a client without it",
        )  # fmt: skip
    return kind, dict(pool.connection_kwargs)


def _of_valkey(source: object) -> Recipe:
    from redis.asyncio import Connection as RedisConnection
    from redis.asyncio import SSLConnection, UnixDomainSocketConnection

    pool = getattr(source, "connection_pool", None)
    if pool is None:
        raise _no_client(source)
    kinds: dict[str, type[Any]] = {
        "valkey.asyncio.connection.Connection": RedisConnection,
        "valkey.asyncio.connection.SSLConnection": SSLConnection,
        "valkey.asyncio.connection.UnixDomainSocketConnection": UnixDomainSocketConnection,
    }
    theirs = f"{pool.connection_class.__module__}.{pool.connection_class.__qualname__}"
    if theirs not in kinds:
        raise ConfigurationError("", f"a client that connects by {theirs} cannot be used: give the URL of one server")
    options = settings_of(pool.connection_kwargs)
    options["redis_connect_func"] = pool.connection_kwargs.get("valkey_connect_func")
    return kinds[theirs], options


def settings_of(settings: dict[str, Any]) -> dict[str, Any]:
    """Those settings of another client's connections that redis-py's asyncio connections have, too."""
    return {
        key: value
        for key, value in settings.items()
        if value is not None and (key in _OF_VALKEY or key.startswith("ssl_"))
    }


def _no_client(source: object) -> ConfigurationError:
    kind = f"{type(source).__module__}.{type(source).__qualname__}"
    if kind in ("redis.client.Redis", "valkey.client.Valkey"):
        return ConfigurationError("", f"{kind} is a blocking client: give it to aiolock.sync.LockManager")
    return ConfigurationError(
        "",
        f"a URL, a redis.asyncio.Redis or a valkey.asyncio.Valkey of one server is needed, not {kind} (for several"
        " servers there are LockManager.cluster(), sentinel() and quorum())",
    )


_CUT_OFF = re.compile(r"(?:redis|valkey)s?://[^/?#]*(?:[/?#][^=]*@|/[^?#]*@|[\[\]][^/?#]*@)")
"""The host comes after what ends the part of a URL that names it: that is in the password."""
_FOREIGN = re.compile(r"(?!(?:rediss?|valkeys?|unix):)[\w.+-]+://")


def _of_url(url: str) -> Recipe:
    from redis.asyncio import ConnectionPool

    # Never the text of an error about a URL: it may quote the password.
    if _CUT_OFF.match(url):
        raise ConfigurationError(
            "", "the password in a URL has a character that ends the part of the host: percent-encode it: / is %2F, "
            "? is %3F, # is %23; urllib.parse.quote(password, safe='') does"
        )  # fmt: skip
    try:
        parts = urlsplit(url)
        if parts.scheme in ("valkey", "valkeys"):
            url = url.replace("valkey", "redis", 1)
        pool = ConnectionPool.from_url(url)
    except Exception:
        foreign = _FOREIGN.match(url)
        if foreign and "sentinel" in foreign[0]:
            text = f"{foreign[0]} is not supported: use LockManager.sentinel([(host, port), …], service=…)"
            raise ConfigurationError("", text) from None
        wrong = (
            "a part of the URL is wrong (a port is at most 65535)" if "://" in url else "not a URL that aiolock knows"
        )
        what = f"{foreign[0]} is not supported" if foreign else wrong
        raise ConfigurationError(
            "", f"{what}: write redis://[user:password@]host:port/db, rediss:// for TLS, unix://path, "
            "sqlite:///locks.db for a file, postgresql://user@host/database, mysql://user@host/database, "
            "etcd://host:port, zookeeper://host:port, or memory:// for tests (percent-encode special characters in a "
            "password)"
        ) from None  # fmt: skip
    if parts.scheme == "unix" and not parts.path:
        raise ConfigurationError("", "a unix:// URL needs the path of the socket")
    if parts.scheme != "unix" and not parts.path.strip("/").isdecimal() and parts.path.strip("/"):
        raise ConfigurationError("", "the path of a Redis URL is the number of the database, as in redis://host:6379/0")
    return pool.connection_class, dict(pool.connection_kwargs)
