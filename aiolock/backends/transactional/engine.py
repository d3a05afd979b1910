"""What a store with transactions must offer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ...errors import AiolockError, BackendError
from ...scripts.base import Call, Reply
from ..base import Abilities

Outcome = Reply | BackendError
"""What became of a call: its raw reply, or its refusal."""


class Unavailable(Exception):
    """The store cannot be used at the moment.

    Args:
        error: why, for users.
        ran: what was asked for may have been done; False if nothing was.
        lost: a connection has ended; a new one may do at once.
        full: there was no room for so many names; fewer may do at once.

    Attributes:
        error, ran, lost, full: see above.
    """

    def __init__(self, error: AiolockError, ran: bool = False, lost: bool = False, full: bool = False) -> None:
        super().__init__(str(error))
        self.error: AiolockError = error
        self.ran: bool = ran
        self.lost: bool = lost
        self.full: bool = full


Done = Callable[[Sequence[Call[Any]], Sequence[Outcome] | Unavailable], None]
"""Gets calls, and what became of each of them."""


class Engine(Protocol):
    """One store, used by one manager. Its methods are called on the loop, and raise nothing else than is said: whatever
    fails, each `done` is called, with `Unavailable` then.

    Attributes:
        address: what it is called in errors and logs.
        abilities: what a backend on it can do.
    """

    address: str
    abilities: Abilities

    @property
    def busy(self) -> bool:
        """Whether it decides something: what comes meanwhile is handed to it after the next `done`."""

    async def open(self, deliver: Callable[[str, str | None], None]) -> None:
        """Make it usable.

        Args:
            deliver: gets messages, on the loop: channel and payload; None if any may have been missed.

        Raises:
            Unavailable: it cannot be used now, or at all.
        """

    def transact(self, calls: Sequence[Call[Any]], done: Done) -> None:
        """Decide the calls, those about a name in their order; what they publish is sent after the commit. Without
        calls: check whether the store can be used.

        `done` is called in later turns of the loop, each time that something was decided, with the calls of which that
        is known; and with all that are left, and with `Unavailable`, if the store cannot be used.
        """

    def listen(self, channel: str, done: Callable[[Unavailable | BackendError | None], None]) -> None:
        """Deliver what is published on the channel, even after the store could not be used for a while. `done` gets a
        `BackendError` if this process cannot be told at all, though the store can be used.
        """

    def unlisten(self, channel: str) -> None:
        """Deliver nothing more of it."""

    async def aclose(self) -> None:
        """Give up what it has open; harmless if that is nothing."""
