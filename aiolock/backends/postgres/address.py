"""Where a database is, as a URL says it."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit

from ...errors import ConfigurationError

SCHEMES = ("postgresql", "postgres")


class Address(NamedTuple):
    """A database.

    Attributes:
        dsn: its URL, for asyncpg.
        name: what it is called in errors and logs: no user, and no password.
    """

    dsn: str
    name: str


def address_of(url: str) -> Address:
    """Read a URL, also one that is written for SQLAlchemy.

    Raises:
        ConfigurationError: it names no database.
    """
    try:
        scheme, _, rest = url.partition("://")
        dsn = f"{scheme.partition('+')[0]}://{rest}"
        parts = urlsplit(dsn)
        query = dict(parse_qsl(parts.query))
        _ = parts.port  # raises if it cannot be one
    except ValueError as error:
        raise ConfigurationError("", f"not the URL of a PostgreSQL database: {error}") from error
    database = parts.path.strip("/") or query.get("database", query.get("dbname", ""))
    if not database:
        example = "postgresql://user@host:5432/database"
        raise ConfigurationError("", f"the URL of a PostgreSQL server must name a database, as in {example}")
    host = parts.netloc.rpartition("@")[2] or query.get("host", "localhost")
    return Address(dsn, f"{host}/{database}")
