"""Where a database is, as a URL says it."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from ...errors import ConfigurationError

EXAMPLE = "postgresql://user@host:5432/database"
WRONG = (
    f"not the URL of a PostgreSQL database, as {EXAMPLE} is: a port must be a number below 65536, and in a user, a "
    "password or a database each of / ? # [ ] @ must be percent-encoded, as %2F"
)


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
    return Address(dsn, f"{host}/{database}")
