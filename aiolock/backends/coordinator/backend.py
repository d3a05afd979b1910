"""A backend over a store that keeps ordered queues: it hands requests on, and repeats what got no answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from ...clock import Clock, format_seconds
from ...errors import AiolockError, BackendError, ConfigurationError
from ...event_log import log_event
from ...events import Disconnected, Event, Reconnected
from ...log import Log
from ...scripts.base import Call
from ...scripts.keys import Keys
from ..base import Abilities, Backend, Wake, nothing
from .calls import CoordinatorCalls, Target, want_of
from .paths import Paths
from .places import Places
from .store import Away, OwnPlace, Refusal, Store

logger: Log = Log("aiolock.redis")

ROUNDS = 2
"""Rounds of attempts to connect for which closing waits: the one that runs may be nearly over."""


class CoordinatorBackend(Backend):
    """Answers the requests of `CoordinatorCalls`. Those of one owner follow each other; others run side by side.

    Args:
        store: where the queues are.
        namespace: the first part of every path.
        request_timeout: seconds that closing may take.
        tell: told when the store cannot be used any more, and when it can again.

    Attributes:
        unreachable: why the store cannot be used, as the last attempt found; None while it can.
    """

    db = 0
    unreachable: AiolockError | None = None

    def __init__(
        self,
        store: Store,
        namespace: str,
        request_timeout: float = 5.0,
        tell: Callable[[Event], None] = log_event,
    ) -> None:
        self.abilities: Abilities = Abilities(store=store.name, requests=self._requests)
        self.clock: Clock = store.clock
        self.paths: Paths = Paths(namespace)
        self._keys = Keys(namespace)
        self._store = store
        self._timeout = request_timeout
        self._tell = tell
        self._loop: asyncio.AbstractEventLoop | None = None
        self._reconnected: Callable[[], None] = nothing
        self._begin()

    def _begin(self) -> None:
        self._places = Places(self._store, self.paths, self._spawn, self._entered)
        self._last: dict[str, asyncio.Task[None]] = {}  # of each owner's requests
        self._tasks: set[asyncio.Task[None]] = set()
        self._calls: dict[Call[Any], None] = {}
        self._wakes: dict[str, Wake] = {}
        self._away_since: float | None = None
        self._quiet: asyncio.Future[None] | None = None  # until no request is left, or a round of attempts has failed
        self.unreachable = None

    def __repr__(self) -> str:
        return f"<CoordinatorBackend {self._store.address} {'closed' if self._loop is None else 'open'}>"

    def _requests(self, kind: str, name: str, capacity: int, weight: int) -> CoordinatorCalls:
        return CoordinatorCalls(Target(self.paths.of(kind, name), kind, name, capacity, weight, kind == "rw"))

    async def open(
        self, *, timeout: float, reconnected: Callable[[], None], needed: Callable[[], bool] | None = None
    ) -> None:
        if self._loop is not None:
            if not self._loop.is_closed():
                raise ConfigurationError("", "this backend is already open: give each manager a backend of its own")
            self._loop = None  # its loop was closed before it was
        self._begin()
        try:
            async with asyncio.timeout(timeout):
                await self._store.open(self._places.moved, self._lost, self._back)
        except Away as why:
            await self._store.aclose()
            raise why.error from why.__cause__
        except TimeoutError:
            await self._store.aclose()
            known = self.unreachable
            text = f"{self._store.address} gave no answer within {format_seconds(timeout)} s"
            raise BackendError("", f"{text}: {known}" if known else text, transient=True) from known
        except BaseException:
            await self._store.aclose()
            raise
        self._loop = asyncio.get_running_loop()
        self.unreachable = None
        self._reconnected = reconnected

    def post(self, call: Call[Any]) -> None:
        loop = self._loop
        if loop is None:
            asyncio.get_running_loop().call_soon(call.end, _closed(call))
            return
        if self.unreachable is not None:
            loop.call_soon(call.unreachable, self.unreachable)
        self._calls[call] = None
        owner = want_of(call).owner
        task = self._spawn(self._serve(call, self._last.get(owner)))
        if owner:
            self._last[owner] = task
            task.add_done_callback(lambda done: self._last.pop(owner) if self._last.get(owner) is done else None)

    def subscribe(self, channel: str, wake: Wake) -> asyncio.Future[None]:
        assert self._loop is not None, "open() comes first"
        self._wakes[channel] = wake
        self._store.listen(self.paths.mailbox(channel.removeprefix(self._keys.managers)), wake)
        confirmed: asyncio.Future[None] = self._loop.create_future()
        confirmed.set_result(None)
        wake(None)
        return confirmed

    def unsubscribe(self, channel: str) -> None:
        self._wakes.pop(channel, None)

    async def aclose(self) -> None:
        loop = self._loop
        if loop is None:
            return
        try:
            if loop is asyncio.get_running_loop():
                await self._finish(loop)
        finally:
            self._loop = None
            self._wakes.clear()
            calls, self._calls = self._calls, {}
            for call in calls:
                call.end(_closed(call))
            tasks = list(self._tasks)
            for task in tasks:
                task.cancel()
            await self._store.aclose()
            if tasks:
                await asyncio.wait(tasks)

    async def _finish(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wait until all is answered, or cannot be: for the round of attempts that runs, and one more."""
        until, rounds = loop.time() + self._timeout, 0
        while self._tasks if self.unreachable is None else any(not call.withdrawn for call in self._calls):
            if rounds == ROUNDS:
                return
            self._quiet = loop.create_future()
            await asyncio.wait((self._quiet,), timeout=until - loop.time())
            if not self._quiet.done():
                return
            rounds += bool(self._tasks)

    # Requests.

    def _spawn(self, job: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        assert self._loop is not None
        task = self._loop.create_task(job)
        self._tasks.add(task)
        task.add_done_callback(self._over)
        return task

    def _over(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not self._tasks:
            self._wake_closing()

    def _wake_closing(self) -> None:
        if self._quiet is not None and not self._quiet.done():
            self._quiet.set_result(None)

    async def _serve(self, call: Call[Any], before: asyncio.Task[None] | None) -> None:
        if before is not None and not before.done():
            await asyncio.wait((before,))
        result: Any = None
        while True:
            try:
                await self._store.ready()
                if call.withdrawn:
                    self._calls.pop(call, None)
                    call.unwritten()
                    return
                call.sent_at = self.clock.now()
                call.writes += 1
                result = await self._places.answer(want_of(call), call.sent_at)
            except Away as why:
                if call not in self._calls:
                    return
                if call.again(unrun=not why.ran):
                    continue
                result = BackendError(call.name, f"{call.doing} got no answer: {why.error}", transient=True)
                result.__cause__ = why.error
            except Refusal as why:
                result = BackendError(call.name, f"{call.doing} was refused: {why}", transient=why.transient)
            except Exception as error:
                logger.exception("an error while serving a request")  # whoever waits must not hang
                result = BackendError(call.name, f"{call.doing} failed: {error!r}")
                result.__cause__ = error
            if self._calls.pop(call, self) is None:
                call.end(result)
            return

    def _entered(self, own: OwnPlace) -> None:
        """A place is in: its owner must ask."""
        kind, name = self.paths.read(own.path)
        for wake in list(self._wakes.values()):
            wake(f"granted {own.owner} {own.order} 0 {self._keys.of(kind, name).lock}")

    # Outages.

    def _lost(self, error: AiolockError, away: bool) -> None:
        if self._loop is None:
            self.unreachable = error
            return
        if self._away_since is None:
            self._away_since = self.clock.now()
            self._tell(Disconnected(self._store.address, error, f"cannot be used ({error})"))
        if away:
            self.unreachable = error
            for call in list(self._calls):
                call.unreachable(error)
            self._wake_closing()

    def _back(self) -> None:
        self.unreachable = None
        if self._loop is None:
            return
        since, self._away_since = self._away_since, None
        if since is not None:
            self._tell(Reconnected(self._store.address, self.clock.now() - since))
        try:
            self._reconnected()
        except Exception:
            logger.exception("the callback of a new connection failed")


def _closed(call: Call[Any]) -> BackendError:
    return BackendError(call.name, "the manager was closed", transient=True)
