"""One session, on one connection at a time: its nodes are there until it ends.

A server that is cut off from its leader answers pings, and it tells the leader only with the next ping of the leader
itself that a session lives. So only a write proves that the session is there, and its time is counted from a moment
before that: see `lag`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ...clock import Clock, Timer
from ...errors import BackendError
from ..coordinator.rotation import Rotation
from ..coordinator.store import Away, Lost, Refusal
from . import jute
from .address import ZooKeeperAddress
from .jute import Answered, Code, Op
from .link import Link, Reply
from .watches import Watches

LONGEST_LAG = 5.0
"""Seconds, for sessions that last for longer: leaders ping each half of a tick, which is 2 or 3 seconds at most."""
PATIENCE = 3.0
"""Seconds without an answer after which another server is asked, at most."""
LEAST = 0.5
"""The same, at least: a busy machine is not a dead one."""
FRESH = 10
"""A session is as good as renewed for this part of its time."""


def lag(timeout: float) -> float:
    """For how many seconds the leader may not have heard of a session whose server is well. A tick is at most half of
    the shortest session, leaders ping twice a tick, and a session is heard of twelve times while it lasts.
    """
    return min(timeout / 3, LONGEST_LAG)


def needed(ttl: float) -> float:
    """How long a session must last, so that its nodes last for so many seconds after a proof."""
    return ttl + min(ttl / 2, LONGEST_LAG)


class Session:
    """A session.

    Args:
        address: where the servers are.
        timeout: seconds that it shall last in silence.
        clock: of its times.
        lost: told of outages.
        back: told when there is a connection again, or the session is over.

    Attributes:
        timeout: seconds that it lasts, as the servers say.
        over: it has expired, and all its nodes are gone.
        watches: what is watched through this connection; None if there is none.
    """

    def __init__(
        self,
        address: ZooKeeperAddress,
        timeout: float,
        clock: Clock,
        lost: Lost,
        back: Callable[[], None],
    ) -> None:
        self.timeout: float = timeout
        self.over: bool = False
        self._address = address
        self._clock = clock
        self.watches: Watches | None = None
        self._lost, self._back = lost, back
        self._rotation = Rotation(address.members)
        self._id, self._password, self._seen = 0, bytes(16), 0
        self._renewed = 0.0
        self._link: Link | None = None
        self._loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._connecting: asyncio.Task[None] | None = None
        self._timer: Timer | None = None
        self._closing = False

    @property
    def renewed(self) -> float:
        """Clock time at which the last request was made that proves that the session is there."""
        return max(self._renewed, self._link.confirmed if self._link is not None else 0.0)

    @property
    def longest(self) -> float:
        """Seconds that its nodes last after a proof."""
        return self.timeout - lag(self.timeout)

    @property
    def expiry(self) -> float:
        """Clock time before which the servers do not end it."""
        return 0.0 if self.over else self.renewed + self.longest

    @property
    def fresh(self) -> bool:
        """Whether it need not be proved."""
        return self._clock.now() < self.renewed + self.timeout / FRESH

    async def open(self) -> None:
        """Begin it. Raises `Away`."""
        await self._rotation.first(self._connect)

    def begin(self) -> None:
        """Begin it, however long that takes."""
        self._connecting = self._loop.create_task(self._reconnect(told=False))

    async def ready(self) -> None:
        """Wait until there is a connection, or the session is over. Raises `Away` if it is closed."""
        await asyncio.shield(self._ready)

    def ask(self, op: Op, body: bytes) -> asyncio.Future[Reply]:
        """Write a request now; what is asked for through a session is done in that order.

        Returns:
            Its answer; or `Answered`, or `Away`.
        """
        if self._link is not None:
            return self._link.ask(op, body)
        told: asyncio.Future[Reply] = self._loop.create_future()
        gone = BackendError("", "there is no connection to ZooKeeper", transient=True)
        told.set_exception(Answered(Code.SESSION_EXPIRED) if self.over else Away(gone, ran=False))
        told.exception()  # whoever asked may have gone on
        return told

    def prove(self) -> asyncio.Future[Reply]:
        """Write what changes nothing, but needs most servers."""
        return self.ask(Op.MULTI, jute.multi([(Op.CHECK, jute.check("/"))]))

    async def aclose(self, end: bool) -> None:
        """Close the connection.

        Args:
            end: end the session, too; otherwise it ends when its time is over.
        """
        self._closing = True
        link = self._link
        try:
            if link is not None and end:
                await asyncio.wait((link.ask(Op.CLOSE, b""),), timeout=1.0)
        finally:
            self._link, self.watches = None, None
            if self._timer is not None:
                self._timer.cancel()
            if link is not None:
                link.close()
            if not self._ready.done():
                gone = BackendError("", "the connection to ZooKeeper is closed", transient=True)
                self._ready.set_exception(Away(gone, ran=False))
                self._ready.exception()
            if self._connecting is not None:
                self._connecting.cancel()
                await asyncio.wait((self._connecting,))

    # Connections.

    async def _connect(self) -> None:
        host, port = self._rotation.members[0]
        link = Link(f"{host}:{port}", self._clock, self._heard, self._failed)
        began = self._clock.now()
        try:
            async with asyncio.timeout(max(1.0, self._patience)):
                await link.open(host, port, self._address.tls)
                asked = jute.connect(self._seen, round(self.timeout * 1000), self._id, self._password)
                greeting = await link.greet(asked)
                if self._address.user:
                    link.authenticate(self._address.user, self._address.password)
        except Exception as error:  # whatever it is, the next attempt may succeed
            link.close()
            raise Away(self._unreached(link, error), ran=False) from error
        except BaseException:
            link.close()
            raise
        if link.closed or self._closing:  # it failed as soon as it had answered
            link.close()
            gone = BackendError("", f"ZooKeeper at {link.address} closed the connection", transient=True)
            raise Away(gone, ran=False)
        if greeting.timeout_ms <= 0 or (self._id and greeting.session != self._id):
            link.close()
            self._end()  # other servers than ZooKeeper's own offer another session, silently
            return
        if not self._id:
            self._renewed = began  # most servers know of a new one; of one that moves, one may say so
        self._id, self._password = greeting.session, greeting.password
        self.timeout = greeting.timeout_ms / 1000
        self._link, self.watches = link, Watches(link.ask)
        self._schedule()
        self._ready.set_result(None)

    def _unreached(self, link: Link, error: Exception) -> BackendError:
        where = f"ZooKeeper at {link.address}"
        if isinstance(error, TimeoutError) and not str(error):
            return BackendError("", f"{where} gave no answer in time", transient=True)
        said = str(error) or repr(error)
        if self._address.tls is not None:
            said = f"{said}; does it speak TLS, as the URL says?"
        elif isinstance(error, ConnectionError) and not isinstance(error, ConnectionRefusedError):
            said = f"{said}; if it has TLS, write zookeepers://"
        return BackendError(
            "", f"{where} cannot be reached: is it up, and is this its address? ({said})", transient=True
        )

    def _failed(self, why: Exception) -> None:
        """The connection failed: another server takes over."""
        link, self._link, self.watches = self._link, None, None
        if link is None or self._closing:
            return  # it is being opened, or closed
        self._renewed = max(self._renewed, link.confirmed)
        self._seen = max(self._seen, link.seen)
        self._rotation.failed()
        if link.over:
            self._end()
            self._back()
            return
        self._ready = self._loop.create_future()
        self._lost(BackendError("", f"the connection to ZooKeeper was lost: {why}", transient=True), False)
        self._connecting = self._loop.create_task(self._reconnect(told=True))

    def _end(self) -> None:
        self.over = True
        if not self._ready.done():
            self._ready.set_result(None)

    async def _reconnect(self, told: bool) -> None:
        connected = await self._rotation.again(self._connect, self._lost, lambda: not self._closing, _answers)
        if connected and told:
            self._back()

    def _heard(self, kind: int, node: str) -> None:
        if self.watches is not None:
            self.watches.heard(kind, node)

    # Time.

    @property
    def _patience(self) -> float:
        return min(PATIENCE, max(LEAST, self.timeout / 8))

    def _schedule(self) -> None:
        if self._timer is not None:
            self._timer.cancel()  # of the connection before
        self._timer = self._clock.call_at(self._clock.now() + min(self.timeout / 12, 1.5) / 2, self._tick)

    def _tick(self) -> None:
        """Leave a server that says nothing; say in time that the session lives."""
        link = self._link
        if link is None:
            return
        if link.waited() > self._patience:
            link.fail(TimeoutError(f"no answer within {self._patience:.1f} s"))
            return
        if link.idle() > min(self.timeout / 12, 1.5) / 2:
            link.ping()
        self._schedule()


def _answers(why: Away) -> bool:
    """A server that takes connections shows that the ensemble is there, if only without a leader: elections are
    short.
    """
    return isinstance(why.__cause__, ConnectionError) and not isinstance(why.__cause__, ConnectionRefusedError)


async def answer(asked: asyncio.Future[Reply], *expected: Code) -> Reply | Code:
    """Return an answer; or an error that was expected.

    Raises:
        Away: there is none, or the session is over.
        Refusal: another error.
    """
    try:
        return await asked
    except Answered as error:
        if error.code in expected:
            return Code(error.code)
        if error.code == Code.SESSION_EXPIRED:
            over = BackendError("", "the session of ZooKeeper has expired", transient=True)
            raise Away(over, ran=False) from error
        if error.code == Code.NO_AUTH:
            raise Refusal("the user has no right to its nodes: correct user and password, or their ACLs") from error
        if error.code == Code.UNIMPLEMENTED:
            raise Refusal("the server does not know such requests: ZooKeeper 3.6 or newer is needed") from error
        raise Refusal(f"ZooKeeper answers: {error}", transient=error.code == Code.THROTTLED) from error
