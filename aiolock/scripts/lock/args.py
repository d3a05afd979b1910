"""ARGV of the scripts that a quorum reads and changes, by name; in the order of the Lua's header.

A request leaves out defaults at its end: each word costs time to pack and to read.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..base import Call


class AcquireArgs(NamedTuple):
    """ARGV of an acquire that does not queue."""

    owner: str
    ttl_ms: int
    floor: int
    metadata: str
    managers: str

    @classmethod
    def of(cls, call: Call[Any]) -> AcquireArgs:
        """Read the ARGV of `call`."""
        words: Any = call.args
        return cls(*words)


class ReleaseArgs(NamedTuple):
    """ARGV of release; `left` 0 ends the owner, `dead_ms` 0 leaves no tombstone, `channel` '' announces nothing."""

    owner: str
    clean_ms: int
    managers: str
    ending: str = "clean"
    left: int = 0
    dead_ms: int = 0
    channel: str = ""

    @classmethod
    def of(cls, call: Call[Any]) -> ReleaseArgs:
        """Read the ARGV of `call`, with its defaults."""
        words: Any = call.args
        return cls(*words)
