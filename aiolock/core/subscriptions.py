"""Ref-counted subscriptions: many listeners, one SUBSCRIBE per channel."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ..backends.base import Backend
from ..errors import BackendError

Hear = Callable[[str | None], None]
"""Called with each payload, and with None whenever a message may have been missed."""


class Subscriptions:
    """Subscribes once to a channel for all its listeners, and unsubscribes with the last of them.

    Args:
        backend: delivers the messages.
        refused: told if the server refuses, at once or after a reconnect.
    """

    def __init__(self, backend: Backend, refused: Callable[[BackendError], None]) -> None:
        self._backend = backend
        self._refused = refused
        self._listeners: dict[str, list[Hear]] = {}
        self._confirmed: dict[str, asyncio.Future[None]] = {}

    def listen(self, channel: str, wake: Hear) -> asyncio.Future[None]:
        """Call `wake` with each payload, and with None whenever a message may have been missed.

        Returns:
            Done when the server has confirmed; failed with `BackendError` if it refuses. Shared: do not cancel it.
        """
        listeners = self._listeners.get(channel)
        if listeners is not None:
            listeners.append(wake)
            if self._confirmed[channel].done():
                asyncio.get_running_loop().call_soon(wake, None)
            return self._confirmed[channel]
        self._listeners[channel] = [wake]
        confirmed = self._confirmed[channel] = self._backend.subscribe(
            channel, lambda payload: self._deliver(channel, payload)
        )
        confirmed.add_done_callback(self._on_confirmed)
        return confirmed

    def leave(self, channel: str, wake: Hear) -> None:
        """Stop calling `wake`; harmless if it does not listen."""
        listeners = self._listeners.get(channel)
        if listeners is None or wake not in listeners:
            return
        listeners.remove(wake)
        if not listeners:
            del self._listeners[channel], self._confirmed[channel]
            self._backend.unsubscribe(channel)

    def _on_confirmed(self, confirmed: asyncio.Future[None]) -> None:
        error = None if confirmed.cancelled() else confirmed.exception()
        if isinstance(error, BackendError) and not error.transient:
            self._refused(error)

    def _deliver(self, channel: str, payload: str | BackendError | None) -> None:
        if isinstance(payload, BackendError):
            self._refused(payload)
            payload = None
        for wake in list(self._listeners.get(channel, ())):
            wake(payload)
