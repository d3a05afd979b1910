"""A database, whatever its product: where the tests of this folder run."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from importlib import import_module
from importlib.resources.abc import Traversable
from itertools import count
from typing import Any, ClassVar, Protocol

from aiolock import LockManager
from aiolock.backends.reader import Reader
from aiolock.backends.transactional.served import ServedEngine
from tests.support.database import ServedSide
from tests.support.proxy import Framing

NUMBERS = count(1)
PATIENT: Any = {"ttl": 300, "liveness": 300, "recheck": 300}
"""Options of a manager that asks nothing by itself."""


class OwnServer(Protocol):
    """A server of its own.

    Attributes:
        url: of a database.
        version: what it is.
    """

    url: str

    @property
    def version(self) -> str: ...

    def away(self) -> AbstractContextManager[None]:
        """It ends as in a crash, and is there again afterwards."""

    def frozen(self) -> AbstractContextManager[None]:
        """It does not run."""

    def close(self) -> None:
        """End it; its files go."""


class Database(ABC):
    """One database, seen by its owner.

    Args:
        url: its address.

    Attributes:
        url: see above.
        rows, key: the table of what is kept, and its column of keys.
        locks: the view of those that are held.
        careless: the setting by which the server of this run does not wait for the disk.
        holds_in: a transaction can have a lock.
        schema: the file with what managers make.
        sweep: deletes what has expired.
        undo: deletes what managers have made.
        idle: selects how many sessions do nothing in an open transaction.
        nothing: a value in which no lock is to be seen.
        errors: what `run` raises if a statement fails.
        queued: selects how many are in the queue with a key.
        clock: what the schema calls the server's clock.
        stepped: as many hours as the table `stepped` says.
        scheme: of addresses.
        called: what errors call a server whose name is not known.
        engines: what managers keep their locks with.
        server: starts a server of its own.
        gone: what a driver raises if the connection ends before the answer.
        framing: what servers speak.
        writes: what is in a request that writes, and in no other.
    """

    rows: ClassVar[str]
    key: ClassVar[str]
    locks: ClassVar[str]
    careless: ClassVar[str]
    holds_in: ClassVar[bool]
    schema: ClassVar[Traversable]
    sweep: ClassVar[str]
    undo: ClassVar[str]
    idle: ClassVar[str]
    nothing: ClassVar[str]
    errors: ClassVar[type[Exception]]
    queued: ClassVar[str]
    clock: ClassVar[str]
    stepped: ClassVar[str]
    scheme: ClassVar[str]
    called: ClassVar[str]
    engines: ClassVar[type[ServedEngine[Any]]]
    server: ClassVar[type[OwnServer]]
    gone: ClassVar[Exception]
    framing: ClassVar[Framing]
    writes: ClassVar[bytes]

    def __init__(self, url: str) -> None:
        self.url = url

    @classmethod
    @abstractmethod
    def new(cls) -> Database:
        """An empty one, on the server of this run."""

    @abstractmethod
    def drop(self) -> None:
        """End it, whoever uses it."""

    @property
    @abstractmethod
    def where(self) -> tuple[str, int]:
        """What a proxy connects to: host and port; or the path of a Unix socket, and the number in its name."""

    @abstractmethod
    def behind(self, port: int) -> str:
        """Its address if a proxy listens there."""

    @property
    def name(self) -> str:
        """What it is called."""
        return self.url.partition("?")[0].rpartition("/")[2]

    @abstractmethod
    def run(self, statement: str, *values: object, url: str = "") -> list[tuple[Any, ...]]:
        """Execute a statement; return its rows.

        Args:
            statement: SQL.
            values: of its parameters.
            url: another address: as who, or to what.
        """

    @abstractmethod
    def equip(self, url: str = "", clock: str = "") -> None:
        """Run the schema.

        Args:
            url: another address: as whom.
            clock: an expression in place of the server's clock.
        """

    @abstractmethod
    def made(self) -> list[tuple[Any, ...]]:
        """What managers have made in it; nothing if none was there."""

    @abstractmethod
    def reader(self) -> Reader:
        """What the command line reads it with."""

    @abstractmethod
    def side(self, *, empty: bool = True) -> ServedSide:
        """Scripts in it, and looks at it; if you want, first deletes its locks."""

    @classmethod
    def module(cls, name: str) -> Any:
        """A module of its backend."""
        return import_module(cls.engines.__module__.rpartition(".")[0] + f".{name}")

    @abstractmethod
    def user(self, *, allowed: bool = True, sessions: int = 0) -> str:
        """Make a user; return the address with which it comes.

        Args:
            allowed: it has the rights that the schema names; otherwise it may only connect.
            sessions: at most; 0 for any number.
        """

    @abstractmethod
    def connect(self, url: str = "") -> Any:
        """A session of its owner, or of whoever comes with this address."""

    @abstractmethod
    def break_sweep(self, fault: str) -> None:
        """A sweep "fails", "takes long", or "ends its session"."""

    @abstractmethod
    def ears(self) -> list[int]:
        """The numbers of sessions that listen."""

    @abstractmethod
    def turns(self) -> list[tuple[Any, ...]]:
        """For whom a name is kept: its tag, the manager, until when, how many came meanwhile, and
        whether it is kept from who is urgent, too."""

    @abstractmethod
    def end_turns(self) -> None:
        """No name is kept for anybody."""

    @abstractmethod
    def sessions(self) -> list[int]:
        """The numbers of all sessions of managers."""

    @abstractmethod
    def end(self, session: int) -> None:
        """End one of them."""

    def end_sessions(self) -> int:
        """End all of them, as a restart or a failover does; return how many."""
        found = self.sessions()
        for session in found:
            self.end(session)
        return len(found)

    async def until_waiting(self, name: str, number: int = 1) -> None:
        """Return once that many processes are in the queue of the lock."""
        key = f"aiolock:lock:{{{name}}}:queue"
        async with asyncio.timeout(10 + 2 * number):
            while sum(found for (found,) in self.run(self.queued, key)) < number:  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0.005 * number)

    async def pass_on(self, one: LockManager, two: LockManager, **options: Any) -> None:
        """One holds a lock, the other waits for it and gets it."""
        lease = await one.lock("x", **options).acquire()
        waiter = asyncio.create_task(two.lock("x", **options).acquire())
        await self.until_waiting("x")
        await lease.release()
        await (await asyncio.wait_for(waiter, 10)).release()


def exchanges(manager: LockManager) -> tuple[int, int]:
    """How often a manager has asked the server; how many plans came too late."""
    engine: Any = manager._runtime.backend._engine  # type: ignore[attr-defined]
    return engine.exchanges, engine.stale
