"""Ref-counted subscriptions: many listeners, one SUBSCRIBE a channel."""

from __future__ import annotations

import asyncio

from ..backends.base import Backend, Wake


class Signals:
    """Subscribes once to a channel for all who listen, and unsubscribes with the last of them.

    Args:
        backend: what delivers the messages.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._listeners: dict[str, list[Wake]] = {}
        self._confirmed: dict[str, asyncio.Future[None]] = {}

    def listen(self, channel: str, wake: Wake) -> asyncio.Future[None]:
        """Call `wake` with each payload, and with None whenever something may have been missed.

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
        return confirmed

    def listeners(self, channel: str) -> int:
        """How many listen on `channel` here."""
        return len(self._listeners.get(channel, ()))

    def leave(self, channel: str, wake: Wake) -> None:
        """Stop calling `wake`; harmless if it does not listen."""
        listeners = self._listeners.get(channel)
        if listeners is None or wake not in listeners:
            return
        listeners.remove(wake)
        if not listeners:
            del self._listeners[channel], self._confirmed[channel]
            self._backend.unsubscribe(channel)

    def _deliver(self, channel: str, payload: str | None) -> None:
        for wake in list(self._listeners.get(channel, ())):
            wake(payload)
