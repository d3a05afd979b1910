"""All of a manager's requests and messages over one connection, which is replaced when it is lost."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from ...clock import Clock, SystemClock
from ...errors import AiolockError, BackendError, ConfigurationError
from ...event_log import log_event
from ...events import Disconnected, Event, Reconnected
from ...log import Log
from ...scripts.base import Call
from ..base import Backend, Wake, nothing
from ..presence import PRESENCE, Presence
from ..worker import Worker
from .backoff import LASTED, Backoff
from .channels import Channels, Listener, Subscribe
from .clients import Client
from .connection import Connector, Link, ServerConnector
from .credentials import Authenticate
from .dialer import Dialer
from .ending import Ending
from .failures import Misplaced, Unready, disconnected, fate, lost, without_frames
from .handshake import Handshake
from .outbox import Asking, Outbox
from .refusals import Elsewhere, Refusals
from .replicas import Assurance
from .session import Session

logger: Log = Log("aiolock.redis")

_LINGER = 1.0
_ATTEMPTS = 3
"""Connections on which closing tries to get its answers."""


class _State(enum.Enum):
    CLOSED = enum.auto()
    OPENING = enum.auto()
    OPEN = enum.auto()


class RedisBackend(Backend):
    """One Redis server behind one connection; implements `Backend`.

    A call is sent at once if none is on its way, otherwise in one write with others of the same turn of the loop, in
    order. Nothing is written twice unless the maker of the call says so.

    Args:
        source: a `redis://`, `rediss://`, `valkey://`, `valkeys://` or `unix://` URL, or an asyncio client of redis-py
            or valkey-py, whose address, credentials and TLS are used; its retries, timeouts and decoding are not. Or
            what makes the connections.
        clock: stamps calls.
        request_timeout: seconds in which the server must answer: each attempt to connect may take as long, and a
            connection on which nothing was answered for that long is replaced.
        replicas: who must confirm that each call outlasts the server; None if no one does.
        pushes: False if there will be no subscription: then it speaks RESP2, which older proxies know, too.
        handshake: greets each new connection; by default that to a server of its own.
        elsewhere: asked about requests that the server refused without having run them.
        disconnected: told each time the connection is lost, when it has asked about what was unanswered, and each time
            an attempt to connect has failed.
        tell: told when the connection is lost, and when it is back.
        presence: how the server knows it.

    Attributes:
        clock: as given.
        db: the number of the database.
        abilities: all.
        address: host and port, or the path of the socket.
        unreachable: why there is no connection, as the last attempt found; None while there is one.

    Raises:
        ConfigurationError: a bad URL, or a client for a cluster or Sentinel.
    """

    unreachable: AiolockError | None = None

    def __init__(
        self,
        source: str | Client | Connector,
        *,
        clock: Clock | None = None,
        request_timeout: float = 5.0,
        replicas: Assurance | None = None,
        pushes: bool = True,
        handshake: Handshake | None = None,
        elsewhere: Elsewhere | None = None,
        disconnected: Callable[[], None] | None = None,
        tell: Callable[[Event], None] = log_event,
        presence: Presence = PRESENCE,
    ) -> None:
        self._connector = source if isinstance(source, Connector) else ServerConnector(source, pushes)
        self.address: str = self._connector.address
        self.clock: Clock = clock or SystemClock()
        self.db: int = self._connector.db
        self._failure: AiolockError | None = None  # of the last attempt to connect, if no server was reached
        self._timeout = request_timeout
        self._replicas = replicas
        self._state = _State.CLOSED
        self._handshake = handshake or Handshake(None if replicas is None else replicas.least)
        self._dialer = Dialer(self._connector, self._handshake, presence)
        self._refusals = Refusals(elsewhere, self._handshake.complaints)
        self._disconnected: Callable[[], None] = disconnected or nothing
        self._tell = tell
        self._presence = presence
        self._needed: Callable[[], bool] | None = None
        self._outbox = Outbox()
        self._channels = Channels(self._subscribe_again)
        self._session: Session | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._backoff = Backoff()
        self._connecting: Worker[None] | None = None  # while there is no session
        self._attempt: asyncio.Future[None] | None = None  # while an attempt is running
        self._reconnected: Callable[[], None] = nothing
        self._closed: asyncio.Future[None] | None = None
        self._resumes = False  # there was a connection since it was opened
        # See `Backend.post`. The session's `put` while there is one, without a step between: another process may wait.
        self.post: Callable[[Call[Any]], None] = self._put_by  # type: ignore[assignment]

    @property
    def run_id(self) -> str:
        """Identifies the server that it is connected to, or was last; "" if unknown."""
        return self._handshake.run_id

    def __repr__(self) -> str:
        state = "connected" if self._session is not None else self._state.name.lower()
        return f"<RedisBackend db={self.db} {state}>"

    async def open(
        self, *, timeout: float, reconnected: Callable[[], None], needed: Callable[[], bool] | None = None
    ) -> None:
        """See `Backend.open`. A replica may be promoted soon, so it gets as long as a server that is slow."""
        self._begin(needed)
        try:
            link = await self._dialer.find_master(timeout)
        except BaseException:
            self._state = _State.CLOSED
            raise
        self._opened(reconnected)
        self._new_session(link).start()

    def start(self, *, reconnected: Callable[[], None], needed: Callable[[], bool] | None = None) -> None:
        """Open without waiting for the first connection: until then requests wait. For a backend made of several.

        Args:
            reconnected: as for `open`; the first connection replaces none.
            needed: as for `open`.
        """
        self._begin(needed)
        self._opened(reconnected)
        self._keep_connecting()

    def take_over(self, request: Call[Any], *, asking: bool = False) -> None:
        """Run a request that another backend refused or returned. With `asking`, its key is still being moved here."""
        if asking and self._session is not None:
            self._session.put(Asking(request))
        else:
            self.post(request)

    def give_back(self, wanted: Callable[[Call[Any]], bool]) -> list[Call[Any]]:
        """Take out what is not written yet, or was unanswered when the connection was lost and may run again; in order.

        Args:
            wanted: chooses the requests.
        """
        return self._outbox.take_back(wanted)

    @property
    def connected(self) -> bool:
        """Whether there is a connection."""
        return self._session is not None

    def unsettled(self) -> Iterator[Call[Any]]:
        """The requests that are on their way, and those that wait to be written, in order; some of them twice."""
        if self._session is not None:
            yield from self._session.replies.unanswered()
        yield from self._outbox.requests()

    def replace(self, reason: Exception) -> None:
        """Give up the connection, as if it were lost, and make another; harmless while there is none."""
        if self._session is not None:
            self._session.abandon(reason)

    def subscribe(self, channel: str, wake: Wake, *, sharded: bool = False) -> asyncio.Future[None]:
        """See `Backend.subscribe`; with `sharded`, by SSUBSCRIBE, until the server no longer serves its slot."""
        listener = Listener(channel.encode(), wake, asyncio.get_running_loop().create_future(), sharded)
        if self._state is not _State.OPEN:
            listener.fail(self._closed_error("", transient=True))
            return listener.future
        self._channels.add(listener)
        if self._session is not None:
            self._session.put(Subscribe(listener))
        return listener.future

    def unsubscribe(self, channel: str) -> None:
        """See `Backend.unsubscribe`."""
        for ending in self._channels.remove(channel.encode()):
            if self._session is not None:
                self._session.put_off(ending)

    async def aclose(self) -> None:
        """See `Backend.aclose`; harmless if it is already closed."""
        if self._closed is not None:
            await asyncio.wait((self._closed,))
            return
        if self._loop is not None and self._loop.is_closed():
            self._forget()
        if self._state is not _State.OPEN:
            return
        self._closed = asyncio.get_running_loop().create_future()
        linger = self._timeout
        try:
            try:
                await self.finish()
                linger = min(linger, _LINGER)
            finally:
                ending = self._shut(linger)
            await ending.wait()
        finally:
            self._closed.set_result(None)
            self._closed = None

    async def finish(self) -> None:
        """Wait until all is written and answered, or cannot be: for an attempt to connect that runs, or one more."""
        hurried = False
        for _ in range(_ATTEMPTS):
            session = self._session
            if session is not None:
                if await session.quiet():
                    return
                await asyncio.sleep(0)  # if the connection was lost, it now says so
                if self._session is session:
                    return
            if not self._outbox.wanted() or (hurried and self._attempt is None):
                return
            if self._attempt is None:  # it pauses
                hurried, self._attempt = True, asyncio.get_running_loop().create_future()
                self._backoff.hurry()
            await asyncio.wait((self._attempt,), timeout=self._timeout)

    def _put_by(self, request: Call[Any]) -> None:
        """Connect until there is a connection."""
        if self._state is _State.OPEN:
            self._outbox.put(request)
            if self._failure is not None and not self._backoff.need():
                asyncio.get_running_loop().call_soon(request.unreachable, self._failure)
        else:
            asyncio.get_running_loop().call_soon(request.end, self._closed_error(request.name))

    def _new_session(self, link: Link) -> Session:
        loop = asyncio.get_running_loop()
        lost = partial(self._lost, loop.time())
        session = Session(
            link,
            self._outbox,
            self._channels,
            self.clock,
            self._timeout,
            lost,
            self._refused,
            self._idle,
            self._replicas,
        )
        self._session, self.post, self.unreachable, self._failure = session, session.put, None, None
        return session

    def _idle(self) -> float:
        # What is held may be revoked or wanted by a message, so a connection that is dead matters then.
        if self._needed is None or self._needed():
            return min(self._timeout, self._presence.keepalive)
        return self._presence.keepalive

    def _begin(self, needed: Callable[[], bool] | None) -> None:
        if self._loop is not None and self._loop.is_closed():
            self._forget()
        if self._state is not _State.CLOSED:
            raise ConfigurationError("", "the backend is already open: close it first")
        self._state, self._needed = _State.OPENING, needed
        self._loop = asyncio.get_running_loop()
        self._outbox = Outbox()
        self._channels = Channels(self._subscribe_again)
        self._backoff = Backoff()
        self._resumes, self._failure = False, None

    def _opened(self, reconnected: Callable[[], None]) -> None:
        self._state = _State.OPEN
        self._reconnected = reconnected
        if self._connector.credentials is not None:
            self._connector.credentials.listen(self._authenticate)

    def _lost(self, began: float, cause: Exception) -> None:
        session, loop = self._session, asyncio.get_running_loop()
        if session is None:
            return  # closed meanwhile
        self._session, self.post, self._resumes = None, self._put_by, True
        self.unreachable = without_frames(disconnected(cause, self._channels.unconfirmed))
        if loop.time() - began > LASTED:
            self._backoff.reset()
        self._outbox.disconnected()
        for request in session.replies.requests():
            self._outbox.unanswered(request, lost(request.name, request.doing, cause))
        self._keep_connecting()
        self._disconnected()
        self._tell(Disconnected(self.address, cause, fate(cause)))

    def _keep_connecting(self) -> None:
        loop = asyncio.get_running_loop()
        self._attempt = loop.create_future()
        self._connecting = Worker(partial(self._reconnect, loop.time(), set()), nothing, "aiolock connection")

    async def _reconnect(self, began: float, told: set[bool]) -> None:
        loop = asyncio.get_running_loop()
        while self._session is None:
            await self._backoff.pause()
            if self._attempt is None:
                self._attempt = loop.create_future()
            try:
                link = await self._dialer.dial(self._timeout)
            except AiolockError as error:
                self.unreachable = without_frames(error)
                self._failure = None if isinstance(error.__cause__, Misplaced | Unready) else error  # it will be ready
                self._attempted()
                passing = isinstance(error, BackendError) and error.transient
                tell = logger.debug if passing in told else logger.warning if passing else logger.error
                tell("still not connected to Redis: %s", error)
                told.add(passing)
                self._disconnected()  # it may take back what another server can run
                for request in list(self._outbox.requests()) if self._failure is not None else ():
                    request.unreachable(error)
            else:
                again = self._resumes
                self._resume(link)
                if again:
                    self._tell(Reconnected(self.address, loop.time() - began))
                else:
                    logger.info("connected to Redis after %.1f s", loop.time() - began)

    def _attempted(self) -> None:
        attempt, self._attempt = self._attempt, None
        if attempt is not None and not attempt.done():
            attempt.set_result(None)

    def _resume(self, link: Link) -> None:
        session = self._new_session(link)
        session.start()
        subscribe = session.put if self._resumes else self._outbox.put_back  # scripts count who listens
        if self._resumes:
            session.flush()
            try:
                self._reconnected()
            except Exception:
                logger.exception("the callback of a new connection failed")
        for listener in self._channels.all():
            subscribe(Subscribe(listener))
        session.wake()
        self._attempted()

    def _refused(self, request: Call[Any], error: Exception) -> None:
        self._refusals.judge(request, error, self._session, self._outbox)

    def _subscribe_again(self, listener: Listener) -> None:
        if self._session is not None and self._channels.has(listener):
            self._session.put(Subscribe(listener))

    def _authenticate(self, renewal: Authenticate) -> None:
        if self._session is not None:  # the next connection asks for the newest
            self._session.put(renewal)

    def _closed_error(self, name: str, *, transient: bool = False) -> BackendError:
        return BackendError(name, "the manager was closed before Redis answered", transient)

    def _shut(self, linger: float) -> Ending:
        session, self._session = self._session, None
        connecting, self._connecting = self._connecting, None
        self._unbind()
        self._attempted()
        ending = Ending(session, connecting, linger)
        unfinished = list(session.replies.requests()) if session is not None else []
        for request in (*unfinished, *self._outbox.take_back(lambda _: True)):
            request.end(self._closed_error(request.name))
        self._channels.clear(self._closed_error("", transient=True))  # the server did not refuse to subscribe us
        return ending

    def _forget(self) -> None:
        """Its loop was closed before it was: nothing of it runs any more, and no one waits."""
        session, self._session = self._session, None
        self._connecting = self._attempt = self._closed = None
        self._unbind()
        if session is not None:
            session.link.sever()

    def _unbind(self) -> None:
        self._state, self._loop, self.post = _State.CLOSED, None, self._put_by
        self._handshake.forget()
        if self._connector.credentials is not None:
            self._connector.credentials.leave()
