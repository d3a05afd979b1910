"""Waiting without messages, on the virtual clock: when a waiter asks, what it costs, when a manager starts polling."""

# ruff: noqa: PT012 - what raises is the whole guarded block

from __future__ import annotations

import asyncio
import itertools
import logging
import math
from collections.abc import AsyncIterator
from typing import Any

import pytest

from aiolock import BackendError, ConfigurationError, LockLost, LockManager, LossReason, Poll
from aiolock.backends.base import Wake
from aiolock.core.waiting.race import JITTER
from aiolock.scripts.base import Call
from aiolock.scripts.bid import Bid
from aiolock.scripts.keys import Keys
from aiolock.scripts.lock import LockCalls
from aiolock.scripts.outcomes import Granted
from aiolock.testing import MemoryBackend
from tests.support.locks import nothing_held, waiting

from .world import Crew, Holder, assert_empty, settle

STEADY = Poll(first=0.01, cap=0.5, jitter=0)
ATTEMPTS = [0, 0.01, 0.03, 0.07, 0.15, 0.31, 0.63, 1.13, 1.63]
"""Seconds at which a waiter asks with it."""


class Server(MemoryBackend):
    """Notes when each script ran and what was subscribed to; refuses subscriptions if you ask it to."""

    def __init__(self, peer: MemoryBackend | None = None) -> None:
        super().__init__(peer)
        self.ran: list[tuple[str, float]] = []
        self.subscribed: list[str] = []
        self.refusal: BackendError | None = None

    def subscribe(self, channel: str, wake: Wake) -> asyncio.Future[None]:
        self.subscribed.append(channel)
        if self.refusal is None:
            return super().subscribe(channel, wake)
        refused: asyncio.Future[None] = self._running().create_future()
        self._running().call_soon(refused.set_exception, self.refusal)
        return refused

    def refuse(self, *, transient: bool = False) -> None:
        self.refusal = BackendError("", "NOPERM no permissions to run the 'subscribe' command", transient=transient)

    def refuse_late(self) -> None:
        """As after a reconnect: what was granted before is refused now."""
        self.refuse()
        for channel in list(self._wakes):
            wake = self._wakes[channel]
            self.unsubscribe(channel)
            wake(self.refusal)

    def attempts(self) -> list[float]:
        return [round(when, 3) for script, when in self.ran if script in ("acquire", "refresh")]

    def _execute(self, call: Call[Any]) -> Any:
        self.ran.append((call.script.name, self.clock.now()))
        return super()._execute(call)


@pytest.fixture
def backend() -> Server:
    return Server()


@pytest.fixture
async def polling(backend: Server) -> AsyncIterator[LockManager]:
    """A process that polls, beside `peer`, which listens."""
    async with LockManager(Server(backend), waiting=STEADY) as manager:
        yield manager
        await settle(backend)
        assert_empty(manager)


def server_of(manager: LockManager) -> Server:
    server = manager._runtime.backend
    assert isinstance(server, Server)
    return server


def warnings_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


# Poll.


@pytest.mark.parametrize(
    "options",
    [
        *({"first": value} for value in (0, -1, 0.0009, math.nan, math.inf, "1", None, True)),
        *({"cap": value} for value in (0, 0.009, math.nan, math.inf, "1", None, True)),
        *({"jitter": value} for value in (-0.1, 1.1, math.nan, math.inf, "1", None, True)),
        {"first": 0.6},
    ],
    ids=repr,
)
def test_what_poll_refuses(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"waiting=Poll\((first|cap|jitter)="):
        Poll(**options)


@pytest.mark.parametrize("waiting", [Poll, 0.5, "poll", True])
def test_what_the_manager_refuses(waiting: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"waiting must be aiolock\.Poll"):
        LockManager(MemoryBackend(), waiting=waiting)


def test_pauses_double_up_to_the_cap() -> None:
    assert [STEADY.pause(attempts) for attempts in range(8)] == [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.5, 0.5]
    assert STEADY.pause(10**6) == 0.5


@pytest.mark.parametrize("jitter", [0.1, 0.5, 1])
def test_jitter_shortens_by_its_share_at_most(jitter: float) -> None:
    poll = Poll(first=1, cap=1, jitter=jitter)
    pauses = [poll.pause(0) for _ in range(500)]
    assert 1 - jitter <= min(pauses) < max(pauses) <= 1
    assert max(pauses) - min(pauses) > jitter / 2


# When a waiter asks.


async def test_asks_at_growing_intervals(polling: LockManager, peer: LockManager, crew: Crew, backend: Server) -> None:
    """Kept by QueueEntry.schedule: `poll.pause`. And there is no subscription."""
    server = server_of(polling)
    async with peer.lock("a"):
        began = backend.clock.now()
        waiter = Holder(crew, polling.lock("a"))
        await backend.clock.advance(2.0)
        assert [round(when - began, 3) for when in server.attempts()] == ATTEMPTS
    await backend.clock.advance(STEADY.cap)
    assert waiter.entered.done()
    await waiter.end()
    assert server.subscribed == []


