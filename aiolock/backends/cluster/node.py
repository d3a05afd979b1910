"""One master of the cluster, with a connection from its first use on."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar

from ...errors import AiolockError
from ...scripts.base import Call
from ..base import Wake
from ..redis import Address
from .slots import Claim

R = TypeVar("R")

Wanted = Callable[[Call[Any]], bool]


class NodeBackend(Protocol):
    """What is asked of a `RedisBackend`."""

    @property
    def unreachable(self) -> AiolockError | None: ...

    @property
    def connected(self) -> bool: ...

    def start(self, *, reconnected: Callable[[], None]) -> None: ...

    def run(self, call: Call[R]) -> asyncio.Future[R]: ...

    def post(self, call: Call[Any]) -> None: ...

    def take_over(self, request: Call[Any], *, asking: bool = False) -> None: ...

    def give_back(self, wanted: Wanted) -> list[Call[Any]]: ...

    def unsettled(self) -> Iterator[Call[Any]]: ...

    def replace(self, reason: Exception) -> None: ...

    def subscribe(self, channel: str, wake: Wake, *, sharded: bool = False) -> asyncio.Future[None]: ...

    def unsubscribe(self, channel: str) -> None: ...

    async def finish(self) -> None: ...

    async def aclose(self) -> None: ...


class Node:
    """A master.

    Args:
        address: where.

    Attributes:
        address: as given.
        backend: its connection; set at once.
        used: the backend is open.
        idle_at: loop time since which it has had no slots; None while it has some.
        claim: the newest that was heard of.
        missed_at: loop time of the last map, if it was away when that came; otherwise -inf.
    """

    __slots__ = ("__weakref__", "address", "backend", "claim", "idle_at", "missed_at", "used")

    backend: NodeBackend

    def __init__(self, address: Address) -> None:
        self.address: Address = address
        self.used: bool = False
        self.idle_at: float | None = None
        self.claim: Claim = Claim("", 0)
        self.missed_at: float = -math.inf

    @property
    def away(self) -> bool:
        """It is used, and not connected."""
        return self.used and not self.backend.connected

    def __repr__(self) -> str:
        return f"<Node {self.address} {'used' if self.used else 'unused'}>"
