"""ARGV of the scripts that a quorum reads and changes, by name; in the order of the Lua's header.

A request leaves out at its end what is default: each word costs its packing and the server's reading.
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
        """What `call` says."""
        words: Any = call.args
        return cls(*words)


class ReleaseArgs(NamedTuple):
    """ARGV of release; `left` 0 ends the owner, `dead_ms` 0 leaves no tombstone, `channel` '' tells nobody."""

    owner: str
    clean_ms: int
    managers: str
    ending: str = "clean"
    left: int = 0
    dead_ms: int = 0
    channel: str = ""

    @classmethod
    def of(cls, call: Call[Any]) -> ReleaseArgs:
        """What `call` says, and leaves out."""
        words: Any = call.args
        return cls(*words)
