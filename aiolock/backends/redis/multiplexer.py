"""All of a manager's requests and messages over one connection, which is replaced when it is lost."""

from __future__ import annotations

import asyncio
import enum
import logging
from collections.abc import Callable
from typing import Any, TypeVar

from redis.asyncio import Redis
from redis.exceptions import NoScriptError

from ...clock import Clock, SystemClock
from ...errors import AiolockError, BackendError, ConfigurationError
from ...scripts.base import Call
from ..base import Wake
from . import failures
from .backoff import LASTED, Backoff
from .channels import Channels, Listener, Subscribe, Unsubscribe
from .connection import Connector, Link
from .handshake import Handshake
from .outbox import Outbox
from .replicas import Replicas
from .requests import Request
from .session import Session

R = TypeVar("R")
logger: logging.Logger = logging.getLogger("aiolock.redis")

_MISSES = 3
_LINGER = 1.0


class _State(enum.Enum):
    CLOSED = enum.auto()
    OPENING = enum.auto()
    OPEN = enum.auto()


class RedisBackend:
    """One Redis server behind one connection; implements `Backend`.

    A call leaves at once if none is on its way, else in one write with others of the same turn of the loop, in order.
    Nothing is written twice unless whoever made the call says so.

    Args:
        source: a `redis://`, `rediss://` or `unix://` URL, or a `redis.asyncio.Redis` whose address, credentials, TLS
            and parser are taken over; its retries, timeouts and decoding are not.
        clock: stamps calls.
        request_timeout: seconds in which the server must answer: each attempt to connect may take as long, and a
            connection on which nothing was answered for that long is replaced.
        replicas: who must acknowledge every call; None for nobody.
        pushes: False if nobody will subscribe: then RESP2 is spoken, which older proxies know, too.

    Attributes:
        clock: as given.
        db: the number of the database.
        checked: False.
        nodes: 1.
        address: host and port, or the path of the socket.
        connections_opened: how often it connected, since it was made.

    Raises:
        ConfigurationError: a bad URL, or a client for a cluster or Sentinel.
    """

    nodes = 1
    checked = False

    def __init__(
        self,
        source: str | Redis,
        *,
        clock: Clock | None = None,
        request_timeout: float = 5.0,
        replicas: Replicas | None = None,
        pushes: bool = True,
    ) -> None:
        self._connector = Connector(source, pushes)
        self.address: str = self._connector.address
        self.clock: Clock = clock or SystemClock()
        self.db: int = self._connector.db
        self.connections_opened: int = 0
        self._timeout = request_timeout
        self._replicas = replicas
        self._state = _State.CLOSED
        self._handshake = Handshake(0 if replicas is None else replicas.least)
        self._outbox = Outbox()
        self._channels = Channels(self._subscribe_again)
        self._session: Session | None = None
        self._supervisor: asyncio.Task[None] | None = None
        self._reconnected: Callable[[], None] = _nothing
        self._closed: asyncio.Future[None] | None = None
        self._on_missing = self._missing  # made once, not for each request

    def __repr__(self) -> str:
        state = "connected" if self._session is not None else self._state.name.lower()
        return f"<RedisBackend db={self.db} {state}>"

    async def open(self, *, timeout: float, reconnected: Callable[[], None]) -> None:
        """See `Backend.open`."""
        if self._state is not _State.CLOSED:
            raise ConfigurationError("", "the backend is already open: close it first")
        self._state = _State.OPENING
        try:
            link = await self._connect(timeout)
        except BaseException:
            self._state = _State.CLOSED
            raise
        self._state = _State.OPEN
        self._reconnected = reconnected
        self._outbox = Outbox()
        self._channels = Channels(self._subscribe_again)
        self._session = self._new_session(link)
        self._supervisor = asyncio.create_task(self._supervise(self._session), name="aiolock connection")
        self._supervisor.add_done_callback(self._supervisor_ended)

    def run(self, call: Call[R]) -> asyncio.Future[R]:
        """See `Backend.run`."""
        session = self._session
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        if session is not None:
            session.put(Request(call, future, self._on_missing))
        else:
            self._put_by(Request(call, future, self._on_missing))
        return future

    def post(self, call: Call[Any]) -> None:
        """See `Backend.post`."""
        session = self._session
        if session is not None:
            session.put(Request(call, None, self._on_missing))
        else:
            self._put_by(Request(call, None, self._on_missing))

    def subscribe(self, channel: str, wake: Wake) -> asyncio.Future[None]:
        """See `Backend.subscribe`."""
        listener = Listener(channel.encode(), wake, asyncio.get_running_loop().create_future())
        if self._state is not _State.OPEN:
            listener.fail(self._closed_error("", transient=True))
            return listener.future
        self._channels.add(listener)
        if self._session is not None:
            self._session.put(Subscribe(listener))
        return listener.future

    def unsubscribe(self, channel: str) -> None:
        """See `Backend.unsubscribe`."""
        if self._channels.remove(channel.encode()) and self._session is not None:
            self._session.put_off(Unsubscribe(channel.encode()))

    async def aclose(self) -> None:
        """See `Backend.aclose`; harmless if it is closed."""
        if self._closed is not None:
            await asyncio.wait((self._closed,))
            return
        if self._state is not _State.OPEN:
            return
        self._closed = asyncio.get_running_loop().create_future()
        try:
            try:
                if self._session is not None:
                    await self._session.quiet(min(self._timeout, _LINGER))
            finally:
                ending = self._shut()
            await ending.wait()
        finally:
            self._closed.set_result(None)
            self._closed = None

    def _put_by(self, request: Request[Any]) -> None:
        """Until there is a connection."""
        if self._state is _State.OPEN:
            self._outbox.put(request)
        else:
            asyncio.get_running_loop().call_soon(request.settle, self._closed_error(request.call.name))

    def _new_session(self, link: Link) -> Session:
        return Session(link, self._outbox, self._channels, self.clock, self._timeout, self._replicas)

    async def _connect(self, timeout: float) -> Link:
        link: Link | None = None
        try:
            async with asyncio.timeout(timeout):
                link = await self._connector.connect()
                await self._handshake.greet(link)
                link.attach()
        except BaseException as error:
            if link is not None:
                link.reset()
            if not isinstance(error, Exception):
                raise
            failure = failures.unconnected(error)
            raise failure from failure.__cause__
        self.connections_opened += 1
        return link

    async def _supervise(self, session: Session) -> None:
        loop = asyncio.get_running_loop()
        backoff = Backoff()
        try:
            while True:
                began = loop.time()
                cause = await session.run()
                self._lost(session, cause)
                if loop.time() - began > LASTED:
                    backoff.reset()
                session = self._resume(await self._reconnect(backoff))
        except Exception:
            logger.exception("the connection to Redis is given up after an internal error")

    def _supervisor_ended(self, supervisor: asyncio.Task[None]) -> None:
        # Somebody else cancelled it, perhaps before its first step: better no backend than one that never answers.
        if self._supervisor is supervisor:
            self._shut()

    def _lost(self, session: Session, cause: Exception) -> None:
        self._session = None
        logger.warning("the connection to Redis was lost (%s: %s), connecting again", type(cause).__name__, cause)
        self._outbox.disconnected()
        for request in session.replies.requests():
            self._outbox.unanswered(request, failures.lost(request.call.name, request.doing, cause))

    async def _reconnect(self, backoff: Backoff) -> Link:
        loop = asyncio.get_running_loop()
        began = loop.time()
        logged: set[int] = set()
        while True:
            await asyncio.sleep(backoff.next())
            try:
                link = await self._connect(self._timeout)
            except AiolockError as error:
                passing = isinstance(error, BackendError) and error.transient
                level = logging.WARNING if passing else logging.ERROR
                logger.log(logging.DEBUG if level in logged else level, "still not connected to Redis: %s", error)
                logged.add(level)
            else:
                logger.info("connected to Redis again after %.1f s", loop.time() - began)
                return link

    def _resume(self, link: Link) -> Session:
        session = self._session = self._new_session(link)
        session.flush()
        try:
            self._reconnected()
        except Exception:
            logger.exception("the callback of a new connection failed")
        for listener in self._channels.all():
            session.put(Subscribe(listener))
        session.wake()
        return session

    def _missing(self, request: Request[Any], error: NoScriptError) -> None:
        call, session = request.call, self._session
        request.misses += 1
        refusal = session.scripts.refusals.get(call.script.sha) if session is not None else None
        if refusal is not None:
            request.settle(failures.refused(call.name, f"SCRIPT LOAD for {request.doing}", refusal))
            return
        failure = BackendError(call.name, f"Redis does not keep the script of {request.doing}", transient=True)
        failure.__cause__ = error
        if session is None or request.misses > _MISSES:
            request.settle(failure)
            return
        session.scripts.missing(call.script.sha)
        self._outbox.unanswered(request, failure)
        session.wake()

    def _subscribe_again(self, listener: Listener) -> None:
        if self._session is not None and self._channels.has(listener):
            self._session.put(Subscribe(listener))

    def _closed_error(self, name: str, *, transient: bool = False) -> BackendError:
        return BackendError(
            name, "the connection to Redis is closed: use locks inside `async with manager:`", transient
        )

    def _shut(self) -> _Ending:
        session, self._session = self._session, None
        supervisor, self._supervisor = self._supervisor, None
        self._state = _State.CLOSED
        self._handshake.forget()
        ending = _Ending(session)
        if supervisor is not None:
            supervisor.cancel()
            ending.tasks.append(supervisor)
        unfinished = list(session.replies.requests()) if session is not None else []
        unfinished += [item for item in self._outbox.take() if isinstance(item, Request)]
        for request in unfinished:
            request.settle(self._closed_error(request.call.name))
        self._channels.clear(self._closed_error("", transient=True))  # no verdict on subscribing
        return ending


class _Ending:
    """A session that is closed: its connection closes once all is sent, or is reset if that takes too long."""

    def __init__(self, session: Session | None) -> None:
        self.tasks: list[asyncio.Task[None]] = []
        self._link = session.link if session is not None else None
        if session is not None:
            writer = session.close()
            if writer is not None:
                self.tasks.append(writer)
            self._timer = asyncio.get_running_loop().call_later(_LINGER, session.link.reset)

    async def wait(self) -> None:
        """Wait until nothing is left."""
        if self.tasks:
            await asyncio.wait(self.tasks)
        if self._link is not None:
            await self._link.closed()
            self._timer.cancel()


def _nothing() -> None:
    pass
