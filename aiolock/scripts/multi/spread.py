"""Requests about many names: one script for each group of names that are in one slot, and not too many of them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

from ...errors import BackendError
from ..base import Call, Ending, Part
from ..joint import JointCall, JointPart, Result
from ..keys import Keys
from ..outcomes import Held, Kept, Missing, ReleaseOutcome
from . import MultiCalls, join

PIECE = 64
"""Names of one script: the server does nothing else meanwhile."""


def multi_calls(keys: Keys, names: Sequence[str], slot: Callable[[str], int]) -> MultiCalls:
    """Return the requests about `names`.

    Args:
        keys: names the keys.
        names: sorted, each once.
        slot: where a key is; its groups are in the order of their slots, and of their names. So all processes take any
            two names in one order, however they are cut into groups, and none waits for another that waits for it.
    """
    calls = MultiCalls(keys, names)
    slots: dict[int, list[str]] = {}
    for name, state in zip(names, calls.states, strict=True):
        slots.setdefault(slot(state), []).append(name)
    groups = [found[at : at + PIECE] for _, found in sorted(slots.items()) for at in range(0, len(found), PIECE)]
    if len(groups) == 1:
        return calls
    return SpreadCalls(keys, names, [MultiCalls(keys, group) for group in groups])


class SpreadCalls(MultiCalls):
    """Requests about names in several groups. An owner takes one group after the other, each by that group's own
    requests, in an order that all processes share; all others go to all groups at once.

    Args:
        keys: names the keys.
        names: the locks' names, sorted, each once.
        groups: requests about those of each group, in order.
    """

    __slots__ = ("_groups",)

    def __init__(self, keys: Keys, names: Sequence[str], groups: Sequence[MultiCalls]) -> None:
        super().__init__(keys, names)
        self._groups = groups

    @property
    def groups(self) -> Sequence[MultiCalls]:
        """The same, for the names of each group."""
        return self._groups

    def upto(self, count: int) -> SpreadCalls:
        """Return requests about the first `count` groups."""
        some = copy.copy(self)
        some._groups = self._groups[:count]
        return some

    def release(self, owner: str, ttl_ms: int, left: int, ending: Ending, tainted: bool) -> Call[ReleaseOutcome]:
        """Lower the owner's depth to `left`; at 0 it leaves all names and their queues."""
        parts = [group.release(owner, ttl_ms, left, ending, tainted) for group in self._groups]
        return JointCall(self.name, parts, join.released)

    def nest(self, owner: str, fence: int, ttl_ms: int, depth: int) -> Call[Kept | Missing]:
        """Raise the depth of a hold in all names, and extend it."""
        parts = [group.nest(owner, fence, ttl_ms, depth) for group in self._groups]
        return JointCall(self.name, parts, join.nested)

    def renewal(self, owner: str, fence: int, ttl_ms: int) -> Part:
        """Extend a hold; every name whose fence is lower gets this one."""
        return JointPart(group.renewal(owner, fence, ttl_ms) for group in self._groups)

    def departure(self, manager: str) -> Call[bool]:
        """Forget that a manager lives: it closes, and waits no more."""
        return JointCall(self.name, [group.departure(manager) for group in self._groups], join.done)

    def info(self) -> Call[list[Held | None]]:
        """Ask who holds which of the names."""
        return JointCall(self.name, [group.info() for group in self._groups], self._informed)

    def _informed(self, results: Sequence[Result]) -> list[Held | None] | BackendError | None:
        failed = next((result for result in results if isinstance(result, BackendError)), None)
        if failed is not None or None in results:
            return failed
        held = {
            name: one
            for group, result in zip(self._groups, results, strict=True)
            for name, one in zip(group.names, result, strict=True)
        }
        return [held[name] for name in self.names]