async def test_what_polling_costs_by_default(backend: Server, peer: LockManager, crew: Crew) -> None:
    """As docs/how-to/topologies.md says."""
    async with LockManager(Server(backend), waiting=Poll()) as locks:
        server = server_of(locks)
        async with peer.lock("a"):
            Holder(crew, locks.lock("a"))
            await backend.clock.advance(1.0)
            assert 6 <= len(server.attempts()) <= 11
            server.ran.clear()
            await backend.clock.advance(100.0)
            assert 240 <= len(server.attempts()) <= 300
        await crew.dismiss()


async def test_one_task_of_a_process_asks(polling: LockManager, peer: LockManager, crew: Crew, backend: Server) -> None:
    """However many of its tasks wait."""
    server = server_of(polling)
    async with peer.lock("a"):
        waiters = [Holder(crew, polling.lock("a")) for _ in range(50)]
        await backend.clock.advance(2.0)
        assert len(server.attempts()) == len(ATTEMPTS)
    await backend.clock.advance(STEADY.cap)
    for waiter in waiters:
        assert waiter.entered.done()
        await waiter.end()
        await settle(backend)


async def test_never_sleeps_past_the_holders_expiry(backend: Server, crew: Crew, locks: LockManager) -> None:
    """Kept by QueueEntry.schedule: `free_at`."""
    async with LockManager(Server(backend), waiting=Poll(first=20, cap=20)) as polling:
        grant = backend._execute(LockCalls(Keys("aiolock"), "a", 3_000).acquire(Bid("thief:1", 700, 0, "")))
        assert isinstance(grant, Granted)
        waiter = Holder(crew, polling.lock("a"))
        await backend.clock.advance(0.7 + 0.0011)
        assert waiter.entered.done()
        await waiter.end()


async def test_the_recheck_bounds_a_pause(backend: Server, peer: LockManager, crew: Crew) -> None:
    async with LockManager(Server(backend), waiting=Poll(first=20, cap=20), recheck=0.3) as polling:
        async with peer.lock("a"):
            waiter = Holder(crew, polling.lock("a"))
            await settle(backend)
        await backend.clock.advance(0.3 + JITTER)
        assert waiter.entered.done()
        await waiter.end()


async def test_processes_do_not_ask_in_step(backend: Server, peer: LockManager, crew: Crew) -> None:
    """Kept by Poll.pause: `random.uniform(0, self.jitter)`."""
    poll = Poll(first=0.1, cap=0.1)
    async with LockManager(Server(backend), waiting=poll) as one, LockManager(Server(backend), waiting=poll) as other:
        async with peer.lock("a"):
            for manager in (one, other):
                Holder(crew, manager.lock("a"))
            await backend.clock.advance(4.0)
            attempts = [server_of(manager).attempts()[1:] for manager in (one, other)]
            assert len(set(attempts[0]) & set(attempts[1])) < 20
            for times in attempts:
                assert 40 <= len(times) <= 80
        await crew.dismiss()


async def test_patience_is_not_forgotten(polling: LockManager, peer: LockManager, crew: Crew, backend: Server) -> None:
    """Pauses grow during one acquisition, and are short again in the next. Kept by `attempts` being the waiter's."""
    server = server_of(polling)
    for _ in range(2):
        server.ran.clear()
        async with peer.lock("a"):
            began = backend.clock.now()
            waiter = Holder(crew, polling.lock("a"))
            with server.outage(silent=True):
                await backend.clock.advance(1.0)
            await backend.clock.advance(1.0)
            later = [when - began for when in server.attempts()]
            assert later[1] > 0.9
            assert all(after - before > 0.005 for before, after in itertools.pairwise(later))
        await backend.clock.advance(STEADY.cap)
        await waiter.end()


# What no message tells.


async def test_a_revocation_is_noticed_at_the_next_renewal(
    polling: LockManager, peer: LockManager, backend: Server
) -> None:
    with pytest.raises(LockLost) as caught:
        async with polling.lock("a", ttl=30.0) as lease:
            assert await peer.lock("a").force_release()
            await backend.clock.advance(9.0)
            assert not lease.lost
            await backend.clock.advance(2.0)
    assert caught.value.reason is LossReason.DELETED


async def test_a_queues_grant_is_seen_by_asking(
    polling: LockManager, peer: LockManager, crew: Crew, backend: Server
) -> None:
    """Kept by QueueEntry.schedule: `poll.pause`. In its own process it is handed on."""
    first = Holder(crew, peer.fair_lock("a"))
    await settle(backend)
    waiters = [Holder(crew, polling.fair_lock("a"))]
    await settle(backend)
    waiters.append(Holder(crew, polling.fair_lock("a")))
    await backend.clock.advance(5.0)
    await first.end()
    assert not waiters[0].entered.done()
    await backend.clock.advance(STEADY.cap)
    for waiter in waiters:
        await settle(backend)
        assert waiter.entered.done()
        await waiter.end()
    assert server_of(polling).subscribed == []


