"""Observers are told after the fact, in the right task, and can break nothing."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

import pytest

from aiolock import AcquireTimeout, ConfigurationError, Lease, LockLost, LockManager, LossReason
from aiolock.events import Acquired, AcquireFailed, Event, Granted, Lost, Observer, Released, Renewed, TimedOut, Waiting
from aiolock.testing import MemoryBackend

from .world import TTL, Crew, Holder, assert_empty, lock_keys, runtime_of, settle

KINDS: list[type[Event]] = [Acquired, AcquireFailed, Granted, Lost, Released, Renewed, TimedOut, Waiting]
"""What `scenario` makes happen."""


class Broken:
    """Raises at events of one kind; of any for None."""

    def __init__(self, error: BaseException, kind: type[Event] | None = None) -> None:
        self.error = error
        self.kind = kind
        self.seen: list[Event] = []

    def __call__(self, event: Event) -> None:
        self.seen.append(event)
        if self.kind is None or isinstance(event, self.kind):
            raise self.error


async def asleep(event: Event) -> None:
    """Not an observer: nobody would await it."""


class Asleep:
    async def __call__(self, event: Event) -> None:
        """Not an observer either."""


async def scenario(backend: MemoryBackend, crew: Crew, observer: Observer | None = None) -> tuple[Any, ...]:
    """Take, hand on, renew, wait for another process, time out, be cancelled, lose and close; return what happened."""
    here, there = MemoryBackend(backend), MemoryBackend(backend)
    happened: list[object] = []
    async with LockManager(here, observer=observer) as locks, LockManager(there) as peer:
        lock = locks.lock("a")
        first, second = Holder(crew, lock), Holder(crew, lock)
        await settle(backend)
        await backend.clock.advance(TTL / 3)
        await first.end()
        third = Holder(crew, peer.lock("a"))
        await settle(backend)
        happened += [second.entered.done(), third.entered.done()]
        await second.end()
        await third.entered
        waiting = Holder(crew, lock)
        given_up = [Holder(crew, lock, timeout=1.0), Holder(crew, lock)]
        await backend.clock.advance(1)
        given_up[1].task.cancel()
        happened += [
            type(error) for error in await asyncio.gather(*(one.task for one in given_up), return_exceptions=True)
        ]
        await third.end()
        happened.append((await waiting.entered).fence > (await third.entered).fence)
        told = crew.start((await waiting.entered).wait_lost())
        await settle(backend)
        await peer.lock("a").force_release()
        await settle(backend)
        happened += [await told, (await asyncio.gather(waiting.task, return_exceptions=True))[0].args]
        await settle(backend)
        happened.append(lock_keys(backend))
        assert_empty(locks)
        last = await lock.acquire()
    with pytest.raises(LockLost):
        await last.release()
    return *happened, lock_keys(backend), here.calls


async def test_an_observer_changes_nothing(crew: Crew, caplog: pytest.LogCaptureFixture) -> None:
    """Neither what happens nor which requests are sent, with an observer or with logs of everything."""
    without = await scenario(MemoryBackend(), crew)
    told: list[Event] = []
    assert repr(await scenario(MemoryBackend(), crew, told.append)) == repr(without)
    assert {type(event) for event in told} == set(KINDS)
    with caplog.at_level(logging.DEBUG, "aiolock"):
        assert repr(await scenario(MemoryBackend(), crew)) == repr(without)
    assert len([record for record in caplog.records if record.levelno == logging.DEBUG]) > 5


@pytest.mark.parametrize("kind", [*KINDS, None])
@pytest.mark.parametrize("error", [ZeroDivisionError("a bug"), asyncio.CancelledError(), GeneratorExit()], ids=repr)
async def test_a_broken_observer(
    crew: Crew, error: BaseException, kind: type[Event] | None, caplog: pytest.LogCaptureFixture
) -> None:
    """A loss, a release, a grant go on, the next observer is told, and the log says so once."""
    without = await scenario(MemoryBackend(), crew)
    broken, told = Broken(error, kind), list[Event]()
    caplog.clear()

    def both(event: Event) -> None:
        told.append(event)

    observed = await scenario(MemoryBackend(), crew, [broken, both])  # type: ignore[arg-type]
    assert repr(observed) == repr(without)
    assert told == broken.seen
    (record,) = [record for record in caplog.records if "observer" in record.getMessage()]
    assert (record.name, record.levelno) == ("aiolock.manager", logging.ERROR)
    assert record.exc_info is not None
    assert record.exc_info[1] is error


async def test_each_type_of_error_is_logged(backend: MemoryBackend, caplog: pytest.LogCaptureFixture) -> None:
    errors = iter([ValueError("one"), KeyError("another"), ValueError("again"), KeyError("again")])

    def broken(event: Event) -> None:
        raise next(errors)

    async with LockManager(backend, observer=broken) as locks:
        for _ in range(2):
            async with locks.lock("a"):
                pass
    assert [str(record.exc_info[1]) for record in caplog.records if record.exc_info] == ["one", "'another'"]


@pytest.mark.parametrize("end", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("kind", [Acquired, Released, Lost])
def test_an_observer_that_ends_the_program(end: type[BaseException], kind: type[Event]) -> None:
    """It ends the loop as an error in a callback would, and nothing stays half done: here, the block begins."""
    backend, steps = MemoryBackend(), []
    ends = [end()]

    def observer(event: Event) -> None:
        if isinstance(event, kind) and ends:
            raise ends.pop()

    async def main() -> None:
        async with LockManager(backend, observer=observer) as locks:
            async with locks.lock("a") as held:
                steps.append("inside")
                if kind is Lost:
                    held._hold.lose(LossReason.REVOKED)
            await asyncio.Event().wait()

    with pytest.raises(end):
        asyncio.run(main())
    assert steps == ["inside"]
    assert lock_keys(backend) == []


def releasing(locks: LockManager, held: list[Lease], tasks: list[Any]) -> None:
    for one in held:
        one.release()


def closing(locks: LockManager, held: list[Lease], tasks: list[Any]) -> None:
    if not tasks:
        tasks.append(asyncio.ensure_future(locks.close()))


def acquiring(locks: LockManager, held: list[Lease], tasks: list[Any]) -> None:
    async def acquire() -> None:
        async with locks.lock("a").acquire(timeout=1.0):
            pass

    if len(tasks) < 3:
        tasks.append(asyncio.ensure_future(acquire()))


@pytest.mark.parametrize("call", [releasing, closing, acquiring])
@pytest.mark.parametrize("kind", [Acquired, Renewed, Released, Lost, Granted])
async def test_an_observer_that_calls_back(
    backend: MemoryBackend,
    peer: LockManager,
    crew: Crew,
    kind: type[Event],
    call: Callable[[LockManager, list[Lease], list[Any]], None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Whatever it calls succeeds, each hold ends once, and nothing stays."""
    held: list[Lease] = []
    tasks: list[Awaitable[Any]] = []
    ends: Counter[str] = Counter()
    mine = MemoryBackend(backend)

    def observer(event: Event) -> None:
        if isinstance(event, Lost) or (isinstance(event, Released) and event.depth == 0):
            ends[event.owner] += 1
        if isinstance(event, kind):
            call(locks, held, tasks)

    async def use() -> None:
        async with locks.lock("a") as outer:
            held.append(outer)
            async with locks.lock("a") as inner:
                held.append(inner)
                await backend.clock.advance(TTL / 3)
            if kind is Lost:
                await peer.lock("a").force_release()
                await asyncio.sleep(0)

    locks = LockManager(mine, observer=observer)
    async with locks:
        other = Holder(crew, peer.lock("a"))
        await settle(backend)
        user = crew.start(use())
        await settle(backend)
        await other.end()
        await asyncio.wait([user])
        await asyncio.gather(*tasks, return_exceptions=True)
        await settle(backend)
    assert tasks or call is releasing
    assert "observer" not in caplog.text
    assert set(ends.values()) == (set() if call is closing and kind is Granted else {1})
    assert_empty(locks)
    assert lock_keys(backend) == []


