"""The listeners of all channels; they outlive connections."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from ...errors import BackendError
from ...log import Log
from ...scripts.base import resolve
from ..base import Wake
from .failures import ErrorReply, refused

logger: Log = Log("aiolock.redis")

RETRY = 1.0
FAILED = "the callback of a subscription failed"


class Listener:
    """One subscription.

    Attributes:
        channel: its name.
        wake: gets each payload, None when it is confirmed, and the error if it is refused after that.
        future: done with the first confirmation.
        sharded: the server ends it, with an error for `wake`, when it no longer serves the slot of the channel.
        confirmed: whether there was one.
        leaving: a sharded one that gets messages only until the server says that there will be no more.
    """

    __slots__ = ("channel", "confirmed", "future", "leaving", "sharded", "wake")

    def __init__(self, channel: bytes, wake: Wake, future: asyncio.Future[None], sharded: bool = False) -> None:
        self.channel: bytes = channel
        self.wake: Wake = wake
        self.future: asyncio.Future[None] = future
        self.sharded: bool = sharded
        self.confirmed: bool = False
        self.leaving: bool = False

    def fail(self, error: BackendError) -> None:
        """End it: it will not be confirmed."""
        resolve(self.future, error)


class Subscribe(NamedTuple):
    """To be written."""

    listener: Listener


class Unsubscribe(NamedTuple):
    """To be written."""

    channel: bytes


class Leave(NamedTuple):
    """To be written: the end of a sharded subscription."""

    listener: Listener


class Channels:
    """The listeners by channel. One channel can have two: what is published, and what is published by SPUBLISH.

    Args:
        again: repeats a SUBSCRIBE that was refused for a temporary reason.
    """

    def __init__(self, again: Callable[[Listener], None]) -> None:
        self._listeners: dict[bytes, Listener] = {}
        self._sharded: dict[bytes, Listener] = {}
        self._again = again

    def all(self) -> list[Listener]:
        """All that are wanted on a new connection; what was to end with the old one has."""
        for listener in [listener for listener in self._sharded.values() if listener.leaving]:
            self.left(listener)
        return [*self._listeners.values(), *self._sharded.values()]

    @property
    def unconfirmed(self) -> bool:
        """Whether one of them awaits its first confirmation."""
        return any(not listener.confirmed for listener in (*self._listeners.values(), *self._sharded.values()))

    def add(self, listener: Listener) -> None:
        """Listen; a previous listener on that channel, to the same messages, no longer does."""
        earlier = self._like(listener).get(listener.channel)
        if earlier is not None:
            _cancel(earlier)
        self._like(listener)[listener.channel] = listener

    def remove(self, channel: bytes) -> list[Unsubscribe | Leave]:
        """Stop listening; return what is to be written.

        A sharded one gets messages until it has `left`: the server counts on it until then.
        """
        written: list[Unsubscribe | Leave] = []
        listener = self._listeners.pop(channel, None)
        if listener is not None:
            _cancel(listener)
            written.append(Unsubscribe(channel))
        listener = self._sharded.get(channel)
        if listener is not None:
            _cancel(listener)
            listener.leaving = True
            written.append(Leave(listener))
        return written

    def left(self, listener: Listener) -> None:
        """The server delivers nothing more to this listener."""
        if self.has(listener):
            del self._like(listener)[listener.channel]

    def has(self, listener: Listener) -> bool:
        """Whether it still listens."""
        return self._like(listener).get(listener.channel) is listener

    def _like(self, listener: Listener) -> dict[bytes, Listener]:
        return self._sharded if listener.sharded else self._listeners

    def deliver(self, channel: bytes, payload: bytes, sharded: bool = False) -> None:
        """A message arrived."""
        listener = (self._sharded if sharded else self._listeners).get(channel)
        if listener is not None:
            try:
                listener.wake(payload.decode(errors="replace"))
            except Exception:
                logger.exception(FAILED)

    def confirm(self, listener: Listener) -> None:
        """The server says that it delivers from now on."""
        if not self.has(listener):
            return
        listener.confirmed = True
        self._wake(listener, None)
        if not listener.future.done():
            listener.future.set_result(None)

    def refuse(self, listener: Listener, error: ErrorReply) -> None:
        """The server will not deliver. Repeat a request that it had granted before, if that can help."""
        if not self.has(listener):
            return
        failure = refused("", "a subscription", error)
        if listener.confirmed and failure.transient:
            logger.warning("after a reconnect %s; messages are missed until it is granted", failure)
            asyncio.get_running_loop().call_later(RETRY, self._again, listener)
            return
        self.left(listener)
        if listener.confirmed:
            self._wake(listener, failure)
        else:
            listener.fail(failure)

    def end(self, channel: bytes) -> None:
        """The server will not deliver any more: the channel's slot has left it."""
        listener = self._sharded.get(channel)
        if listener is None or not listener.confirmed:
            return  # it is the end of an earlier one, whose channel this one wants again
        del self._sharded[channel]
        if not listener.leaving:
            failure = BackendError("", "the slot of a channel has moved", transient=True)
            listener.fail(failure)
            self._wake(listener, failure)

    def clear(self, error: BackendError) -> None:
        """End all listeners."""
        for listeners in (self._listeners, self._sharded):
            for listener in listeners.values():
                listener.fail(error)
            listeners.clear()

    def _wake(self, listener: Listener, payload: str | BackendError | None) -> None:
        try:
            listener.wake(payload)
        except Exception:
            logger.exception(FAILED)


def _cancel(listener: Listener) -> None:
    listener.fail(BackendError("", "the subscription was cancelled before it was confirmed", transient=True))
