"""ARGV of the scripts that a quorum reads and changes, by name; in the order of the Lua's header."""

from __future__ import annotations

from typing import NamedTuple


class AcquireArgs(NamedTuple):
    """ARGV of acquire; `fence` is 0 unless it nests, `mark_ms` unless it polls."""

    owner: str
    ttl_ms: int
    depth: int
    fence: int
    floor: int
    metadata: str
    state_ms: int
    mark_ms: int


class ReleaseArgs(NamedTuple):
    """ARGV of release; `left` 0 ends the owner, `dead_ms` 0 leaves no tombstone."""

    owner: str
    left: int
    ending: str
    clean_ms: int
    dead_ms: int
    channel: str
