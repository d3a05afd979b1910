"""A block's cancel scope is created before anyone waits for it."""

from __future__ import annotations

import anyio
import pytest

from aiolock import LockManager
from aiolock.core.guarding import guard, scope
from aiolock.testing import MemoryBackend


class Contested(list[anyio.CancelScope]):
    """A loop in another thread takes the last one after each look."""

    def __len__(self) -> int:
        return 1


async def test_a_block_takes_the_scope_that_the_last_one_left() -> None:
    """And leaves another. Kept by `Guard`."""
    async with LockManager(MemoryBackend()) as locks:
        async with locks.lock("a"):
            pass
        (prepared,) = scope.spare
        async with locks.lock("a") as lease, locks.lock("b") as other:
            assert lease._guard._scope is prepared  # type: ignore[union-attr, attr-defined]
            assert other._guard._scope is not prepared  # type: ignore[union-attr, attr-defined]
        assert prepared not in scope.spare
        assert len(scope.spare) == 1


async def test_another_thread_may_take_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of its loops begins blocks, too. Kept by `Guard`: it takes without a look before."""
    monkeypatch.setattr(guard, "spare", Contested())
    async with LockManager(MemoryBackend()) as locks, locks.lock("a") as lease, locks.lock("b") as other:
        assert lease._guard._scope is not other._guard._scope  # type: ignore[union-attr, attr-defined]
