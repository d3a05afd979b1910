"""Two sides of one server: calls about one name keep their order, other calls do not wait for each other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import pytest

from aiolock.backends import releases
from aiolock.backends.base import Backend, Wake
from aiolock.backends.replicated import ReplicatedBackend
from aiolock.clock import SystemClock
from aiolock.errors import AiolockError, BackendError, ConfigurationError
from aiolock.manager import LockManager
from aiolock.scripts import multi, once, queue
from aiolock.scripts.base import Call, Ending, resolve
from aiolock.scripts.bid import Bid
from aiolock.scripts.keys import Keys
from aiolock.scripts.lock import SCRIPTS, LockCalls
from aiolock.scripts.outcomes import Granted, Released
from aiolock.testing import MemoryBackend
from tests.contract.places import MemoryPlace
from tests.support import locks

GRANTED = Granted(1, 1000, False)
RELEASED = Released(1)


class Side:
    """Keeps what it must run, and answers when the test says so."""

    db = 0
    unreachable = None

    def __init__(self, log: list[Call[Any]], *, broken: bool = False) -> None:
        self.clock = SystemClock()
        self.log = log
        self.broken = broken
        self.open_now = False

    async def open(
        self, *, timeout: float, reconnected: Callable[[], None], needed: Callable[[], bool] | None = None
    ) -> None:
        if self.broken:
            raise BackendError("", "no server")
        self.open_now = True
        self.reconnected = reconnected

    def away(self, key: str) -> AiolockError | None:
        return None

    def run(self, call: Call[Any]) -> asyncio.Future[Any]:
        raise NotImplementedError

    def post(self, call: Call[Any]) -> None:
        self.log.append(call)

    def subscribe(self, channel: str, wake: Wake) -> asyncio.Future[None]:
        raise NotImplementedError

    def unsubscribe(self, channel: str) -> None:
        raise NotImplementedError

    async def aclose(self) -> None:
        self.open_now = False


class Both:
    """A backend over two such sides, and calls about names."""

    def __init__(self) -> None:
        self.written: list[Call[Any]] = []
        plain, checked = Side(self.written), Side(self.written)
        self.backend = ReplicatedBackend(plain, checked)
        self._owners = 0

    def acquire(self, name: str = "n") -> tuple[Call[Any], asyncio.Future[Any]]:
        self._owners += 1
        call = LockCalls(Keys("aiolock"), name, 3_000).acquire(Bid(f"m:{self._owners}", 1000, 0, ""))
        return call, self.backend.run(call)

    def release(self, name: str = "n") -> tuple[Call[Any], asyncio.Future[Any]]:
        call = self.release_call(name)
        return call, self.backend.run(call)

    def release_call(self, name: str = "n") -> Call[Any]:
        return LockCalls(Keys("aiolock"), name, 3_000).release("m:1", 1000, 0, "clean", False)


def answer(call: Call[Any], result: object) -> None:
    call.end(result)


@pytest.fixture
async def both() -> Both:
    return Both()


async def test_calls_that_stay_on_their_side_do_not_wait(both: Both) -> None:
    calls = [both.acquire()[0], both.acquire()[0], both.release("other")[0]]
    assert both.written == calls


async def test_calls_that_change_sides_wait(both: Both) -> None:
    """Kept by Lane._advance: `not self.under_way or …`."""
    first, granted = both.acquire()
    second, _ = both.acquire()
    undo, released = both.release()
    third, _ = both.acquire()
    assert both.written == [first, second]
    answer(first, GRANTED)
    assert await granted == GRANTED
    assert both.written == [first, second]
    answer(second, BackendError("n", "the connection died", transient=True))
    assert both.written == [first, second, undo]
    answer(undo, RELEASED)
    assert both.written == [first, second, undo, third]
    assert await released == RELEASED


async def test_an_awaiter_that_left_lets_no_call_pass(both: Both) -> None:
    """Cancelling a future does not take back what was sent."""
    first, granted = both.acquire()
    granted.cancel()
    undo, _ = both.release()
    assert both.written == [first]
    answer(first, GRANTED)
    assert both.written == [first, undo]


async def test_calls_at_the_end_of_a_call_go_before_those_that_wait(both: Both) -> None:
    """As in the outbox: a transfer that failed is followed by the end of both owners, then by the next acquire."""
    transfer = LockCalls(Keys("aiolock"), "n", 3_000).resume("m:1", 1, Bid("m:2", 1000, 0, ""), False)
    instead = [both.release_call(), both.release_call()]
    transfer.settle = lambda result: [both.backend.run(call) for call in instead] and None
    both.backend.run(transfer)
    late, _ = both.release()
    answer(transfer, BackendError("n", "the connection died", transient=True))
    assert both.written == [transfer, *instead, late]


async def test_a_callback_that_raises_stops_no_other(both: Both) -> None:
    first = LockCalls(Keys("aiolock"), "n", 3_000).acquire(Bid("m:1", 1000, 0, ""))

    def fail(result: object) -> None:
        raise ValueError("a bug")

    first.settle = fail
    granted = both.backend.run(first)
    undo, _ = both.release()
    answer(first, GRANTED)
    assert await granted == GRANTED
    assert both.written == [first, undo]
    answer(undo, RELEASED)
    assert not both.backend._lanes


async def test_withdrawn_calls_do_not_pile_up(both: Both) -> None:
    """A release goes unanswered for long, and attempts behind it time out."""
    both.release()
    futures = []
    for _ in range(3):
        call, future = both.acquire()
        futures.append(future)
        call.withdraw()
    last, _ = both.acquire()
    for future in futures:
        with pytest.raises(BackendError, match="withdrawn"):
            await future
    answer(both.written[0], RELEASED)
    assert both.written[1:] == [last]


async def test_renewals_of_many_wait_for_nothing(both: Both) -> None:
    release, _ = both.release()
    calls = LockCalls(Keys("aiolock"), "n", 3_000)
    renewal = calls.renew_many([calls.renewal("m:1", 1, 1000)])
    both.backend.run(renewal)
    assert both.written == [release, renewal]


async def test_names_are_forgotten(both: Both) -> None:
    first, _ = both.acquire()
    undo, _ = both.release()
    answer(first, GRANTED)
    answer(undo, RELEASED)
    assert not both.backend._lanes


async def test_if_one_side_does_not_open_neither_does() -> None:
    plain = Side([])
    backend = ReplicatedBackend(plain, Side([], broken=True))
    with pytest.raises(BackendError, match="no server"):
        await backend.open(timeout=1.0, reconnected=lambda: None)
    assert not plain.open_now


async def test_cancelled_while_the_second_side_opens() -> None:
    plain, checked = Side([]), Side([])
    opening = asyncio.Event()

    async def hang(**_: object) -> None:
        opening.set()
        await asyncio.Event().wait()

    checked.open = hang  # type: ignore[method-assign]
    task = asyncio.ensure_future(ReplicatedBackend(plain, checked).open(timeout=1.0, reconnected=lambda: None))
    await opening.wait()
    assert plain.open_now
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()
    assert not plain.open_now


async def test_it_is_a_backend() -> None:
    assert isinstance(ReplicatedBackend(Side([]), Side([])), Backend)


def test_what_needs_an_acknowledgement() -> None:
    """A script that grants or extends and does not say so would count before a replica has it."""
    assert {script.name for script in SCRIPTS if script.unacknowledged} == {"acquire", "transfer", "renew", "nest"}


async def test_a_result_that_is_not_awaited_is_dropped() -> None:
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    future.cancel()
    resolve(future, 1)
    assert future.cancelled()


# The manager's options.

URL = "redis://localhost:6379/0"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"min_replicas": 0}, "min_replicas must be a whole number from 1"),
        ({"min_replicas": 1.0}, "min_replicas must be a whole number"),
        ({"min_replicas": True}, "min_replicas must be a whole number"),
        ({"replica_timeout": 0}, "replica_timeout is 0.* at least 0.001"),
        ({"replica_timeout": "1"}, "replica_timeout must be a number of seconds"),
        ({"replica_timeout": 3.1}, "tenth of the manager's ttl of 30 s"),
        ({"replica_timeout": 0.6, "request_timeout": 1.0}, "half of request_timeout"),
    ],
)
def test_options_that_do_not_work(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        LockManager(URL, **{"min_replicas": 1, **options})


def test_a_ttl_too_short_for_the_replicas() -> None:
    """After a renewal that was not acknowledged, there must be time for another."""
    locks = LockManager(URL, min_replicas=1, replica_timeout=0.1)
    with pytest.raises(ConfigurationError, match=r"'order:42'.*lower it, or raise the ttl"):
        locks.lock("order:42", ttl=0.9)
    locks.lock("order:42", ttl=1.0)


@pytest.mark.parametrize("source", ["memory://", "memory://name", MemoryBackend()])
def test_memory_has_no_replicas(source: object) -> None:
    with pytest.raises(ConfigurationError, match="no replicas"):
        LockManager(cast(str, source), min_replicas=1)


class Service:
    """A backend whose server is replaced.

    Attributes:
        server: the one that answers.
    """

    def __init__(self) -> None:
        self.written: list[Call[Any]] = []
        self.server = "old"
        self.plain = Side(self.written)
        self.backend = ReplicatedBackend(self.plain, Side(self.written), lambda: self.server)

    async def released(self, owner: str, ending: Ending = "clean") -> None:
        call = LockCalls(Keys("aiolock"), "n", 3_000).release(owner, 1000, 0, ending, False)
        self.backend.post(call)
        answer(call, RELEASED)

    def connect(self, server: str) -> list[tuple[object, ...]]:
        """Connect to a server; return what is written now."""
        self.server, before = server, len(self.written)
        self.plain.reconnected()
        return [tuple(call.args) for call in self.written[before:]]


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    service = Service()
    await service.backend.open(timeout=1.0, reconnected=lambda: None)
    yield service
    await service.backend.aclose()


async def test_the_next_server_gets_the_latest_releases(service: Service) -> None:
    """What the old one answered last may not have reached it. Kept by Releases.repeat."""
    await service.released("m:1")
    await service.released("m:2", "dirty")
    assert service.connect("old") == []
    first, second = service.connect("new")
    assert (first[0], second[0], second[3]) == ("m:1", "m:2", "dirty")
    answer(service.written[-2], RELEASED)
    answer(service.written[-1], RELEASED)
    assert service.connect("new") == []
    assert len(service.connect("newest")) == 2


@pytest.mark.parametrize("tainted", [False, True])
async def test_who_handed_a_name_on_has_released_it(service: Service, tainted: bool) -> None:
    """The next server may not know that, nor who got it. Kept by `ends` of TRANSFER."""
    calls, side = LockCalls(Keys("aiolock"), "n", 3_000), MemoryPlace().side
    grant = side.run(calls.acquire(Bid("m:1", 30_000, 0, "here")))
    assert isinstance(grant, Granted)
    call = calls.transfer("m:1", grant.fence, Bid("m:2", 30_000, 0, "here"), 1, tainted)
    service.backend.post(call)
    answer(call, Granted(grant.fence + 1, 30_000, False))
    service.connect("new")
    again = service.written[-1]
    side.run(again)
    assert locks.held_names(side) == []
    assert bool(locks.tombstones(side)) is tainted


async def test_work_that_was_resumed_goes_on(service: Service) -> None:
    """Its detached hold stays for whoever has the ticket. Kept by _end_of: `over`."""
    call = LockCalls(Keys("aiolock"), "n", 3_000).resume("m:1", 7, Bid("m:2", 30_000, 0, "here"), tainted=False)
    service.backend.post(call)
    answer(call, Granted(8, 30_000, False))
    assert service.connect("new") == []


async def test_only_what_was_released_is_told_again(service: Service) -> None:
    """Kept by Releases.add: a release that failed is repeated by its maker."""
    call = LockCalls(Keys("aiolock"), "n", 3_000).release("m:1", 1000, 0, "clean", False)
    service.backend.post(call)
    answer(call, BackendError("n", "away", transient=True))
    assert service.connect("new") == []


async def test_a_release_is_forgotten_in_time(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kept by Releases._age."""
    monkeypatch.setattr(releases, "KEEP", 0.01)
    await service.released("m:1")
    kept = service.backend._releases
    async with asyncio.timeout(20):
        while kept._timer is not None:  # noqa: ASYNC110 - nobody is told
            await asyncio.sleep(0.01)
    assert service.connect("new") == []


async def test_a_release_that_is_told_again_outlasts_its_connection(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    """And is given up after a while, with a warning. Kept by Releases._repeat."""
    await service.released("m:1")
    service.connect("new")
    again = service.written[-1]
    assert again.again()
    answer(again, BackendError("n", "refused"))
    assert "lock 'n' was released, but its new master could not be notified" in caplog.text


def test_which_scripts_end_an_owner() -> None:
    """The next master gets these again; a late copy of another would do harm."""
    families = {"lock": SCRIPTS, "multi": multi.SCRIPTS, "queue": queue.SCRIPTS, "once": once.SCRIPTS}
    ends = {(family, script.name) for family, scripts in families.items() for script in scripts if script.ends}
    assert ends == {("lock", "release"), ("lock", "transfer"), ("multi", "release"), ("queue", "release")}
    assert not multi.GIVE_BACK.ends
