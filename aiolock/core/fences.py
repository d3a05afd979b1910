"""The fences that this manager has heard of: each grant that it asks for gets a higher one."""

from __future__ import annotations

import time

from ..log import Log
from ..scripts.base import MAX_FENCE

AHEAD_US = 24 * 3600 * 10**6
"""Microseconds by which a fence in a message may be ahead of the clock and of all answers: anyone can publish."""

logger: Log = Log("aiolock.manager")


class Fences:
    """The highest fence, and what may raise it.

    Args:
        namespace: the manager's, for the warning.

    Attributes:
        floor: the highest fence heard of, on any name.
    """

    __slots__ = ("_answered", "_namespace", "_warned", "floor")

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._answered = 0  # the highest that a server answered
        self._warned = False
        self.floor: int = 0

    def heard(self, fence: int) -> None:
        """The server answered with it."""
        if self._answered < fence < MAX_FENCE:
            self._answered = fence
            if fence > self.floor:
                self.floor = fence

    def told(self, fence: str) -> int | None:
        """A message says so: the fence, if it can be one."""
        number = whole(fence)
        ahead = number is None or number > self._answered + AHEAD_US
        if number is None or (ahead and number > time.time_ns() // 1000 + AHEAD_US):
            self.doubt()
            return None
        if number > self.floor:
            self.floor = number
        return number

    def doubt(self) -> None:
        """A message that no manager publishes came: say so, once."""
        if not self._warned:
            self._warned = True
            logger.warning(
                "a message on a channel of namespace %r makes no sense, and is ignored like all others of its kind: "
                "does anybody else publish there?", self._namespace,
            )  # fmt: skip


def whole(text: str) -> int | None:
    """The number that Lua has written, if it is one that Lua counts exactly."""
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 17 else MAX_FENCE
    return number if number < MAX_FENCE else None
