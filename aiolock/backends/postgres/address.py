"""Where a database is, and how one connects to it: as a URL says it, or your pool, or your engine of SQLAlchemy."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl, quote, unquote, urlsplit, urlunsplit

from ...errors import ConfigurationError
from ..resolver import Resolver

if TYPE_CHECKING:
    import asyncpg
    from sqlalchemy.ext.asyncio import AsyncEngine

EXAMPLE = "postgresql://user@host:5432/database"
WRONG = (
    f"not the URL of a PostgreSQL database, as {EXAMPLE} is: a port must be a number below 65536, and in a user, a "
    "password or a database each of / ? # [ ] @ must be percent-encoded, as %2F"
)
OURS = frozenset(
    {
        *("connection_class", "record_class", "loop", "timeout", "command_timeout"),
        *("statement_cache_size", "max_cached_statement_lifetime", "max_cacheable_statement_size"),
        *("prepared_statement_cache_size", "prepared_statement_name_func"),  # of SQLAlchemy
    }
)
"""Settings of a connection that are about its use, not about the way to the server: ours has its own."""
OF_LIBPQ = {"dbname": "database", "host": "host", "port": "port", "user": "user", "password": "password"}
"""What psycopg calls the settings that asyncpg has, too. The rest, such as TLS, it spells otherwise."""


class Address(NamedTuple):
    """A database.

    Attributes:
        name: what it is called in errors and logs: no user, and no password.
        settings: returns what `asyncpg.connect()` gets. It is asked for each connection, as passwords may change.
        resolver: looks up its hosts.
        listen: the same database, for what listens, if the way to this one is a pooler; None if it is not said.
    """

    name: str
    settings: Callable[[], Mapping[str, Any]]
    resolver: Resolver
    listen: Address | None = None


def address_of(source: str | asyncpg.Pool[Any] | AsyncEngine) -> Address:
    """Read a URL, also one that is written for SQLAlchemy, or the settings of a pool or an engine.

    Raises:
        ConfigurationError: it names no database, or makes its connections itself.
    """
    if isinstance(source, str):
        return _of_url(source)
    return _of_pool(source) if hasattr(source, "get_size") else _of_engine(source)


def _of_url(url: str) -> Address:
    scheme, mark, rest = url.partition("://")
    dsn = f"{scheme.partition('+')[0]}://{rest}"
    try:
        parts = urlsplit(dsn)
    except ValueError:
        raise ConfigurationError("", WRONG) from None  # it may quote the password
    hosts = parts.netloc.rpartition("@")[2]
    if not mark or parts.fragment or "@" in (parts.path or parts.query):
        raise ConfigurationError("", WRONG)
    ports = [host.rpartition("]")[2].partition(":")[2] for host in hosts.split(",")]
    if not all(re.fullmatch("[0-9]{1,5}", port, re.ASCII) and int(port) < 65_536 for port in ports if port):
        raise ConfigurationError("", WRONG)
    query = dict(parse_qsl(parts.query))
    database = unquote(parts.path.strip("/")) or query.get("database", query.get("dbname", ""))
    if not database:
        raise ConfigurationError("", f"the URL of a PostgreSQL server must name a database, as in {EXAMPLE}")
    host = hosts or query.get("host", "localhost")
    server = query.get("listen")
    if server is None:
        return Address(f"{host}/{database}", lambda: {"dsn": dsn}, Resolver())
    mine = "&".join(one for one in parts.query.split("&") if not one.startswith("listen="))
    user, at, _ = parts.netloc.rpartition("@")
    direct = "" if server.startswith("/") else server  # a folder with a socket
    there = mine if direct else "&".join(filter(None, (mine, f"host={quote(server)}")))
    asked = urlunsplit(parts._replace(query=mine))
    heard = f"{parts.scheme}://{user}{at}{direct}{parts.path}?{there}".rstrip("?")
    return Address(f"{host}/{database}", lambda: {"dsn": asked}, Resolver(), _of_url(heard))


def _of_pool(pool: Any) -> Address:
    """Of asyncpg's pool. It is asked for no connection: those are for your requests, and may all be taken."""
    import asyncpg

    def settings() -> Mapping[str, Any]:
        if pool._connect is not asyncpg.connect:
            raise _own_connections("a pool with connect=")
        named = dict(zip(("dsn",), pool._connect_args, strict=False)) | pool._connect_kwargs
        return _plain(named)

    return Address(_name(settings()), settings, Resolver())


def _of_engine(engine: Any) -> Address:
    """Of SQLAlchemy's engine: what it would connect with, as its events have changed it."""
    from sqlalchemy import event

    driver = engine.dialect.driver

    class Asked(Exception):
        pass

    def settings() -> Mapping[str, Any]:
        found: dict[str, Any] = {}

        def ask(_dialect: object, record: object, words: object, named: Mapping[str, Any]) -> None:
            if record is asking:
                found.update(named)
                raise Asked

        asking: Any = object()
        event.listen(engine.sync_engine, "do_connect", ask)
        try:
            engine.pool._creator(asking)
        except Asked:
            pass
        except Exception as error:  # it is somebody else's
            raise _own_connections("an engine with creator= or async_creator=") from error
        finally:
            event.remove(engine.sync_engine, "do_connect", ask)
        if not found or "async_creator_fn" in found:
            raise _own_connections("an engine with creator= or async_creator=")
        if driver == "asyncpg":
            return _plain(found)
        found.pop("context", None)  # how it reads values
        other = found.keys() - OF_LIBPQ.keys()
        if other:
            raise ConfigurationError(
                "",
                f"an engine of {driver} with {', '.join(sorted(other))} cannot tell how to connect with asyncpg: give "
                "LockManager the URL of the database, with the settings of asyncpg",
            )
        return {OF_LIBPQ[key]: value for key, value in found.items()}

    if engine.dialect.name != "postgresql":
        raise ConfigurationError("", f"an engine of {engine.dialect.name} keeps no locks: it must be one of PostgreSQL")
    parts = engine.url
    return Address(_name({"host": parts.host, "port": parts.port, "database": parts.database}), settings, Resolver())


def _plain(named: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in named.items() if key not in OURS}


def _name(settings: Mapping[str, Any]) -> str:
    """What a database is called whose settings may leave the host and the name to the environment."""
    parts = urlsplit(settings.get("dsn") or "")
    host = settings.get("host") or parts.netloc.rpartition("@")[2] or os.environ.get("PGHOST", "localhost")
    database = settings.get("database") or unquote(parts.path.strip("/")) or os.environ.get("PGDATABASE", "")
    hosts = host if isinstance(host, str) else ",".join(host)
    port = settings.get("port")
    return f"{hosts}:{port}/{database}" if isinstance(port, int) else f"{hosts}/{database}"


def _own_connections(what: str) -> ConfigurationError:
    return ConfigurationError("", f"{what} makes its connections itself: give LockManager the URL of the database")