async def test_waiters_in_queues_ask_together(
    polling: LockManager, peer: LockManager, crew: Crew, backend: Server
) -> None:
    """40 tasks that came at 40 moments, in one request. Kept by QueueEntries.next_refresh."""
    async with peer.fair_lock("a"):
        for _ in range(40):
            Holder(crew, polling.fair_lock("a"))
            await backend.clock.advance(0.013)
        await backend.clock.advance(5.0)
        server = server_of(polling)
        server.ran.clear()
        await backend.clock.advance(10.0)
        assert len(server.ran) <= 41  # half the cap is the shortest time between two
        await crew.dismiss()


# Hand-offs in another process.


@pytest.mark.parametrize("body", [0.001, 0.1, 1.0])
async def test_hand_offs_of_a_listening_process_leave_it_a_turn(
    polling: LockManager, locks: LockManager, crew: Crew, backend: Server, body: float
) -> None:
    """The other process's queue is never empty. The polling process is in the server's queue, and its turn comes."""
    done = 0

    async def greedy() -> None:
        nonlocal done
        while True:
            async with locks.lock("a"):
                await sleep(backend, body)
                done += 1

    for _ in range(5):
        crew.start(greedy())
    await settle(backend)
    for _ in range(3):
        waiter, before = Holder(crew, polling.lock("a")), done
        while not waiter.entered.done():
            await backend.clock.advance(0.5)
            assert done - before < 100 + 1 / body
        await waiter.end()
    await crew.dismiss()


async def test_nothing_is_left_of_a_polling_process(
    polling: LockManager, peer: LockManager, crew: Crew, backend: Server
) -> None:
    """Invariant 8."""
    async with peer.lock("a"):
        assert await polling.lock("a").try_acquire() is None
        assert waiting(backend, "a") == []  # it does not wait
        Holder(crew, polling.lock("a"))
        await backend.clock.advance(3.0)
        assert len(waiting(backend, "a")) == 1
        await crew.dismiss()
        await settle(backend)
        assert waiting(backend, "a") == []
    assert nothing_held(backend)


async def sleep(backend: Server, seconds: float) -> None:
    woken = asyncio.get_running_loop().create_future()
    timer = backend.clock.call_at(backend.clock.now() + seconds, lambda: woken.done() or woken.set_result(None))
    try:
        await woken
    finally:
        timer.cancel()


# When a manager starts polling by itself.


async def test_a_server_that_refuses_subscriptions(
    backend: Server, peer: LockManager, crew: Crew, caplog: pytest.LogCaptureFixture
) -> None:
    """Refused at entry. Kept by ManagerChannel.listen, and ReleaseListener._on_confirmed."""
    server = Server(backend)
    server.refuse()
    async with LockManager(server) as locks:
        async with peer.lock("a"), peer.lock("b"):
            waiters = [Holder(crew, locks.lock(name)) for name in ("a", "b", "b")]
            await backend.clock.advance(3.0)
        await backend.clock.advance(0.5)
        for waiter in waiters:
            assert waiter.entered.done()
            await waiter.end()
            await settle(backend)
        assert len(server.subscribed) == 1
        assert_empty(locks)
    (warning,) = warnings_in(caplog)
    assert "waiting=Poll()" in warning
    assert "NOPERM" in warning
    server.refusal = None
    async with LockManager(server) as locks:
        assert locks._runtime.waiting.poll is None


async def test_a_manager_that_is_entered_again_asks_again(backend: Server, caplog: pytest.LogCaptureFixture) -> None:
    """Kept by Runtime.bind."""
    locks = LockManager(backend)
    backend.refuse()
    for _ in range(2):
        async with locks:
            assert locks._runtime.waiting.poll == Poll()
    assert len(warnings_in(caplog)) == 2
    backend.refusal = None
    async with locks:
        assert locks._runtime.waiting.poll is None


async def test_a_refusal_after_a_reconnect(
    backend: Server, peer: LockManager, crew: Crew, caplog: pytest.LogCaptureFixture
) -> None:
    """The server has changed its mind, or it is another one. Kept by ReleaseListener._on_message."""
    server = Server(backend)
    async with LockManager(server, recheck=60.0) as locks:
        holder, fair = Holder(crew, peer.lock("a")), Holder(crew, peer.fair_lock("a"))
        await settle(backend)
        waiters = [Holder(crew, locks.lock("a")), Holder(crew, locks.fair_lock("a"))]
        await backend.clock.advance(3.0)
        server.refuse_late()
        await backend.clock.advance(3.0)
        await holder.end()
        await fair.end()
        await backend.clock.advance(0.5)
        for waiter in waiters:
            assert waiter.entered.done()
            await waiter.end()
        await settle(backend)
        assert_empty(locks)
    assert len(warnings_in(caplog)) == 1


async def test_a_lost_backend_is_no_refusal(backend: Server) -> None:
    """Entering ends with the error. Kept by ManagerChannel.listen: `if error.transient`."""
    backend.refuse(transient=True)
    locks = LockManager(backend)
    with pytest.raises(BackendError):
        await locks.__aenter__()
    assert locks._runtime.waiting.poll is None
