"""Hears of releases elsewhere, where there is no queue of waiters."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from ..errors import BackendError
from .runtime import Runtime


class ReleaseListener:
    """Listens on a name's channels while a task waits.

    Args:
        runtime: the manager's.
        channels: they announce the name's releases.
        is_own: whether an owner was of this process, which continued when its release was written.
        signal: called when the name may be free.
    """

    __slots__ = ("_channels", "_confirmations", "_is_own", "_runtime", "_signal")

    def __init__(
        self, runtime: Runtime, channels: Sequence[str], is_own: Callable[[str], bool], signal: Callable[[], None]
    ) -> None:
        self._runtime = runtime
        self._channels = channels
        self._is_own = is_own
        self._signal = signal
        self._confirmations: list[asyncio.Future[None]] = []

    def listen(self) -> None:
        """Listen for releases; a confirmation counts as one. Does nothing if this manager polls."""
        if self._confirmations or not self._runtime.waiting.told:
            return
        self._confirmations = [
            self._runtime.subscriptions.listen(channel, self._on_message) for channel in self._channels
        ]
        for confirmed in self._confirmations:
            confirmed.add_done_callback(self._on_confirmed)

    def stop(self) -> None:
        """Stop listening."""
        if self._confirmations:
            self._confirmations = []
            for channel in self._channels:
                self._runtime.subscriptions.leave(channel, self._on_message)

    def _on_message(self, payload: str | None) -> None:
        if payload is not None:
            who, _, fence = payload.partition(" ")
            if fence:
                self._runtime.fences.told(fence)
            if self._is_own(who):
                return
        self._signal()

    def _on_confirmed(self, confirmed: asyncio.Future[None]) -> None:
        if confirmed not in self._confirmations:
            return  # an earlier subscription, cancelled before it was confirmed
        error = confirmed.exception()
        if isinstance(error, BackendError):
            self.stop()  # a waiter asks for it again after its next attempt
            if not error.transient:
                self._signal()  # from now on it polls
