"""Names that plain locks and multi locks share, and a view of what is left of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from aiolock.scripts.base import Call
from aiolock.scripts.bid import Bid
from aiolock.scripts.lock import LockCalls
from aiolock.scripts.multi import MultiCalls
from aiolock.scripts.outcomes import Granted

from .scripting import KEYS, LuaSide, Side, StoreSide

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


class State(NamedTuple):
    """What the state of a name says."""

    holder: str
    fence: int
    before: int
    depth: int
    dirty: str
    expires: int
    metadata: str


def text(side: Side, key: str) -> str | None:
    if isinstance(side, LuaSide):
        found = side.link.get(key)
        return None if found is None else found.decode()  # type: ignore[union-attr]
    assert isinstance(side, StoreSide)
    return side.store.get(key)


def state(side: Side, name: Name) -> State:
    parsed = re.fullmatch(r"(\S+) (\d+) (\d+) (\d+) (\d) (\d+) (.*)", text(side, name.state) or "- 0 0 0 0 0 ", re.S)
    assert parsed is not None
    holder, fence, before, depth, dirty, expires, metadata = parsed.groups()
    return State(holder, int(fence), int(before), int(depth), dirty, int(expires), metadata)


def put(side: Side, name: Name, facts: State) -> None:
    """Replace a state."""
    side.set(name.state, " ".join(map(str, facts)))


def crash(side: Side, name: Name) -> None:
    """Let a hold's time run out."""
    put(side, name, state(side, name)._replace(expires=1))


def holders(side: Side, names: Sequence[Name]) -> list[str]:
    return [state(side, name).holder for name in names]


def waiting(side: Side, name: Name) -> list[str]:
    return list(side.scores(name.queue))


def granted(outcome: object) -> Granted:
    assert isinstance(outcome, Granted), outcome
    return outcome
