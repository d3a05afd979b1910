"""What a place says of itself, to all who can read it."""

from __future__ import annotations

import json
from typing import NamedTuple

from .store import OwnPlace


class Said(NamedTuple):
    """What it says.

    Attributes:
        weight, capacity, depth, note: see `Place`.
        lasts_ms: for how long it lasts if nobody keeps it any more; 0 if the store knows that better.
    """

    weight: int
    capacity: int
    depth: int
    note: str
    lasts_ms: int = 0


FOREIGN = Said(1, 0, 1, "another program")
"""Of a place that says nothing."""


def value_of(own: OwnPlace, lasts_ms: int = 0) -> bytes:
    """Return what others read."""
    words = [own.weight, own.capacity, own.depth, own.note, *([lasts_ms] if lasts_ms else [])]
    return json.dumps(words, separators=(",", ":")).encode()


def said_in(value: bytes) -> Said | None:
    """Read it; None if another program wrote it."""
    try:
        weight, capacity, depth, note, *more = json.loads(value)
        return Said(int(weight), int(capacity), int(depth), str(note), int(more[0]) if more else 0)
    except (ValueError, TypeError):
        return None
