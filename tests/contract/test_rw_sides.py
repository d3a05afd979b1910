"""Each side of a read-write lock releases its own lease, whichever of the two is the innermost."""

from __future__ import annotations

import asyncio

import pytest

from aiolock import LockManager, NotOwned, RWLock
from aiolock.scripts.queue.records import Holder, read

from .places import Place, keys_of

NAME = "catalogue"


@pytest.fixture
def here(locks: LockManager) -> RWLock:
    return locks.rw_lock(NAME)


@pytest.fixture
def there(others: LockManager) -> RWLock:
    return others.rw_lock(NAME)


def weights(place: Place) -> list[int]:
    """What the server has of it among the holders."""
    records = map(read, place.side.hash(keys_of(NAME, "rw").state).values())
    return [record.weight for record in records if isinstance(record, Holder)]


@pytest.mark.not_in_queues("it looks at records of Redis")
async def test_write_release_leaves_a_read_lease_nested_in_it(here: RWLock, there: RWLock, place: Place) -> None:
    """A downgrade: the server knows, so readers get in, and no writer gets in between."""
    writing = await here.write.acquire()
    reading = await here.read.acquire()
    await here.write.release()
    assert (writing.released, reading.released) == (True, False)
    assert weights(place) == [1]
    async with there.read.try_acquire() as lease:
        assert lease is not None
    assert await there.write.try_acquire() is None
    await here.read.release()
    assert reading.released
    assert await there.info() is None


async def test_read_release_leaves_a_write_lease_nested_after_it(here: RWLock, there: RWLock) -> None:
    outer = await here.write.acquire()
    reading = await here.read.acquire()
    inner = await here.write.acquire()
    await here.read.release()
    assert (outer.released, reading.released, inner.released) == (False, True, False)
    assert await there.read.try_acquire() is None
    await here.write.release()
    assert (outer.released, inner.released) == (False, True)
    await here.write.release()
    assert outer.released
    assert await there.info() is None


@pytest.mark.parametrize(("held", "other"), [("read", "write"), ("write", "read")])
async def test_a_side_without_a_lease_releases_nothing(here: RWLock, held: str, other: str) -> None:
    lease = await getattr(here, held).acquire()
    with pytest.raises(
        NotOwned, match=f"no lease to {other} '{NAME}', only one to {held}: call release\\(\\) on the {held} side"
    ):
        await getattr(here, other).release()
    assert not lease.released
    await lease.release()


async def test_a_task_without_any_lease(here: RWLock) -> None:
    async def release() -> None:
        await here.read.release()

    with pytest.raises(NotOwned, match=f"this task has no lease on lock '{NAME}'"):
        await here.read.release()
    async with here.read as lease:
        with pytest.raises(NotOwned, match=f"this task has no lease on lock '{NAME}'"):
            await asyncio.create_task(release())
        assert not lease.released
