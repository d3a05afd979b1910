"""Sessions of a database, and what their errors mean."""

from __future__ import annotations

import asyncio
import contextlib
from importlib import resources
from pathlib import Path
from typing import Any

import asyncpg

from ...clock import format_seconds
from ...errors import BackendError, ConfigurationError
from ..transactional.engine import Unavailable
from .address import Address
from .loop import ResolvingLoop

SCHEMA = resources.files(__package__).joinpath("schema.sql")

UNDONE = frozenset({"57014", "55P03", "53200", "53300", "40001", "40P01", "25006", "53100"})
"""Nothing was done: timeout, no lock, no memory, too many sessions, a conflict, a deadlock, a standby, a full disk."""
FULL = "53200"
"""No room, as for so many names."""
MISTAKEN = frozenset({"28P01", "28000", "3D000", "42704", "22023", "55P02"})
"""No use to try again: the password, the user, the database; a parameter of the URL."""
HINTS = {
    "53300": "each manager takes two sessions, or one with waiting=Poll(): use one manager for each process, or raise "
    "max_connections",
    "25006": "give the address of the primary, or of all hosts: postgresql://one,two/database",
    "28P01": "correct the user and the password",
    "28000": "correct the user, or let it in by pg_hba.conf",
    "3D000": "make this database, or correct its name",
    "42704": "does the URL have a parameter that asyncpg does not know?",
    "55P02": "does the URL have a parameter that asyncpg does not know? TLS is sslmode=require",
    "53100": "make room on the disk of the server",
    FULL: "if it is shared memory, raise max_locks_per_transaction: all sessions share it",
}
"""What to do about it."""
WITHOUT_SCHEMA = frozenset({"42501", "42883", "3F000", "42P01"})
"""Nor these: no right, no function, no schema, no table."""
GREETING = """SELECT pg_backend_pid(), to_regprocedure(
  'aiolock.exchange_1(bigint, bigint, bigint, bigint, jsonb, jsonb, jsonb, jsonb)') IS NOT NULL"""
FOREVER = "idle_session_timeout"
"""A setting of sessions; PostgreSQL 13 does not have it."""

WANTED = "and names of locks need UTF8: give the locks a database of their own, with ENCODING 'UTF8' TEMPLATE template0"


class Session:
    """One connection, for one request at a time.

    Args:
        link: asyncpg's.
        pooled: each transaction may run in another session of the server.

    Attributes:
        link, pooled: see above.
        equipped: the database has our functions.
    """

    def __init__(self, link: asyncpg.Connection[Any], pooled: bool) -> None:
        self.link = link
        self.pooled = pooled
        self.equipped = False

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return bool(self.link.is_closed())

    async def close(self) -> None:
        """End it, and say so."""
        await self.link.close(timeout=1.0)

    def end(self) -> None:
        """End it without a word."""
        with contextlib.suppress(Exception):  # its loop may be closed
            self.link.terminate()


async def dial(address: Address, timeout: float, pooled: bool = False) -> Session:
    """Connect.

    Args:
        address: the database.
        timeout: seconds for that, and for each answer.
        pooled: it may be a pooler: all that is asked for is a transaction of its own.

    Raises:
        Unavailable: no connection now, or none that is of use.
    """
    link: Any = None
    try:
        link = await _connect(address, timeout, shared=False)
        equipped = None if link is None else await _greet(link)
        shared = link is None or equipped is None
        if shared:
            if link is not None:
                link.terminate()
            if not pooled:
                raise _pooled(address)
            link = await _connect(address, timeout, shared=True)
            _, equipped = await link.fetchrow(GREETING)
        session = Session(link, shared)
        session.equipped = bool(equipped)
        encoding = link.get_settings().server_encoding
        if encoding != "UTF8":
            raise Unavailable(ConfigurationError("", f"{address.name}: its encoding is {encoding}, {WANTED}"))
    except BaseException as error:
        if link is not None:
            link.terminate()
        if isinstance(error, Unavailable) or not isinstance(error, Exception):
            raise
        raise meaning(address, error, timeout, ran=False) from error
    return session


async def _greet(link: asyncpg.Connection[Any]) -> bool | None:
    """Return whether our functions are there; None if another session answers, or one without our statement."""
    own = link.get_server_pid()
    forever = (
        f"(SELECT set_config(name, '0', false) FROM pg_settings WHERE name = '{FOREVER}' AND pg_backend_pid() = {own})"
    )
    try:
        pid, equipped, _ = await link.fetchrow(f"{GREETING}, {forever}")
    except (asyncpg.InvalidSQLStatementNameError, asyncpg.DuplicatePreparedStatementError):
        return None
    return equipped if pid == own else None


async def _connect(address: Address, timeout: float, shared: bool) -> asyncpg.Connection[Any] | None:
    """Return a connection; None if what is there refuses settings of a session, as a pooler does."""
    ms = str(max(1, int(timeout * 1000)))
    given = {"target_session_attrs": "primary", **address.settings()}
    if "target_session_attrs" in (given.get("dsn") or ""):
        del given["target_session_attrs"]
    if shared:  # a statement that is prepared in one session is unknown in another
        given["server_settings"], given["statement_cache_size"] = {"application_name": "aiolock"}, 0
    else:
        given["server_settings"] = {
            **(given.get("server_settings") or {}),
            "application_name": "aiolock",
            "default_transaction_isolation": "read committed",
            "default_transaction_read_only": "off",
            "statement_timeout": ms,
            "lock_timeout": ms,
            "jit": "off",
        }
    try:
        loop = asyncio.get_running_loop()
        link = await asyncpg.connect(**given, timeout=timeout, loop=ResolvingLoop(loop, address.resolver))
        link._loop = loop  # it asks which task of it runs
        return link
    except asyncpg.PostgresError as error:
        if shared or "startup parameter" not in str(error):  # as PgBouncer says it
            raise
        return None


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
    if isinstance(error, asyncpg.InternalClientError):  # it was ended in the middle of something
        said = "the connection was lost"
    elif isinstance(error, TimeoutError):
        said = f"no answer within {format_seconds(timeout)} s"
    elif isinstance(error, OSError) and not ran:
        said = f"PostgreSQL cannot be reached: is it up, and is this its address? ({said})"
        if "SSL" in said:
            said = f"{said}; is it PostgreSQL, and does it speak TLS, if sslmode asks for it?"
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
        failure = BackendError("", f"{address.name}: {said}", transient=True)
        found = Unavailable(failure, ran and state not in UNDONE, full=state == FULL)
    found.__cause__ = error
    return found


def _pooled(address: Address) -> Unavailable:
    text = (
        f"{address.name} is a pooler, which shares sessions: give the address of the PostgreSQL server itself; or add "
        "listen=host:port of the server to the URL, so that only what listens goes there; or poll, with waiting=Poll()"
    )
    return Unavailable(ConfigurationError("", text))
