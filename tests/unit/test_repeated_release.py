"""How the end of an owner reaches the server, and when it is given up."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from aiolock import BackendError, LockManager
from aiolock.scripts.base import Call
from aiolock.testing import MemoryBackend
from tests.support.locks import held_names

from .world import settle, step_wall


class Middlebox(MemoryBackend):
    """Behind something that resets the connection when it sees a release."""

    def __init__(self) -> None:
        super().__init__()
        self.resets: list[float] = []
        self.requests: list[tuple[int, int]] = []

    def post(self, call: Call[Any]) -> None:
        if call.script.name != "release":
            super().post(call)
        else:
            self._reset(call)

    def _reset(self, call: Call[Any]) -> None:
        self.resets.append(self.clock.now())
        self.requests.append((len(call.keys), len(call.args)))
        call.writes += 1
        self._running().call_soon(self._lost, call)

    def _lost(self, call: Call[Any]) -> None:
        if call.unanswered():
            self._reset(call)
        else:
            call.end(BackendError(call.name, "the connection died", transient=True))


class Stuck(MemoryBackend):
    """While it is `stuck`, all requests are held up on their way, until that connection dies."""

    def __init__(self) -> None:
        super().__init__()
        self.stuck = False
        self._held_up: list[tuple[Call[Any], Call[Any]]] = []

    def post(self, call: Call[Any]) -> None:
        if not self.stuck:
            super().post(call)
            return
        call.writes += 1
        call.sent_at = self.clock.now()
        self._held_up.append((call, Call(call.name, call.script, call.keys, call.args)))

    def die(self, late: str, *, after: bool) -> None:
        """The connection dies, and the next one is there at once. Of what was held up, the script `late` still runs,
        before or after what is written again.
        """
        held_up, self._held_up, self.stuck = self._held_up, [], False
        arriving = [copy for _, copy in held_up if copy.script.name == late]
        if not after:
            self._arrive(arriving)
        for call, _ in held_up:
            if call.unanswered():
                self._answer(call)
            else:
                call.end(BackendError(call.name, "the connection died", transient=True))
        if after:
            self._arrive(arriving)

    def _arrive(self, requests: list[Call[Any]]) -> None:
        assert requests
        for request in requests:
            self._execute(request)


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("after", [False, True])
async def test_an_acquire_held_up_for_longer_than_its_ttl_leaves_nothing(after: bool) -> None:
    """Its undo was held up, too. Kept by Release._unanswered: `again`; `taint`."""
    backend = Stuck()
    async with LockManager(backend, ttl=10.0) as locks:
        backend.stuck = True
        waiting = asyncio.ensure_future(locks.lock("a").acquire(timeout=1.0))
        await backend.clock.advance(1.0)
        with pytest.raises(BackendError):
            await waiting
        await backend.clock.advance(15.0)
        backend.die("acquire", after=after)
        await settle(backend)
        assert held_names(backend) == []


@pytest.mark.usefixtures("backend")
async def test_a_renewal_held_up_for_longer_than_its_ttl_extends_nothing() -> None:
    """The server stood still, and reads both connections when it runs again. Kept by Release._unanswered:
    `again`.
    """
    backend = Stuck()
    async with LockManager(backend, ttl=10.0) as locks:
        lease = await locks.lock("a").acquire()
        backend.stuck = True
        await backend.clock.advance(4.0)
        released = asyncio.ensure_future(lease.release())
        stands = backend.store.wall_us()
        await backend.clock.advance(15.0)
        step_wall(backend, (stands - backend.store.wall_us()) / 1e6)
        backend.die("renew", after=False)
        await settle(backend)
        assert held_names(backend) == []
        await released


@pytest.mark.usefixtures("backend")
async def test_a_release_that_is_written_again_names_its_tombstone() -> None:
    """A clean release needs none. Kept by Release.taint: `_call.keys`."""
    backend = Middlebox()
    async with LockManager(backend, ttl=10.0) as locks:
        lease = await locks.lock("poison").acquire()
        lease.release()
        await settle(backend)
    assert backend.requests[:2] == [(3, 3), (4, 7)]


@pytest.mark.usefixtures("backend")
async def test_a_release_that_ends_every_connection_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    """Written again at once, then with growing pauses in which others are served, and never past its ttl.

    Kept by Release._unanswered.
    """
    backend = Middlebox()
    async with LockManager(backend, ttl=10.0) as locks:
        lease = await locks.lock("poison").acquire()
        began = backend.clock.now()
        lease.release()
        await settle(backend)
        assert len(backend.resets) == 2
        async with asyncio.timeout(5):
            while backend.clock.now() < began + 9.9:
                await backend.clock.advance(0.05)
        assert 10 < len(backend.resets) < 30
        pauses = [later - before for before, later in zip(backend.resets, backend.resets[1:], strict=False)]
        assert max(pauses) <= 1.1
        with caplog.at_level(logging.WARNING):
            await backend.clock.advance(2.0)
        count = len(backend.resets)
        assert "was not released, it expires by itself" in caplog.text
        await backend.clock.advance(30.0)
        assert len(backend.resets) == count


@pytest.mark.usefixtures("backend")
async def test_a_lock_that_was_lost_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    """Past its deadline, so its release is of no use to anyone. Kept by Release.settle: `hold.deadline`."""
    backend = Middlebox()
    async with LockManager(backend, ttl=10.0) as locks:
        lease = await locks.lock("a", renew=False).acquire()
        await backend.clock.advance(9.5)
        assert lease.lost
        lease.release()
        await backend.clock.advance(30.0)
        count = len(backend.resets)
        await backend.clock.advance(30.0)
        assert len(backend.resets) == count  # it was given up
    (line,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert line.startswith("lost lock 'a'")


async def test_a_grant_out_of_a_queue_is_given_back_until_its_own_end(
    locks: LockManager, peer: LockManager, backend: MemoryBackend
) -> None:
    """Until its ttl is over. Kept by Release._in_time."""
    lease = await peer.lock("a").acquire()
    waiting = asyncio.create_task(locks.lock("a", ttl=1.5, renew=False).acquire())
    await settle(backend)
    await lease.release()
    late = await waiting
    execute = backend._execute

    def refuse(call: Call[Any]) -> Any:
        return BackendError("a", "TRYAGAIN", transient=True) if call.script.name == "release" else execute(call)

    backend._execute = refuse  # type: ignore[method-assign]
    released = late.release()
    await backend.clock.advance(1.0)
    assert held_names(backend) != []
    backend._execute = execute  # type: ignore[method-assign]
    await backend.clock.advance(1.5)
    assert held_names(backend) == []
    await released


async def test_a_grant_to_another_waiter_is_given_back_until_its_own_end(
    locks: LockManager, backend: MemoryBackend
) -> None:
    """The first waiter asked for 30 s, and left; the next one takes what was granted on those terms. Kept by
    Services.keeps.
    """
    execute, stuck, kept = backend._execute, True, locks.lock("a", ttl=30.0)

    def refuse(call: Call[Any]) -> Any:
        refused = stuck and call.script.name == "release"
        return BackendError("a", "TRYAGAIN", transient=True) if refused else execute(call)

    lease = await kept.acquire()
    first = asyncio.create_task(kept.acquire())
    second = asyncio.create_task(locks.lock("a", ttl=1.0).acquire())
    await settle(backend)
    released = lease.release()  # hands it on, for 30 s
    first.cancel()
    late = await second
    await released
    backend._execute = refuse  # type: ignore[method-assign]
    released = late.release()
    await backend.clock.advance(10.0)
    assert held_names(backend) != []
    stuck = False
    await backend.clock.advance(1.5)
    assert held_names(backend) == []
    await released
