"""Sessions of a database, and what their errors mean."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Any

import asyncpg

from ...clock import format_seconds
from ...errors import BackendError, ConfigurationError
from ..transactional.engine import Unavailable
from .address import Address

SCHEMA = resources.files(__package__).joinpath("schema.sql")

UNDONE = frozenset({"57014", "55P03", "53200", "53300", "40001", "40P01", "25006", "53100"})
"""Nothing was done: timeout, no lock, no memory, too many sessions, a conflict, a deadlock, a standby, a full disk."""
MISTAKEN = frozenset({"28P01", "28000", "3D000", "42704", "22023", "55P02"})
"""No use to try again: the password, the user, the database; a parameter of the URL."""
HINTS = {
    "53300": "each manager takes two sessions, or one with waiting=Poll(): use one manager for each process, or raise "
    "max_connections",
    "25006": "give the address of the primary, or of all hosts: postgresql://one,two/database",
    "42704": "does the URL have a parameter that asyncpg does not know?",
    "55P02": "does the URL have a parameter that asyncpg does not know? TLS is sslmode=require",
    "53100": "make room on the disk of the server",
}
"""What to do about it."""
WITHOUT_SCHEMA = frozenset({"42501", "42883", "3F000", "42P01"})
"""Nor these: no right, no function, no schema, no table."""
GREETING = """SELECT pg_backend_pid(), to_regprocedure('aiolock.exchange_1(bigint, bigint, bigint, bigint, bigint[],
  int[], text[], bigint[], int[], text[], text[], bigint[], json)') IS NOT NULL,
  (SELECT set_config(name, '0', false) FROM pg_settings WHERE name = 'idle_session_timeout')"""

WANTED = "and names of locks need UTF8: give the locks a database of their own, with ENCODING 'UTF8' TEMPLATE template0"


class Session:
    """One connection, for one request at a time.

    Args:
        link: asyncpg's.

    Attributes:
        link: see above.
        equipped: the database has our functions.
    """

    def __init__(self, link: asyncpg.Connection[Any]) -> None:
        self.link = link
        self.equipped = False

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return bool(self.link.is_closed())


async def dial(address: Address, timeout: float) -> Session:
    """Connect.

    Args:
        address: the database.
        timeout: seconds for that, and for each answer.

    Raises:
        Unavailable: no connection now, or none that is of use.
    """
    ms = str(max(1, int(timeout * 1000)))
    settings = {
        "application_name": "aiolock",
        "default_transaction_isolation": "read committed",
        "default_transaction_read_only": "off",
        "statement_timeout": ms,
        "lock_timeout": ms,
        "jit": "off",
    }
    try:
        given = {"target_session_attrs": "primary", **address.settings()}
        if "target_session_attrs" in (given.get("dsn") or ""):
            del given["target_session_attrs"]
        given["server_settings"] = (given.get("server_settings") or {}) | settings
        link = await asyncpg.connect(**given, timeout=timeout)
    except Exception as error:
        if "startup parameter" in str(error):  # as PgBouncer says it
            raise _pooled(address) from error
        raise meaning(address, error, timeout, ran=False) from error
    session = Session(link)
    try:
        pid, session.equipped, _ = await link.fetchrow(GREETING)
        if pid != link.get_server_pid():
            raise _pooled(address)
        encoding = link.get_settings().server_encoding
        if encoding != "UTF8":
            raise Unavailable(ConfigurationError("", f"{address.name}: its encoding is {encoding}, {WANTED}"))
    except BaseException as error:
        link.terminate()
        if isinstance(error, Unavailable) or not isinstance(error, Exception):
            raise
        raise meaning(address, error, timeout, ran=False) from error
    return session


def meaning(address: Address, error: Exception, timeout: float, ran: bool) -> Unavailable:
    """What an error means for what was asked.

    Args:
        address: the database.
        error: asyncpg's, or one of the connection.
        timeout: seconds that the answer had.
        ran: whether it was asked for.
    """
    if isinstance(error, Unavailable):
        return error
    if isinstance(error, ConfigurationError):
        return Unavailable(error)
    state = str(getattr(error, "sqlstate", None) or "")
    said = str(error).strip() or type(error).__name__
    if isinstance(error, TimeoutError):
        said = f"no answer within {format_seconds(timeout)} s"
    elif isinstance(error, OSError) and not ran:
        said = f"PostgreSQL cannot be reached: is it up, and this its address? ({said})"
    if isinstance(error, asyncpg.TargetServerAttributeNotMatched):
        said, state = "there is no primary", "25006"
    if state in HINTS:
        said = f"{said}: {HINTS[state]}"
    if state in WITHOUT_SCHEMA:
        hint = f"let the owner of the database run {Path(str(SCHEMA))}, and the grants in its first lines"
        found = Unavailable(ConfigurationError("", f"{address.name}: {said}: {hint}"))
    elif state in MISTAKEN:
        found = Unavailable(ConfigurationError("", f"{address.name}: {said}"))
    else:
        found = Unavailable(BackendError("", f"{address.name}: {said}", transient=True), ran and state not in UNDONE)
    found.__cause__ = error
    return found


def _pooled(address: Address) -> Unavailable:
    text = f"{address.name} is a pooler that shares sessions: give the address of the PostgreSQL server itself"
    return Unavailable(ConfigurationError("", text))