async def test_releasing_from_the_observer_of_the_acquire(backend: MemoryBackend) -> None:
    """`lock.release()` there gives back what was just acquired: the block runs without the lock. All observers hear of
    both in this order, or those that count holds would count one that never ends.
    """
    first: list[Event] = []
    second: list[Event] = []

    def observer(event: Event) -> None:
        first.append(event)
        if isinstance(event, Acquired):
            lock.release()

    async with LockManager(backend, observer=[observer, second.append]) as locks:
        lock = locks.lock("a")
        async with lock as gone:
            assert gone.released
            assert lock_keys(backend) == []
    assert [type(event) for event in second] == [Acquired, Released]
    assert first == second


@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks came with Python 3.12")
async def test_an_observer_that_closes_at_once(backend: MemoryBackend) -> None:
    """An eager task runs inside the observer: the lease is lost before its block begins, which is cancelled all the
    same. Kept by Guard.
    """
    tasks: list[asyncio.Task[None]] = []
    ran: list[bool] = []
    loop = asyncio.get_running_loop()

    def observer(event: Event) -> None:
        if isinstance(event, Acquired):
            tasks.append(asyncio.eager_task_factory(loop, locks.close()))  # type: ignore[attr-defined]

    async def use() -> None:
        async with locks.lock("a"):
            await settle(backend)
            ran.append(True)

    async with LockManager(MemoryBackend(backend), observer=observer) as locks:
        with pytest.raises(LockLost) as lost:
            await use()
    assert lost.value.reason is LossReason.CLOSED
    assert not ran
    assert len(tasks) == 1


