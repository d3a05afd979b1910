"""Hears of releases elsewhere, where there is no queue of waiters."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ..errors import BackendError
from .runtime import Runtime


class ReleaseListener:
    """Listens on a name's channel while a task waits. A manager has one for each name: its gate's, or its latch's.

    Args:
        runtime: the manager's.
        channel: announces the name's releases.
        is_own: whether an owner was of this process, which continued when its release was written.
        signal: called when the name may be free.
    """

    __slots__ = ("_channel", "_confirmed", "_is_own", "_runtime", "_signal")

    def __init__(
        self, runtime: Runtime, channel: str, is_own: Callable[[str], bool], signal: Callable[[], None]
    ) -> None:
        self._runtime = runtime
        self._channel = channel
        self._is_own = is_own
        self._signal = signal
        self._confirmed: asyncio.Future[None] | None = None  # while it listens

    def listen(self) -> None:
        """Listen for releases; a confirmation counts as one. Does nothing if this manager polls."""
        if self._confirmed is None and self._runtime.waiting.told:
            self._confirmed = self._runtime.backend.subscribe(self._channel, self._on_message)
            self._confirmed.add_done_callback(self._on_confirmed)

    def stop(self) -> None:
        """Stop listening."""
        if self._confirmed is not None:
            self._confirmed = None
            self._runtime.backend.unsubscribe(self._channel)

    def _on_message(self, payload: str | BackendError | None) -> None:
        if isinstance(payload, BackendError):  # refused after a reconnect
            self._runtime.fall_back(payload)
        elif payload is not None:
            who, _, fence = payload.partition(" ")
            if fence:
                self._runtime.fences.told(fence)
            if self._is_own(who):
                return
        self._signal()

    def _on_confirmed(self, confirmed: asyncio.Future[None]) -> None:
        error = None if confirmed.cancelled() else confirmed.exception()
        if not isinstance(error, BackendError):
            return
        if not error.transient:
            self._runtime.fall_back(error)
        if confirmed is self._confirmed:  # not an earlier one, cancelled before it was confirmed
            self.stop()  # a waiter asks for it again after its next attempt
            if not error.transient:
                self._signal()  # from now on it polls
