"""ARGV of the scripts that a quorum reads and changes, by name; in the order of the Lua's header.

A request leaves out at its end what is default: each word costs its packing and the server's reading.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..base import Call


class AcquireArgs(NamedTuple):
    """ARGV of acquire; `fence` is 0 unless it nests, `mark_ms` unless it polls."""

    owner: str
    ttl_ms: int
    floor: int
    metadata: str
    depth: int = 1
    fence: int = 0
    mark_ms: int = 0

    @classmethod
    def of(cls, call: Call[Any]) -> AcquireArgs:
        """What `call` says, and leaves out."""
        words: Any = call.args
        return cls(*words)


class ReleaseArgs(NamedTuple):
    """ARGV of release; `left` 0 ends the owner, `dead_ms` 0 leaves no tombstone."""

    owner: str
    clean_ms: int
    channel: str
    ending: str = "clean"
    left: int = 0
    dead_ms: int = 0

    @classmethod
    def of(cls, call: Call[Any]) -> ReleaseArgs:
        """What `call` says, and leaves out."""
        words: Any = call.args
        return cls(*words)
