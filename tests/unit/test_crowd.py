"""More waiters than one request lets in: they follow each other without a pause."""

from __future__ import annotations

import asyncio

import pytest

from aiolock import LockLost, LockManager
from aiolock.scripts import queue
from aiolock.testing import MemoryBackend
from tests.support.lua import ROOM, edit

from .world import Crew, settle

MANY = 25


async def test_readers_behind_a_writer_enter_without_a_refresh(
    locks: LockManager, peer: LockManager, backend: MemoryBackend, crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No time passes. Kept by turn.lua: `look`, and by ManagerChannel.on_message; and by Queueing.force_release."""
    edit(monkeypatch, queue.SCRIPTS, f"local room = {ROOM}", "local room = 10")
    writer = await peer.rw_lock("a").write.acquire()
    readers = [crew.start(locks.rw_lock("a").read.acquire()) for _ in range(MANY)]
    await settle(backend)
    assert not any(reader.done() for reader in readers)
    before = backend.clock.now()
    await writer.release()
    await settle(backend)
    assert all(reader.done() for reader in readers)
    leases = await asyncio.gather(*readers)
    assert backend.clock.now() == before
    info = await peer.rw_lock("a").info()
    assert info is not None
    assert info.readers == MANY
    assert await peer.rw_lock("a").force_release()
    assert await peer.rw_lock("a").info() is None
    await settle(backend)
    for lease in leases:
        with pytest.raises(LockLost):
            await lease.release()
