"""What the benchmark needs of a library: one small adapter for each."""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol, cast


class Adapter(Protocol):
    """A library, opened on one server, as one process uses it.

    Attributes:
        settings: how it is used, for the report.
        scripted: commands that its scripts call but its clients never send.
        permits: how many may be inside at once; 0 for no limit.
    """

    settings: str
    scripted: frozenset[str]
    permits: int

    async def open(self, url: str) -> None:
        """Connect."""

    async def close(self) -> None:
        """Disconnect."""

    def lock(self, name: str, ttl: float) -> AbstractAsyncContextManager[object]:
        """Return a lock for one task, which enters and leaves it again and again."""


def load(spec: str) -> Adapter:
    """Return the adapter `module:class`, not yet open."""
    module, _, name = spec.partition(":")
    return cast(Adapter, getattr(importlib.import_module(module), name)())


@asynccontextmanager
async def opened(spec: str, url: str) -> AsyncIterator[Adapter]:
    """Return the adapter `module:class`, open."""
    adapter = load(spec)
    await adapter.open(url)
    try:
        yield adapter
    finally:
        await adapter.close()
