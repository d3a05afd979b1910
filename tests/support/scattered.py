"""Several memory backends as one, each with the names of some slots: a cluster without servers."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from aiolock.backends.base import Abilities, Backend, Wake
from aiolock.backends.memory import MemoryBackend
from aiolock.clock import Clock
from aiolock.errors import AiolockError, BackendError
from aiolock.scripts.base import Call

R = TypeVar("R")
_NAME = re.compile(r"\{(.)")


class Scattered(Backend):
    """The slot of a name is the code of its first character: "a1" and "a2" are together, "b" is behind them.

    A request about two slots is an error, as on a cluster.

    Args:
        nodes: slots are dealt out among them in turn: with two, "b" and "d" are on the first.
    """

    db = 0
    abilities = Abilities()

    def __init__(self, nodes: Sequence[MemoryBackend]) -> None:
        self.nodes = nodes
        self.clock: Clock = nodes[0].clock
        self.ran: list[str] = []
        """Scripts and their slots, in the order in which they were written, like "acquire a"."""
        self.refuse = ""
        """Such a script, which its server refuses for the time being."""
        self.before: Callable[[Call[Any]], None] = lambda call: None
        """Called before each request is written."""

    @property
    def unreachable(self) -> AiolockError | None:
        return next((node.unreachable for node in self.nodes if node.unreachable), None)

    def node(self, name: str) -> MemoryBackend:
        """The node of a lock's name."""
        return self.nodes[ord(name[0]) % len(self.nodes)]

    def away(self, key: str) -> AiolockError | None:
        return self.unreachable

    def slot(self, key: str) -> int:
        found = _NAME.search(key)
        assert found is not None, key
        return ord(found[1])

    async def open(
        self, *, timeout: float, reconnected: Callable[[], None], needed: Callable[[], bool] | None = None
    ) -> None:
        for node in self.nodes:
            await node.open(timeout=timeout, reconnected=reconnected, needed=needed)

    def post(self, call: Call[Any]) -> None:
        slots = {self.slot(key) for key in call.keys}
        assert len(slots) == 1, f"CROSSSLOT {call}: {call.keys}"
        (slot,) = slots
        self.ran.append(f"{call.script.name} {chr(slot)}")
        self.before(call)
        if self.refuse == self.ran[-1]:
            asyncio.get_running_loop().call_soon(call.end, BackendError(call.name, "TRYAGAIN", True))
        else:
            self.nodes[slot % len(self.nodes)].post(call)

    def subscribe(self, channel: str, wake: Wake) -> asyncio.Future[None]:
        return cast("asyncio.Future[None]", asyncio.gather(*(node.subscribe(channel, wake) for node in self.nodes)))

    def unsubscribe(self, channel: str) -> None:
        for node in self.nodes:
            node.unsubscribe(channel)

    async def aclose(self) -> None:
        for node in self.nodes:
            await node.aclose()
