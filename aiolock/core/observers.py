"""Tells observers what has happened. The log is the first of them."""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import Sequence
from logging import DEBUG
from types import TracebackType
from typing import NoReturn

from ..errors import ConfigurationError
from ..event_log import SHOWN, log_event
from ..events import Event, Observer
from ..log import Log
from ..repeats import Repeats

logger: Log = Log("aiolock.manager")


class Observers:
    """A manager's observers. Nothing that one of them does stops what it reports.

    Args:
        observer: the user's: one, several, or None.
        manager: the manager's name; empty if it has none.

    Attributes:
        listening: whether there are others than the log.
        quiet: nobody is told, and nothing logged: those who use the locks report what they are for.
        repeats: logs what an outage may repeat for each lock.

    Raises:
        ConfigurationError: not an observer.
    """

    __slots__ = ("_broken", "_each", "_events", "_manager", "_pausing", "listening", "quiet", "repeats")

    def __init__(self, observer: Observer | Sequence[Observer] | None = None, manager: str = "") -> None:
        users = _checked(observer)
        self._manager = manager
        self.repeats: Repeats = Repeats()
        self._each: tuple[Observer, ...] = (lambda event: log_event(event, self.repeats), *users)
        self.listening: bool = bool(users)
        self.quiet: bool = False
        self._broken: set[tuple[int, type[BaseException]]] = set()
        self._pausing = 0  # how many blocks are open, and whether an observer runs
        self._events: deque[Event] = deque()  # to tell, in order

    def wants(self, kind: type[Event]) -> bool:
        """Whether anyone listens to such events, which otherwise need not be created."""
        return self.listening or SHOWN[kind](DEBUG)

    def tell(self, event: Event) -> None:
        """Tell all of them, after what has happened was dealt with; what happens while one is told, after that."""
        if self.quiet:
            return
        if self._manager:
            vars(event)["manager"] = self._manager  # here, as no one else needs to know it
        self._events.append(event)
        if not self._pausing:
            self._tell_all()

    def _tell_all(self) -> None:
        self._pausing += 1
        try:
            while self._events:
                event = self._events.popleft()
                for number, observer in enumerate(self._each):
                    try:
                        observer(event)
                    except (KeyboardInterrupt, SystemExit) as end:
                        _end_loop(end)
                    except BaseException as error:  # also a CancelledError: it is no one's cancellation
                        self._complain(number, error)
        finally:
            self._pausing -= 1

    def __enter__(self) -> None:
        """Tell nothing before the end of this block: what one observer does would delay the next loss, or renewal."""
        self._pausing += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pausing -= 1
        if not self._pausing:
            self._tell_all()

    def _complain(self, number: int, error: BaseException) -> None:
        kind = (number, type(error))
        if kind not in self._broken:  # an observer that is always wrong must not flood the log
            self._broken.add(kind)
            text = "observer %r failed; this type of error is not logged again"
            logger.error(text, self._each[number], exception=error)


def _end_loop(end: BaseException) -> None:
    """Raise it out of the event loop, as an error in one of its callbacks: here it would leave things half done."""

    def stop() -> NoReturn:
        raise end

    try:
        asyncio.get_running_loop().call_soon(stop)
    except RuntimeError:  # between two runs of the loop
        raise end from None


def _checked(observer: object) -> tuple[Observer, ...]:
    if observer is None:
        return ()
    each = tuple(observer) if isinstance(observer, Sequence) and not callable(observer) else (observer,)
    for one in each:
        if not callable(one) or isinstance(one, type):
            raise ConfigurationError(
                "", f"an observer is called with each event: give a function, or an object with __call__, not {one!r}"
            )
        if inspect.iscoroutinefunction(one) or inspect.iscoroutinefunction(one.__call__):
            raise ConfigurationError(
                "", f"an observer is called, not awaited, and {one!r} is a coroutine function: give a plain function, "
                "which may put the event into a queue"
            )  # fmt: skip
    return each
