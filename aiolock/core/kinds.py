"""The kinds whose leases can move to another process."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from .calls import Contention, ResumeCalls
from .runtime import Runtime


class Kind(NamedTuple):
    """What is known of a primitive by its kind alone.

    Attributes:
        contention: its rule.
        calls: requests about a name, for an acquisition of a weight, where there is so much in all.
    """

    contention: Contention
    calls: Callable[[Runtime, str, int, int], ResumeCalls]


KINDS: dict[str, Kind] = {}
"""Primitives add themselves."""
