"""What happens to many locks at once, as in an outage, is logged in few lines."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping

from .log import Line

PERIOD = 10.0
"""Seconds for which lines of one kind are gathered after one of them was logged."""
NAMES = 20
"""Locks that a line names."""


class Gathered:
    """Lines of one kind that were not logged yet."""

    __slots__ = ("common", "count", "last", "names")

    def __init__(self) -> None:
        self.names: dict[object, None] = {}
        self.last: Mapping[str, object] = {}
        self.common: dict[str, object] = {}

    def add(self, values: Mapping[str, object]) -> None:
        """One more, which says `values`."""
        self.common = {key: value for key, value in values.items() if not self.names or self.common.get(key) == value}
        self.names[values["lock_name"]] = None
        self.last = values

    def tell(self, line: Line) -> None:
        """Log all of them, as one line."""
        count = len(self.names)
        if count == 1:
            line.log.mapped(line.level, line.message, self.last)
        elif count:
            others = f" and {count - NAMES} others" if count > NAMES else ""
            names = ", ".join(map(repr, list(self.names)[:NAMES])) + others
            line.log.mapped(line.level, line.more, {**self.common, "count": count, "lock_names": names})


class Repeats:
    """Logs the first line of a kind at once. Those of the next seconds are logged together at their end, and at DEBUG
    one by one.

    Args:
        wake: has `on_due` called once `PERIOD` is over; without it, every line is logged at once.

    Attributes:
        due: see `Scheduled`.
    """

    __slots__ = ("_kinds", "_wake", "due")

    def __init__(self, wake: Callable[[Repeats], None] | None = None) -> None:
        self.due: float = math.inf
        self._wake = wake
        self._kinds: dict[tuple[Line, object], Gathered] = {}

    def say(self, line: Line, values: Mapping[str, object], cause: object) -> None:
        """Log a line about a lock, or have it logged with others.

        Args:
            line: how it looks.
            values: what it says; `lock_name` is among them.
            cause: lines with different ones are of different kinds.
        """
        gathered = self._kinds.get((line, cause))
        if gathered is None:
            line.log.mapped(line.level, line.message, values)
            if self._wake is not None:
                if not self._kinds:
                    self._wake(self)
                self._kinds[line, cause] = Gathered()
            return
        line.log.mapped(logging.DEBUG, line.message, values)
        gathered.add(values)

    def on_due(self, now: float, late: float) -> None:
        """Log what was gathered. A kind of which nothing more came starts again."""
        kinds, self._kinds = self._kinds, {}
        for (line, cause), gathered in kinds.items():
            gathered.tell(line)
            if gathered.names and self._wake is not None:
                self._kinds[line, cause] = Gathered()
        if self._kinds and self._wake is not None:
            self._wake(self)

    def end(self) -> None:
        """Log what was gathered, and every later line at once."""
        self._wake = None
        self.on_due(0.0, 0.0)
