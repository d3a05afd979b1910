"""Two managers on three nodes."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from aiolock import Lock, LockManager

from .world import NAME, Link, Trio


@pytest.fixture
def trio() -> Trio:
    return Trio()


@pytest.fixture
def links(trio: Trio) -> list[Link]:
    """One process's connections."""
    return trio.links()


@pytest.fixture
def lines(trio: Trio) -> list[Link]:
    """The other's."""
    return trio.links()


@pytest.fixture
async def locks(trio: Trio, links: list[Link]) -> AsyncIterator[LockManager]:
    async with trio.manager(links) as manager:
        yield manager
        await trio.clock.advance(0)


@pytest.fixture
async def others(trio: Trio, lines: list[Link]) -> AsyncIterator[LockManager]:
    async with trio.manager(lines) as manager:
        yield manager
        await trio.clock.advance(0)


@pytest.fixture
def here(locks: LockManager) -> Lock:
    return locks.lock(NAME)


@pytest.fixture
def there(others: LockManager) -> Lock:
    return others.lock(NAME)
