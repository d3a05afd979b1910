"""One master of the cluster, with a connection from its first use on."""

from __future__ import annotations

import math

from ..redis import RedisBackend
from ..redis.seeds import Address
from .slots import Claim


class Node:
    """A master.

    Args:
        address: where.

    Attributes:
        address: as given.
        backend: its connection; set at once.
        used: the backend is open.
        shards: sharded pub/sub has not been refused.
        idle_at: loop time since which it has had no slots; None while it has some.
        claim: the newest that was heard of.
        missed_at: loop time of the last map, if it was unreachable when that came; otherwise -inf.
    """

    backend: RedisBackend

    def __init__(self, address: Address) -> None:
        self.address: Address = address
        self.used: bool = False
        self.shards: bool = True
        self.idle_at: float | None = None
        self.claim: Claim = Claim("", 0)
        self.missed_at: float = -math.inf

    @property
    def away(self) -> bool:
        """It is used, and not connected."""
        return self.used and not self.backend.connected

    def __repr__(self) -> str:
        return f"<Node {self.address} {'used' if self.used else 'unused'}>"
