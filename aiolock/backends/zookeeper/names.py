"""What the nodes of a queue are called. The names are Curator's, so that its recipes wait in the same queue; any other
node with a number is a place of another program, which wants all of the name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from ..coordinator.store import OwnPlace, Place
from ..coordinator.values import FOREIGN, Said

HELD = "held"
"""Whoever has all of a name keeps this node next to its place: it stays if that one vanishes."""
_LOCK, _READ, _WRITE = "lock-", "__READ__", "__WRIT__"
_PLACE = re.compile(
    rf"_c_(.+:.+)-(?:({_LOCK}|{_READ}|{_WRITE})|permits-(\d+)-(\d+)-)(-?\d{{9,10}})"
    # Others' names end with a number, too. If what comes before is not known, a dash is no sign unless it must be.
    rf"|.*(?:-{_LOCK}|__r?lock__|{_READ}|{_WRITE})(-?\d{{9,10}})|.*?(\d{{10}}|-\d{{9}})",
    re.DOTALL,
)
_ROUND, _ALL = 2**32, 2**31
"""ZooKeeper counts with 32 bits, and starts again with the lowest number."""


class Node(NamedTuple):
    """A place, as its name says.

    Attributes:
        name: of the node.
        number: where it stands, among those of its time.
        owner: "" of another program's.
        weight: it takes that much at most.
        capacity: 0 if that is unknown.
    """

    name: str
    number: int
    owner: str
    weight: int
    capacity: int

    def place(self, order: int = 0, said: Said | None = None) -> Place:
        """What is known of it, and from its data, if these were read."""
        if not self.owner:
            return Place(self.name, "", order, 1, 0, 1, FOREIGN.note, 0.0)
        if said is None:
            return Place(self.name, self.owner, order, self.weight, self.capacity)
        weight, capacity, depth, note, lasts_ms = said
        return Place(self.name, self.owner, order, weight, capacity, depth, note, lasts_ms / 1000)


def prefix_of(own: OwnPlace) -> str:
    """What comes before the number in the name of a place's node."""
    if own.shared:
        mark = _WRITE if own.weight >= own.capacity else _READ
    else:
        mark = _LOCK if own.capacity == 1 else f"permits-{own.weight}-{own.capacity}-"
    return f"_c_{own.owner}-{mark}"


def nodes_in(names: Iterable[str]) -> list[Node]:
    """The places among some children, first to last."""
    found = [node for name in names if (node := _read(name)) is not None]
    if not found:
        return found
    pivot = found[0].number  # no two places of one time are half a round apart
    return sorted(found, key=lambda node: (node.number - pivot + _ROUND // 2) % _ROUND)


def _read(name: str) -> Node | None:
    found = _PLACE.fullmatch(name)
    if found is None:
        return None
    owner, mark, weight, capacity, number, known, foreign = found.groups()
    if owner is None:
        return Node(name, int(known or foreign), "", 1, 0)
    if mark is None:
        return Node(name, int(number), owner, int(weight), int(capacity))
    return Node(name, int(number), owner, _ALL if mark == _WRITE else 1, 1 if mark == _LOCK else _ALL)
