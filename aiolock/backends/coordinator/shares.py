"""How much of a name places take."""

from __future__ import annotations

from collections.abc import Sequence

from .store import Place


def weight_of(place: Place, capacity: int) -> int:
    """How much a place takes of a name; another program's takes all."""
    return place.weight if place.owner else capacity


def taken(places: Sequence[Place], capacity: int) -> int:
    """How much some places take together."""
    return sum(weight_of(place, capacity) for place in places)


def inside(places: Sequence[Place], capacity: int) -> int:
    """How many are in; the first one always is."""
    total, count = 0, 0
    for place in places:
        total += weight_of(place, capacity)
        if total > capacity and count:
            break
        count += 1
    return count
