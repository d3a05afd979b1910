"""Events, as a test tells them to an observer."""

from __future__ import annotations

from typing import Any

from aiolock.events import Acquired

LOCK: dict[str, Any] = {"name": "order:42", "kind": "lock", "owner": "me:1", "fence": 7}


def acquired(**facts: Any) -> Acquired:
    """A lock was free, unless `facts` say otherwise."""
    return Acquired(**LOCK | {"depth": 1, "waited": 0.0, "requests": 1, "contended": False, "abandoned": False} | facts)