async def test_acting_comes_first(backend: MemoryBackend, peer: LockManager, crew: Crew) -> None:
    """When it is told, the request is written, the block is cancelled, and those who wait hear of it."""
    seen: dict[type[Event], object] = {}
    mine = MemoryBackend(backend)

    def observer(event: Event) -> None:
        if isinstance(event, Released):
            seen[Released] = mine.calls[-1]
        elif isinstance(event, Granted):
            seen[Granted] = mine.calls[-1]
        elif isinstance(event, Acquired):
            seen[Acquired] = locks.lock("a").owned()
        elif isinstance(event, Lost):
            (hold,) = runtime_of(locks).holds.values()
            cancelled = hold.scopes[0]._scope.cancel_called  # type: ignore[attr-defined]
            seen[Lost] = hold.reason, hold.watchers, cancelled, mine.calls[-1]

    async with LockManager(mine, observer=observer) as locks:
        other = Holder(crew, peer.lock("a"))
        await settle(backend)
        holder = Holder(crew, locks.lock("a"))
        await settle(backend)
        await other.end()
        held = await holder.entered
        assert seen == {Granted: "acquire", Acquired: 1}
        loss = crew.start(held.wait_lost())
        crew.start(locks.lock("a").acquire().__aenter__())
        await settle(backend)
        await peer.lock("a").force_release()
        await settle(backend)
        assert seen[Lost] == (LossReason.REVOKED, (), True, "acquire")
        assert await loss is LossReason.REVOKED
        async with locks.lock("b"):
            pass
        assert seen[Released] == "release"


@pytest.mark.parametrize("reason", [LossReason.EXPIRED, LossReason.DELETED, LossReason.CLOSED])
async def test_an_observer_delays_no_other_loss(reason: LossReason, backend: MemoryBackend, crew: Crew) -> None:
    """All that is lost at one moment is lost before an observer runs: by a timer, by an answer, and by closing."""
    told: list[list[LossReason | None]] = []

    def observe(event: Event) -> None:
        if isinstance(event, Lost):
            told.append([lease._hold.reason for lease in leases])

    async with LockManager(MemoryBackend(backend), observer=observe, ttl=TTL, margin=1.0) as locks:
        holders = [Holder(crew, locks.lock(name, renew=reason is not LossReason.EXPIRED)) for name in "abc"]
        await settle(backend)
        leases = [await holder.entered for holder in holders]
        if reason is LossReason.DELETED:
            backend.flush()
        if reason is not LossReason.CLOSED:
            await backend.clock.advance(TTL - 1.0)
    ends = await asyncio.gather(*(holder.task for holder in holders), return_exceptions=True)
    assert [type(end) for end in ends] == [LockLost] * 3
    assert told == [[reason] * 3] * 3


async def test_the_task_is_told(backend: MemoryBackend, peer: LockManager, crew: Crew) -> None:
    """A trace finds its parent: what a task does is told in it, with its context; only that it waits, by the answer."""
    request: ContextVar[str] = ContextVar("request", default="")
    told: list[tuple[type[Event], str, asyncio.Task[Any] | None]] = []

    def observer(event: Event) -> None:
        if not isinstance(event, Waiting):
            told.append((type(event), request.get(), asyncio.current_task()))

    async def use() -> None:
        request.set("one")
        async with locks.lock("a"), locks.lock("a"):
            pass
        with pytest.raises(AcquireTimeout):
            await locks.lock("b").acquire(timeout=0.5)
        await locks.lock("b").try_acquire()

    async with LockManager(MemoryBackend(backend), observer=observer) as locks, peer.lock("b"):
        task = crew.start(use())
        await settle(backend)
        await backend.clock.advance(0.5)
        await task
    assert [kind.__name__ for kind, _, _ in told] == [
        *("Acquired", "Acquired", "Released", "Released", "TimedOut", "Refused")
    ]
    assert {(where, at) for _, where, at in told} == {("one", task)}


@pytest.mark.parametrize("listening", [False, True])
async def test_no_event_is_built_if_nobody_listens(
    crew: Crew, monkeypatch: pytest.MonkeyPatch, listening: bool
) -> None:
    built: list[str] = []
    for kind in {*KINDS} - {Lost}:  # a loss is always logged

        def build(event: Event, *args: Any, init: Callable[..., None] = kind.__init__) -> None:
            built.append(type(event).__name__)
            init(event, *args)

        monkeypatch.setattr(kind, "__init__", build)
    await scenario(MemoryBackend(), crew, Broken(ValueError()) if listening else None)
    assert bool(built) is listening


@pytest.mark.parametrize("observer", ["alarm", 1, Broken, asleep, Asleep(), [print, None], [[print]]])
def test_what_is_no_observer(observer: Any) -> None:
    """The sorts of managers check it, too."""
    urls = ["redis://a", "redis://b", "redis://c"]
    makers: list[Callable[[], LockManager]] = [
        lambda: LockManager(MemoryBackend(), observer=observer),
        lambda: LockManager.cluster(urls, observer=observer),
        lambda: LockManager.sentinel([("a", 1)], service="s", observer=observer),
        lambda: LockManager.quorum(urls, observer=observer),
    ]
    for make in makers:
        with pytest.raises(ConfigurationError, match="observer"):
            make()
