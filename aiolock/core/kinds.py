"""The kinds whose leases can move to another process."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ..scripts.lock import LockCalls
from ..scripts.queue import QueueCalls
from .calls import Contention
from .runtime import Runtime


class Kind(NamedTuple):
    """What is known of a primitive by its kind alone.

    Attributes:
        contention: its rule.
        calls: returns requests about a name, for an acquisition with this weight and a name with this capacity.
    """

    contention: Contention
    calls: Callable[[Runtime, str, int, int], LockCalls | QueueCalls]


KINDS: dict[str, Kind] = {}
"""Primitives add themselves."""
