"""How many commands a server ran, and over how many connections."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from types import TracebackType

from redis.asyncio import Redis


class ServerStats:
    """Counts since `reset`, read over a connection of its own.

    Args:
        url: the server's.
        scripted: commands that only scripts call: the server counts them together with those that clients send.
        ignored: commands that are not counted at all.
    """

    def __init__(self, url: str, scripted: Collection[str] = (), ignored: Collection[str] = ()) -> None:
        self._raw = Redis.from_url(url, max_connections=1)
        self._scripted = frozenset(scripted)
        self._ignored = frozenset(ignored) | {"info", "client|list"}
        self._before: Counter[str] = Counter()
        self._clients: set[str] = set()

    async def __aenter__(self) -> ServerStats:
        await self._raw.ping()
        await self.reset()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._raw.aclose()

    async def reset(self) -> None:
        """Start counting."""
        self._clients = await self._connected()
        self._before = await self._read()

    async def commands(self) -> int:
        """Return how many commands clients sent since `reset`."""
        since = await self._read() - self._before
        return sum(count for name, count in since.items() if name not in self._scripted)

    async def executed(self) -> int:
        """Return how many commands the server ran since `reset`, those in scripts included."""
        return sum((await self._read() - self._before).values())

    async def connections(self) -> int:
        """Return how many connections were made since `reset`."""
        return len(await self._connected() - self._clients)

    async def flush(self) -> None:
        """Delete every key."""
        await self._raw.flushall()

    async def _connected(self) -> set[str]:
        return {client["id"] for client in await self._raw.client_list()}

    async def _read(self) -> Counter[str]:
        found = await self._raw.info("commandstats")
        counts = Counter({name.removeprefix("cmdstat_"): int(row["calls"]) for name, row in found.items()})
        return Counter({name: count for name, count in counts.items() if name not in self._ignored})
