"""The members of a cluster, and the connection to one of them: another takes over when it fails."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from grpclib.exceptions import GRPCError, StreamTerminatedError

from ...errors import BackendError, ConfigurationError
from ..base import nothing
from ..coordinator.rotation import Rotation
from ..coordinator.store import Away, Lost, Refusal
from .address import EtcdAddress
from .link import LEAST, PATIENCE, Link
from .messages import AUTHENTICATE, STATUS, TXN, get, txn
from .watches import Told, Watches
from .wire import Message, data

OLDEST = (3, 4)
"""The first one that lets clients number their watches."""


class EtcdCluster:
    """Keeps one connection, to the first member that answers and has a leader.

    Args:
        source: where the members are.
        probe: a path that the user may read.

    Attributes:
        address: for people.
        version: of the member that is used; empty if the user may not know.
        watches: what is watched; None while there is no connection.
    """

    def __init__(self, source: EtcdAddress, probe: str) -> None:
        self.address: str = f"etcd {source.shown}"
        self.version: str = ""
        self.watches: Watches | None = None
        self._source = source
        self._probe = probe.encode()
        self._rotation = Rotation(source.members)
        self._patience = PATIENCE
        self._link: Link | None = None
        self._ready: asyncio.Future[Link] | None = None
        self._always: dict[str, Told] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def connected(self) -> bool:
        """Whether there is a connection."""
        return self._link is not None

    @property
    def patience(self) -> float:
        """Seconds without an answer after which another member is asked; within bounds."""
        return self._patience

    @patience.setter
    def patience(self, seconds: float) -> None:
        self._patience = min(PATIENCE, max(LEAST, seconds))
        if self._link is not None:
            self._link.patience = self._patience

    async def open(self, lost: Lost, back: Callable[[], None]) -> None:
        """Connect.

        Args:
            lost: see `Store.open`.
            back: told when there is one again.

        Raises:
            Away: no member can be used.
            ConfigurationError: one is too old, or refuses the user.
        """
        self._on_lost, self._on_back = lost, back
        self._always.clear()
        self._ready = asyncio.get_running_loop().create_future()
        await self._rotation.first(self._connect)

    async def link(self) -> Link:
        """Return the connection, once there is one."""
        if self._link is not None:
            return self._link
        if self._ready is None:
            raise Away(BackendError("", "the connection to etcd is closed", transient=True), ran=False)
        return await asyncio.shield(self._ready)

    def spawn(self, job: Coroutine[Any, Any, None]) -> None:
        """Run what nobody waits for."""
        task = asyncio.get_running_loop().create_task(job)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def always(self, key: str, told: Told) -> None:
        """Watch a key whenever there is a connection."""
        self._always[key] = told
        if self.watches is not None:
            self.watches.add(key, 0, told, puts_only=True)

    async def aclose(self) -> None:
        """Close the connection."""
        ready, self._ready = self._ready, None
        link, self._link, self.watches = self._link, None, None
        if link is not None:
            link.close()
        if ready is not None and not ready.done():
            ready.cancel()
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks))

    async def _connect(self) -> None:
        link = await self._reached(self._failed, max(1.0, self._patience), self._introduce)
        if link.closed or self._ready is None:  # it failed as soon as it had answered; or all is being closed
            link.close()
            raise Away(BackendError("", f"etcd at {link.address} has closed the connection", transient=True), ran=False)
        self._link, self.watches = link, Watches(link)
        for key, told in self._always.items():
            self.watches.add(key, 0, told, puts_only=True)
        self.spawn(self.watches.run())
        self._ready.set_result(link)

    async def dial(self, timeout: float) -> Link:
        """Return a connection to the first member, whatever it is like, that is closed by the caller. Raises `Away`."""
        return await self._reached(nothing, timeout, self._log_in)

    async def _reached(
        self, failed: Callable[[Exception], None], timeout: float, meet: Callable[[Link], Awaitable[None]]
    ) -> Link:
        """Return a connection to the first member, once `meet` has had its answers. Raises `Away`."""
        host, port = self._rotation.members[0]
        link = Link(host, port, self._source.tls, failed)
        link.patience = self._patience
        try:
            async with asyncio.timeout(timeout):
                await meet(link)
        except TimeoutError as error:
            link.close()
            why = BackendError("", f"etcd at {link.address} gave no answer in time", transient=True)
            raise Away(why, ran=False) from error
        except Away as away:
            link.close()
            unreached = self._unreached(link, away.__cause__)
            raise away if unreached is None else Away(unreached, ran=False) from away.__cause__
        except BaseException:
            link.close()
            raise
        return link

    def _unreached(self, link: Link, cause: BaseException | None) -> BackendError | None:
        """What to say of a member that was not reached; None if that is not why."""
        if isinstance(cause, TimeoutError) or not isinstance(cause, OSError | StreamTerminatedError):
            return None
        why = str(cause) or repr(cause)
        said = f"etcd at {link.address} cannot be reached: is it up, and is this its address? ({why})"
        if self._source.tls is not None:
            said = f"{said}; does it speak TLS, as the URL says?"
        elif isinstance(cause, StreamTerminatedError | ConnectionResetError):
            said = f"{said}; if it has TLS, write etcds://"
        return BackendError("", said, transient=True)

    async def _introduce(self, link: Link) -> None:
        """Make sure that the member can be used: it lets the user in, and has a leader."""
        try:
            await self._log_in(link)
            self.version = await _version(link)
            await link.ask(TXN, txn([], [get(self._probe)]))
        except Refusal as why:
            if why.transient:
                error = BackendError("", f"etcd at {link.address}: {why}", transient=True)
                raise Away(error, ran=False) from why
            error = BackendError("", f"etcd at {link.address} does not let this manager in: {why}")
            raise Away(error, ran=False) from why
        if self.version and number_of(self.version) < OLDEST:
            raise ConfigurationError("", f"etcd at {link.address} is {self.version}, and 3.4 or newer is needed")

    async def _log_in(self, link: Link) -> None:
        source = self._source
        if source.user:
            body = data(1, source.user.encode()) + data(2, source.password.encode())
            link.token = Message(await link.ask(AUTHENTICATE, body)).data(2).decode()

    def _failed(self, why: Exception) -> None:
        """The connection failed: another member takes over."""
        if self._ready is None or self._link is None:
            return  # it is being opened, or closed
        self._link, self.watches = None, None
        self._ready = asyncio.get_running_loop().create_future()
        self._rotation.failed()
        self._on_lost(BackendError("", f"the connection to etcd was lost: {why}", transient=True), False)
        self.spawn(self._reconnect())

    async def _reconnect(self) -> None:
        if await self._rotation.again(self._connect, self._on_lost, lambda: self._ready is not None, _answers):
            self._on_back()


def _answers(why: Away) -> bool:
    """One that answers, if only that it has no leader, shows that the cluster is there: elections are short."""
    return isinstance(why.__cause__, GRPCError | Refusal)


def number_of(version: str) -> tuple[int, ...]:
    """A version as numbers, which can be compared."""
    return tuple(int(part) for part in version.partition("-")[0].split(".") if part.isdigit())


async def _version(link: Link) -> str:
    try:
        return Message(await link.ask(STATUS, b"")).data(2).decode()
    except Refusal as why:
        if why.transient:
            raise
        return ""  # where there are users, only some may ask
