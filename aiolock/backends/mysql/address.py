"""Where a database is, as a URL says it."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from ...errors import ConfigurationError
from ..resolver import Resolver

EXAMPLE = "mysql://user@host:3306/database"
WRONG = (
    f"not the URL of a MariaDB or MySQL database, as {EXAMPLE} is: one host, a port below 65536, and in a user, a "
    "password or a database each of / ? # [ ] @ must be percent-encoded, as %2F"
)
PARAMETERS = ("ssl_ca", "ssl", "unix_socket", "charset")
"""What may follow the question mark; names are always kept in utf8mb4, whatever charset says."""


class Address(NamedTuple):
    """A database.

    Attributes:
        host, port, socket: its server; the path of a Unix socket, or "".
        user, password: as whom; "" for the name that the process has, and for none.
        database: of the locks.
        secure: TLS, and who the server is proved.
        authorities: a file with those who may prove that; "" for the system's.
        name: what it is called in errors and logs: no user, and no password.
        resolver: looks up its host.
    """

    host: str
    port: int
    socket: str
    user: str
    password: str
    database: str
    secure: bool
    authorities: str
    name: str
    resolver: Resolver


def address_of(url: str) -> Address:
    """Read a URL, also one that is written for SQLAlchemy.

    Raises:
        ConfigurationError: it names no database, or says what we do not understand.
    """
    _, mark, rest = url.partition("://")
    try:
        parts = urlsplit(f"mysql://{rest}")
        port = parts.port or 3306
    except ValueError:
        raise ConfigurationError("", WRONG) from None  # it may quote the password
    hosts = parts.netloc.rpartition("@")[2]
    if not mark or parts.fragment or "," in hosts or "@" in (parts.path or parts.query):
        raise ConfigurationError("", WRONG)
    given = hosts.rpartition("]")[2].partition(":")[2]
    if given and not re.fullmatch("[0-9]{1,5}", given, re.ASCII):
        raise ConfigurationError("", WRONG)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    if unknown := [name for name in query if name not in PARAMETERS]:
        text = f"the URL of a database has the parameter {unknown[0]!r}: known are {', '.join(PARAMETERS)}"
        raise ConfigurationError("", text)
    if query.get("ssl", "true") not in ("true", "false"):
        raise ConfigurationError("", "in the URL of a database, ssl is true or false; ssl_ca names a file")
    database = unquote(parts.path.strip("/"))
    if not database:
        raise ConfigurationError("", f"the URL of a MariaDB or MySQL server must name a database, as in {EXAMPLE}")
    socket, authorities = query.get("unix_socket", ""), query.get("ssl_ca", "")
    return Address(
        host=parts.hostname or "localhost",
        port=port,
        socket=socket,
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        database=database,
        secure=query.get("ssl", "false" if not authorities else "true") == "true",
        authorities=authorities,
        name=f"{socket or hosts or 'localhost'}/{database}",
        resolver=Resolver(),
    )
