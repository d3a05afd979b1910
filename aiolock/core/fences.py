"""The fences that this manager knows: each grant that it asks for gets a higher one."""

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
        floor: the highest known fence, on any name.
    """

    __slots__ = ("_answered", "_namespace", "_warned", "floor")

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._answered = 0  # the highest in a server's answer
        self._warned = False
        self.floor: int = 0

    def heard(self, fence: int) -> None:
        """Note a fence in an answer of the server."""
        if self._answered < fence < MAX_FENCE:
            self._answered = fence
            if fence > self.floor:
                self.floor = fence

    def told(self, fence: str) -> int | None:
        """Note a fence in a message, if it can be one."""
        # As `whole` does, without the call: a task waits.
        number = int(fence) if len(fence) < 17 and fence.isascii() and fence.isdecimal() else MAX_FENCE
        ahead = number > self._answered + AHEAD_US
        if number >= MAX_FENCE or (ahead and number > time.time_ns() // 1000 + AHEAD_US):
            self.doubt()
            return None
        if number > self.floor:
            self.floor = number
        return number

    def doubt(self) -> None:
        """Warn once of a message that no manager publishes."""
        if not self._warned:
            self._warned = True
            logger.warning(
                "a message on a channel of namespace %r makes no sense, and is ignored, as others like it will be: "
                "does another client publish there?", self._namespace,
            )  # fmt: skip


def whole(text: str) -> int | None:
    """Return the number that Lua has written, if Lua counts it exactly."""
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 17 else MAX_FENCE
    return number if number < MAX_FENCE else None
