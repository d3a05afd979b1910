"""Names that plain locks and multi locks share, and a view of what is left of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aiolock.scripts.base import Call
from aiolock.scripts.bid import Bid
from aiolock.scripts.lock import LockCalls
from aiolock.scripts.multi import MultiCalls
from aiolock.scripts.outcomes import Granted

from .lock_calls import put, state
from .scripting import KEYS, Side

LIVENESS = 10_000


class Name(LockCalls):
    """The plain lock's calls about one name, and the place of its keys."""

    def __init__(self, name: str) -> None:
        super().__init__(KEYS, name, LIVENESS)
        self.keys = self._keys
        self.state, self.queue, self.alive = self._keys
        self.dead = KEYS.of(self.kind, name).dead


def refreshes(parts: Sequence[tuple[Name, str, int]]) -> Call[list[Any]]:
    """One request that says for each owner that it waits for its name for this many ms."""
    return parts[0][0].refresh_many([name.refresh(Bid(owner, 0, 0, "", liveness)) for name, owner, liveness in parts])


class Multi(MultiCalls):
    """The multi lock's calls about some names."""

    def __init__(self, *names: Name) -> None:
        super().__init__(KEYS, [name.name for name in names])


def crash(side: Side, name: Name) -> None:
    """Let a hold's time run out."""
    put(side, name, state(side, name)._replace(expires=1))


def holders(side: Side, names: Sequence[Name]) -> list[str]:
    return [state(side, name).owner for name in names]


def waiting(side: Side, name: Name) -> list[str]:
    return list(side.scores(name.queue))


def granted(outcome: object) -> Granted:
    assert isinstance(outcome, Granted), outcome
    return outcome
