"""Where processes line up before they race for a name on several servers: a hint of order, on which no promise rests.

Servers that decide by majority keep no queue. Processes that ask at the same time split the votes, and the one that
leaves asks again before all others have learned of it. So while several want a name, each passes an ordinary lock
first, on the first server that it reaches, and only who has that asks. If that server is unreachable, or others use
another one, they race.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Protocol

from ..clock import Clock
from ..errors import AiolockError

MEMORY = 1.0
"""Seconds for which a name counts as wanted by several processes after it was."""
KEPT = 1000
"""Names of which that is remembered, at most."""


class Pass(Protocol):
    """What one gets whose turn it is."""

    def release(self) -> Any:
        """Let the next one pass."""


class Lane(Protocol):
    """A server on which processes line up."""

    @property
    def open(self) -> bool:
        """Whether the server answers, for all that is known."""

    async def take(self, name: str) -> Pass | None:
        """Wait for the turn; None if it is not available here any more.

        Raises:
            AiolockError: it is not available here.
        """

    def forget(self) -> None:
        """Begin again, perhaps on another loop."""

    async def aclose(self) -> None:
        """End all that is left of it."""


class Turnstile:
    """The lines of one manager.

    Args:
        clock: the manager's.
        lanes: the servers, in an order that all processes share.
        spread: returns the seconds over which those that race spread their attempts.
    """

    def __init__(self, clock: Clock, lanes: Sequence[Lane], spread: Callable[[], float]) -> None:
        self.spread: Callable[[], float] = spread
        self._clock = clock
        self._lanes = lanes
        self._wanted: dict[str, float] = {}  # by name: clock time until which it counts as wanted by several
        self._lines: set[asyncio.Task[None]] = set()

    def note(self, name: str) -> None:
        """Several processes want the name."""
        self._wanted.pop(name, None)
        self._wanted[name] = self._clock.now() + MEMORY
        if len(self._wanted) > KEPT:
            del self._wanted[next(iter(self._wanted))]

    def stands_before(self, name: str) -> bool:
        """Whether one passes it before one asks for the name."""
        return self._wanted.get(name, 0.0) > self._clock.now()

    def line_up(self, name: str, passes: Callable[[], None]) -> Turn:
        """Wait for the turn; `passes` is called once it has come, or if there is none to be had."""
        turn = Turn(passes)
        line = asyncio.get_running_loop().create_task(self._line(name, turn), name=f"aiolock: turn at {name!r}")
        self._lines.add(line)
        line.add_done_callback(self._lines.discard)
        turn.leave = line.cancel
        return turn

    def forget(self) -> None:
        """Begin again, perhaps on another loop: that of the lines may be gone, with all that ran there."""
        self._wanted.clear()
        self._lines = set()
        for lane in self._lanes:
            lane.forget()

    async def aclose(self) -> None:
        """End all lines."""
        for line in self._lines:
            line.cancel()
        if self._lines:
            await asyncio.wait(self._lines)
        for lane in self._lanes:
            await lane.aclose()

    async def _line(self, name: str, turn: Turn) -> None:
        for lane in self._lanes:
            if turn.held is None and lane.open:
                with suppress(AiolockError):
                    turn.held = await lane.take(name)
        turn.passed = True
        turn.passes()


class Turn:
    """A process's place in line, and then its turn.

    Args:
        passes: see `Turnstile.line_up`.

    Attributes:
        passed: it may ask.
        held: what keeps the others waiting; None before that, and if there is no line.
        leave: leaves the line.
    """

    def __init__(self, passes: Callable[[], None]) -> None:
        self.passes: Callable[[], None] = passes
        self.passed: bool = False
        self.held: Pass | None = None
        self.leave: Callable[[], object] = _nothing

    def end(self) -> None:
        """Leave the line, or let the next one pass."""
        self.passes = _nothing
        held, self.held = self.held, None
        if held is None:
            self.leave()
        else:
            held.release()


def _nothing() -> None:
    pass
