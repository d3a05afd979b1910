"""The releases of the last seconds, also those that handed a name on: whoever takes a master's place may not have
them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from ..errors import BackendError
from ..log import Log
from ..scripts.base import Call

logger: Log = Log("aiolock.redis")

KEEP = 3.0
"""Seconds for which a release is kept, at most twice as long: an old master may answer until its clients have heard of
the new one.
"""


class Releases:
    """What servers have answered lately.

    Without it a name that was released at an old master, after another was promoted, stays taken for its whole ttl.

    Args:
        server: who runs a request now; None if that is not known.
        post: runs a request.
    """

    def __init__(self, server: Callable[[Call[Any]], object], post: Callable[[Call[Any]], None]) -> None:
        self._server = server
        self._post = post
        self._recent: list[tuple[Call[Any], object]] = []
        self._older: list[tuple[Call[Any], object]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._over = False

    def begin(self) -> None:
        """Servers can be reached from now on."""
        self._over = False

    def add(self, call: Call[Any], result: object, server: object) -> None:
        """`call` has this result, and went to this server."""
        if isinstance(result, BackendError) or self._over:
            return
        if self._moved(call, server):
            self._repeat(call)
            return
        self._recent.append((call, server))
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(KEEP, self._age)

    def repeat(self) -> None:
        """Others may run requests now: send them what they may lack."""
        kept, self._recent, self._older = [*self._older, *self._recent], [], []
        for call, server in kept:
            if self._moved(call, server):
                self._repeat(call)
            else:
                self._recent.append((call, server))

    def end(self) -> None:
        """Forget all."""
        self._over, self._recent, self._older = True, [], []
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _moved(self, call: Call[Any], server: object) -> bool:
        now = self._server(call)
        return now is not None and now != server

    def _repeat(self, call: Call[Any]) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + KEEP
        again = None if call.script.ends is None else call.script.ends(call)
        if again is not None:
            again.unanswered = lambda: loop.time() < until
            again.settle = partial(self._repeated, call.name)
            self._post(again)

    def _repeated(self, name: str, result: object) -> None:
        if isinstance(result, BackendError) and not self._over:
            text = "lock %r was released, but its new master could not be notified; it expires by itself: %s"
            logger.warning(text, name, result, extra={"lock_name": name})

    def _age(self) -> None:
        self._older, self._recent = self._recent, []
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(KEEP, self._age) if self._older else None
