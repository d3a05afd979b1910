"""The multi lock's contract where one script takes one name of several: what holds for a thousand names in pieces."""

from __future__ import annotations

import pytest

from aiolock import LockManager
from aiolock.scripts.multi import spread

from .places import Place
from .test_multi_lock import *  # noqa: F403

del test_what_it_costs  # noqa: F821 - it counts what one piece needs


@pytest.fixture(autouse=True)
def pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spread, "PIECE", 1)


async def test_two_in_any_pieces_never_wait_for_each_other(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """However each is cut. Kept by the order of the groups in `multi_calls`: reverse one of them, and both wait."""
    async with place.manager(ttl=place.ttl) as here, place.manager(ttl=place.ttl) as there:
        locks = [here.multi_lock(*"abcdefg")]
        monkeypatch.setattr(spread, "PIECE", 3)
        locks.append(there.multi_lock(*"gfedcb"))
        monkeypatch.setattr(spread, "PIECE", 2)
        locks.append(there.multi_lock(*"acegbd"))
        inside: list[str] = []

        async def use(lock: MultiLock) -> None:  # noqa: F405
            for _ in range(5):
                async with lock.acquire(timeout=60.0):
                    assert not inside
                    inside.append(lock.name)
                    await asyncio.sleep(0)  # noqa: F405
                    inside.clear()

        async with asyncio.timeout(60.0):  # noqa: F405
            await asyncio.gather(*map(use, locks))  # noqa: F405


def test_each_name_is_a_piece(locks: LockManager) -> None:
    """Otherwise nothing here says anything."""
    assert len(locks.multi_lock(*"abc")._calls.groups) == 3
