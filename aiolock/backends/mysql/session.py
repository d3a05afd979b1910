"""Sessions of a database, and what their errors mean."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import asyncmy

from ...clock import format_seconds
from ...errors import BackendError, ConfigurationError
from ..transactional.engine import Unavailable
from .address import Address

SCHEMA = resources.files(__package__).joinpath("schema.sql")

DEADLOCK = 1213
FULL = 1206
"""No room, as for so many names."""
UNREACHABLE, LOST = 2003, 2013
INTERRUPTED = 1317
"""A statement of ours was ended by KILL QUERY."""
UNDONE = frozenset({DEADLOCK, FULL, 2006, 1205, 1290, 1836, 1040, 1203, 1226, 1568, 1665, 1041, 1021, 1114})
"""Nothing was done: a deadlock, no room, nothing was sent, a wait that was too long, a replica, too many sessions,
another's transaction, the format of the log, no memory, a full disk.
"""
MISTAKEN = frozenset({1045, 1698, 1044, 1049, 2054, 1665})
"""No use to try again: the password, the user, the database, how the user proves who he is; the format of the log."""
SESSIONS = (
    "each manager takes two sessions, or one with waiting=Poll(): use one manager for each process, or raise "
    "max_connections, or what the user may have"
)
HINTS = {
    1040: SESSIONS,
    1203: SESSIONS,
    1226: SESSIONS,
    1045: "correct the user and the password",
    1698: "correct the user and the password",
    1044: "correct the name of the database, or grant the user its rights there",
    1049: "make this database, or correct its name",
    1290: "give the address of the primary",
    1665: "set binlog_format to ROW or MIXED",
    1021: "make room on the disk of the server",
    1114: "make room on the disk of the server",
}
"""What to do about it."""
WITHOUT_SCHEMA = frozenset({1142, 1143, 1146, 1227, 1305, 1370, 1449, 1356})
"""Nor these: no right, no table, no procedure, nobody as whom it runs."""
SETTINGS = """SET SESSION innodb_lock_wait_timeout = {0}, lock_wait_timeout = {0}, wait_timeout = 31536000,
  sql_notes = 0, sql_safe_updates = 0, autocommit = 1,
  sql_mode = 'STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO'"""
GREETING = """SELECT CONNECTION_ID(), EXISTS(SELECT 1 FROM information_schema.ROUTINES
  WHERE ROUTINE_SCHEMA = DATABASE() AND ROUTINE_NAME = 'aiolock_exchange_1')"""
VARIABLES = """SHOW GLOBAL VARIABLES WHERE Variable_name IN
  ('read_only', 'wsrep_on', 'group_replication_single_primary_mode')"""


class Session:
    """One connection. What is asked for waits until it is free.

    Args:
        link: asyncmy's.

    Attributes:
        equipped: the database has our procedures.
    """

    def __init__(self, link: Any) -> None:
        self.equipped = False
        self._link = link
        self._free = asyncio.Lock()
        self._prepared: dict[str, Any] = {}

    @property
    def over(self) -> bool:
        """Whether we know that it has ended."""
        return not self._link.connected

    async def ask(self, statement: str, *values: object) -> Sequence[tuple[Any, ...]]:
        """Execute a statement; return the rows of its first result.

        Args:
            statement: SQL; a question mark stands for a value.
            values: text, whole numbers, None.
        """
        async with self._free:
            prepared = self._prepared.get(statement)
            if prepared is None:
                self._prepared[statement] = prepared = await self._link.prepare(statement)
            return (await prepared.execute(values)).rows or ()

    async def run(self, statement: str) -> None:
        """Execute what cannot be prepared."""
        async with self._free, self._link.cursor() as cursor:
            await cursor.execute(statement)

    async def close(self) -> None:
        """End it, and say so."""
        await self._link.ensure_closed()

    def end(self) -> None:
        """End it without a word."""
        with contextlib.suppress(Exception):  # its loop may be closed
            self._link.close()


async def dial(address: Address, timeout: float) -> Session:
    """Connect.

    Args:
        address: the database.
        timeout: seconds for that, and for each answer.

    Raises:
        Unavailable: no connection now, or none that is of use.
    """
    session = None
    try:
        async with asyncio.timeout(timeout):
            link = await _connect(address)
            session = Session(link)
            unlimited = ", max_statement_time = 0" if "MariaDB" in link.get_server_info() else ""
            await session.run(SETTINGS.format(max(1, int(timeout))) + unlimited)
            ((number, equipped),) = await session.ask(GREETING)
            if number != link.thread_id():
                text = "is a pooler that shares sessions: give the address of the server itself"
                raise Unavailable(ConfigurationError("", f"{address.name} {text}"))
            session.equipped = bool(equipped)
            _check(address, dict(await session.ask(VARIABLES)))
        return session
    except BaseException as error:
        if session is not None:
            session.end()
        if isinstance(error, Unavailable) or not isinstance(error, Exception):
            raise
        raise meaning(address, error, timeout, ran=False) from error


async def _connect(address: Address) -> Any:
    given: dict[str, Any] = {
        "port": address.port,
        "user": address.user or None,
        "password": address.password,
        "database": address.database,
        "charset": "utf8mb4",
        "autocommit": None,
        "program_name": "aiolock",
        "ssl": _certified(address) if address.secure else None,
    }
    if address.socket:
        return await asyncmy.connect(unix_socket=address.socket, **given)
    *others, last = [place[0] for *_, place in await address.resolver.find(address.host, address.port)]
    for place in others:
        try:
            return await asyncmy.connect(host=place, **given)
        except asyncmy.MySQLError as error:
            if code_of(error) != UNREACHABLE:
                raise
    return await asyncmy.connect(host=last, **given)


def _certified(address: Address) -> ssl.SSLContext:
    """Asks for a certificate of the host, though asyncmy is given an address of it."""
    context = ssl.create_default_context(cafile=address.authorities or None)
    wrap = context.wrap_bio

    def named(incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, server_side: bool, **_: object) -> ssl.SSLObject:
        return wrap(incoming, outgoing, server_side, address.host)

    context.wrap_bio = named  # type: ignore[assignment,method-assign]
    return context


def _check(address: Address, variables: dict[str, str]) -> None:
    of_several = variables.get("group_replication_single_primary_mode", "ON") != "ON"
    if of_several or variables.get("wsrep_on", "OFF") != "OFF":
        text = "several servers take writes there, and two could grant one lock: use one with a single writer"
        raise Unavailable(ConfigurationError("", f"{address.name}: {text}"))
    if variables.get("read_only", "OFF") != "OFF":
        raise Unavailable(BackendError("", f"{address.name}: it is read-only: {HINTS[1290]}", transient=True))


def code_of(error: BaseException) -> int:
    """The number of a server's error, or of the driver's; 0 for all others."""
    code = error.args[0] if isinstance(error, asyncmy.MySQLError) and error.args else 0
    return code if isinstance(code, int) else 0


def meaning(address: Address, error: Exception, timeout: float, ran: bool) -> Unavailable:
    """What an error means for what was asked.

    Args:
        address: the database.
        error: asyncmy's, or one of the connection.
        timeout: seconds that the answer had.
        ran: whether it was asked for.
    """
    if isinstance(error, Unavailable):
        return error
    code = code_of(error)
    said = str(error.args[1] if code and len(error.args) > 1 else error).strip() or type(error).__name__
    if isinstance(error, TimeoutError):
        said = f"no answer within {format_seconds(timeout)} s"
    elif code == UNREACHABLE or (isinstance(error, OSError) and not ran):
        said = f"the server cannot be reached: is it up, and is this its address? ({said})"
        if address.secure:
            said = f"{said}; does it speak TLS, as the URL says?"
    elif code == LOST and not ran:
        said = f"{said}: is it MariaDB or MySQL?"
    if code in HINTS:
        said = f"{said}: {HINTS[code]}"
    if code in WITHOUT_SCHEMA:
        hint = f"let the owner of the database run {Path(str(SCHEMA))}, and the grants in its first lines"
        found = Unavailable(ConfigurationError("", f"{address.name}: {said}: {hint}"))
    elif code in MISTAKEN or isinstance(error, RuntimeError):  # asyncmy's: cryptography is not installed
        found = Unavailable(ConfigurationError("", f"{address.name}: {said}"))
    else:
        failure = BackendError("", f"{address.name}: {said}", transient=True)
        found = Unavailable(failure, ran and code not in UNDONE, full=code == FULL)
    found.__cause__ = error
    return found
