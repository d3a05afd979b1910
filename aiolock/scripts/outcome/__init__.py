"""The scripts of calls that others join: an outcome is kept, in one slot with the lock under which the call ran."""

from __future__ import annotations

from typing import NamedTuple

from ..base import Call, Reply, Script, as_flag, as_list, as_number, as_text
from ..keys import Keys


class Seen(NamedTuple):
    """Who has the name, by its fence (0: nobody), and whether a call `runs` under it: otherwise it only stays taken.

    And the outcome that was asked for, None if it is not there, and how many seconds `ago` its call had ended.
    """

    fence: int
    runs: bool
    text: str | None
    ago: float = 0.0


def _seen(reply: Reply) -> Seen:
    fence, runs, there, text, ago = as_list(reply)
    return Seen(as_number(fence), runs == 1, as_text(text) if there == 1 else None, as_number(ago) / 1e6)


KEEP = Script(__name__, "keep", as_flag, prelude=("lock/version",))
ASK = Script(__name__, "ask", _seen, prelude=("lock/version", "lock/clock", "lock/state"))
SCRIPTS = (KEEP, ASK)


class OutcomeCalls:
    """Requests about the outcomes of calls under one lock.

    Args:
        keys: names the keys.
        name: the lock's.
    """

    __slots__ = ("_keys", "name")

    kind = "outcome"

    def __init__(self, keys: Keys, name: str) -> None:
        self.name: str = name
        self._keys = (keys.of("lock", name).lock, keys.of(self.kind, name).lock)

    def keep(self, fence: int, text: str, keep_ms: int, ran: float) -> Call[bool]:
        """Keep an outcome; written again if it went unanswered, as no other call has its fence.

        Args:
            fence: of the hold under which the call ran.
            text: the outcome.
            keep_ms: for how long.
            ran: seconds from the request for that hold to the end of the call. A fence is the server's time, at least.
        """
        ended = fence + round(ran * 1_000_000)
        return Call(self.name, KEEP, self._keys[1:], (fence, text, keep_ms, ended), unanswered=lambda: True)

    def ask(self, fence: int = 0) -> Call[Seen]:
        """Ask whose call runs, and for the outcome of the one with this fence, or of a later one."""
        return Call(self.name, ASK, self._keys, (fence or "",))
