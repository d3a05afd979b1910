"""Grants that outlast the server: what grants or extends counts only once enough replicas have acknowledged it."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from ..clock import Clock
from ..errors import AiolockError, BackendError
from ..scripts.base import Call
from .base import Backend, Wake
from .releases import Releases


class Lane:
    """The unsettled calls about one name: those on their way, all by one side, and those that wait for them.

    Without it an undo could overtake the grant that it undoes, and the next acquire the release before it.

    Attributes:
        under_way: those on their way.
    """

    def __init__(self) -> None:
        self._side: Backend | None = None
        self.under_way: set[Call[Any]] = set()
        self._waiting: deque[tuple[Backend, Call[Any]]] = deque()
        self._instead: list[tuple[Backend, Call[Any]]] | None = None

    @property
    def empty(self) -> bool:
        """Whether nothing is unsettled."""
        return not self.under_way and not self._waiting

    def put(self, side: Backend, call: Call[Any]) -> None:
        """Run `call` on `side`, after all others; or, while the maker of a settled call is told, in its place."""
        if self._instead is not None:
            self._instead.append((side, call))
            return
        self._drop_withdrawn()
        self._waiting.append((side, call))
        self._advance()

    def settle(self, call: Call[Any], tell: Callable[[], None]) -> None:
        """`call` is over: `tell` its maker, then run the calls that waited for it."""
        outer, self._instead = self._instead, []
        try:
            tell()
        finally:
            self._waiting.extendleft(reversed(self._instead))
            self._instead = outer
            self.under_way.discard(call)
            self._advance()

    def away(self, known: AiolockError) -> None:
        """The server cannot be reached: those that wait here wait for that, too."""
        for _, call in list(self._waiting):
            call.unreachable(known)

    def _advance(self) -> None:
        while self._waiting and (not self.under_way or self._waiting[0][0] is self._side):
            self._side, call = self._waiting.popleft()
            self.under_way.add(call)
            self._side.post(call)

    def _drop_withdrawn(self) -> None:
        # Otherwise the attempts that timed out behind a release in a long outage would pile up.
        gone = [call for _, call in self._waiting if call.withdrawn]
        if gone:
            self._waiting = deque(entry for entry in self._waiting if not entry[1].withdrawn)
        for call in gone:
            error = BackendError(call.name, f"a request about lock {call.name!r} was withdrawn", transient=True)
            asyncio.get_running_loop().call_soon(call.end, error)


class ReplicatedBackend(Backend):
    """Two backends of one server: one that answers at once, and one that answers when replicas have acknowledged.

    What grants or extends (`Script.unacknowledged`) runs on the second, so that its waiting delays nothing else. Calls
    about one name keep their order over both: one that changes sides goes once those before it are settled, by their
    reply or by the end of their connection. A call about many names, a renewal, does not wait: it creates nothing and
    shortens nothing, so any order is correct.

    Args:
        plain: for everything else, and for messages.
        checked: for what grants or extends.
        server: which one `plain` is connected to, if another may take its place at the same address. The next one gets
            the latest releases once more.

    Attributes:
        clock: that of both.
        db: that of both.
        abilities: all.
    """

    def __init__(self, plain: Backend, checked: Backend, server: Callable[[], object] | None = None) -> None:
        self.clock: Clock = plain.clock
        self.db: int = plain.db
        self._plain = plain
        self._checked = checked
        self._lanes: dict[str, Lane] = {}
        self._closing = False
        self._server = server
        self._releases = Releases(lambda _: None if server is None else server(), self.post)

    @property
    def unreachable(self) -> AiolockError | None:
        """See `Backend`."""
        return self._plain.unreachable or self._checked.unreachable

    def __repr__(self) -> str:
        return f"<ReplicatedBackend {self._plain!r} {self._checked!r}>"

    async def open(
        self, *, timeout: float, reconnected: Callable[[], None], needed: Callable[[], bool] | None = None
    ) -> None:
        """See `Backend.open`."""
        until = self.clock.now() + timeout
        self._lanes = {}
        self._closing = False
        self._releases.begin()
        await self._plain.open(timeout=timeout, reconnected=partial(self._resumed, reconnected), needed=needed)
        try:
            await self._checked.open(timeout=max(0.0, until - self.clock.now()), reconnected=reconnected, needed=needed)
        except BaseException:
            await _close_at_once(self._plain)
            raise

    def slot(self, key: str) -> int:
        """See `Backend.slot`."""
        return self._plain.slot(key)

    def away(self, key: str) -> AiolockError | None:
        """See `Backend.away`."""
        return self._plain.away(key) or self._checked.away(key)

    def post(self, call: Call[Any]) -> None:
        """See `Backend.post`; in order for each name, and at once unless a call about it is unsettled on the other
        side.
        """
        side = self._plain if call.script.unacknowledged is None else self._checked
        if not call.name:
            side.post(call)
            return
        lane = self._lanes.get(call.name)
        if lane is None:
            lane = self._lanes[call.name] = Lane()
        told = call.settle

        def settle(result: Any | BackendError) -> None:
            try:
                lane.settle(call, lambda: tell(result))
            finally:
                if lane.empty and self._lanes.get(call.name) is lane:
                    del self._lanes[call.name]

        def tell(result: Any | BackendError) -> None:
            if self._closing and call.writes > 0 and isinstance(result, BackendError):
                call.unanswered()  # it may still run, even after its undo on the other side: that needs a tombstone
            try:
                if told is not None:
                    told(result)
            finally:
                if call.script.ends is not None and self._server is not None:
                    self._releases.add(call, result, self._server())

        def away(known: AiolockError) -> None:
            if own is not None:
                own(known)
            if call in lane.under_way:
                lane.away(known)

        own, call.away = call.away, away
        call.settle = settle
        lane.put(side, call)

    def _resumed(self, reconnected: Callable[[], None]) -> None:
        self._releases.repeat()
        reconnected()

    def subscribe(self, channel: str, wake: Wake) -> asyncio.Future[None]:
        """See `Backend.subscribe`."""
        return self._plain.subscribe(channel, wake)

    def unsubscribe(self, channel: str) -> None:
        """See `Backend.unsubscribe`."""
        self._plain.unsubscribe(channel)

    async def aclose(self) -> None:
        """See `Backend.aclose`. The plain side goes last: an undo may have to wait for what it undoes."""
        self._closing = True
        try:
            await self._checked.aclose()
        except BaseException:
            await _close_at_once(self._plain)
            raise
        else:
            await self._plain.aclose()
        finally:
            self._releases.end()


async def _close_at_once(backend: Backend) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0):
            await backend.aclose()
