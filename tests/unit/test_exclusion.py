"""The decorator: keys, what a busy call does, and that an error of the body is never taken for "not run"."""

from __future__ import annotations

import asyncio
import copy
import inspect
import logging
import pickle
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar, cast

import pytest

from aiolock import AcquireTimeout, BackendError, ConfigurationError, LockLost, LockManager, LossReason
from aiolock.recipes import Busy, NotRun, Unavailable, current_lease, exclusive
from aiolock.scripts.base import Call
from aiolock.testing import MemoryBackend

from .world import Crew, expect_loss, settle

R = TypeVar("R")
OWN_ERRORS = [BackendError("", "refused"), AcquireTimeout("", "of another lock"), ZeroDivisionError()]


class Order:
    def __init__(self, number: int) -> None:
        self.number = number


class Work:
    """What is decorated: notes who is inside, and stays until it is let go."""

    def __init__(self) -> None:
        self.begun: list[object] = []
        self.go = asyncio.Event()
        self.error: Exception | None = None

    async def __call__(self, what: object = None) -> str:
        self.begun.append(what)
        if self.error is not None:
            raise self.error
        await self.go.wait()
        return f"did {what}"


@pytest.fixture
def work() -> Work:
    return Work()


def decorated(locks: LockManager, work: Work, **options: Any) -> Callable[..., Any]:
    """The same work under another policy."""

    @exclusive(locks, key="{what}", **options)
    async def function(what: str) -> str:
        return await work(what)

    return function


async def held(manager: LockManager, name: str) -> bool:
    return await manager.lock(name).is_locked()


# One at a time.


async def test_one_call_at_a_time_for_each_key(
    locks: LockManager, crew: Crew, backend: MemoryBackend, work: Work
) -> None:
    function = decorated(locks, work)
    tasks = [crew.start(function(what)) for what in ("a", "a", "b")]
    await settle(backend)
    assert work.begun == ["a", "b"]
    work.go.set()
    assert await asyncio.gather(*tasks) == ["did a", "did a", "did b"]
    assert work.begun == ["a", "b", "a"]


async def test_each_call_has_a_lease_of_its_own(locks: LockManager) -> None:
    """Broken by one lock state for each decorated function."""
    fences: list[int] = []

    @exclusive(locks, key="a")
    async def function() -> None:
        lease = current_lease()
        assert lease is not None
        assert lease.name == "a"
        fences.append(lease.fence)
        await asyncio.sleep(0)

    await asyncio.gather(function(), function(), function())
    assert fences == sorted(set(fences))
    assert current_lease() is None


async def test_nested_calls_see_their_own_lease(locks: LockManager) -> None:
    seen: list[str] = []

    def note() -> None:
        lease = current_lease()
        assert lease is not None
        seen.append(lease.name)

    @exclusive(locks, key="{name}")
    async def function(name: str, *inner: str) -> None:
        if inner:
            await function(*inner)
        note()

    await function("a", "b", "a")  # the innermost nests in the outermost
    assert seen == ["a", "b", "a"]


async def test_a_lost_lock_cancels_the_body(locks: LockManager, crew: Crew, backend: MemoryBackend, work: Work) -> None:
    task = crew.start(decorated(locks, work)("a"))
    await settle(backend)
    backend.steal("a")
    await backend.clock.advance(10.0)
    with expect_loss(LossReason.TAKEN_OVER):
        await task


async def test_cancelled_while_it_waits_or_runs(
    locks: LockManager, peer: LockManager, crew: Crew, backend: MemoryBackend, work: Work
) -> None:
    function = decorated(locks, work)
    tasks = [crew.start(function("a")) for _ in range(2)]
    await settle(backend)
    for task in reversed(tasks):
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    await settle(backend)
    assert work.begun == ["a"]
    assert not await held(peer, "a")


# Keys.


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("nightly", "nightly"),
        ("order:{order.number}", "order:42"),
        ("{kind}:{order.number:05}", "book:00042"),
        ("{kind!r:>{width}}", "   'book'"),
        ("{lines[0]}-{more[x]}", "7-8"),
        ("{x}", "8"),
        (lambda order, *lines, kind="book", **more: f"{kind}/{order.number}/{len(lines)}/{more['x']}", "book/42/2/8"),
    ],
)
async def test_a_key_of_the_arguments(locks: LockManager, key: Any, name: str) -> None:
    @exclusive(locks, key=key)
    async def function(order: Order, *lines: int, kind: str = "book", width: int = 9, **more: int) -> str:
        lease = current_lease()
        assert lease is not None
        return lease.name

    assert await function(Order(42), 7, 9, x=8) == name


@pytest.mark.parametrize("key", ["order:{order}", "{order!r}", "{order.__init__}", "{lines}", lambda order: f"{order}"])
async def test_an_address_is_no_key(locks: LockManager, backend: MemoryBackend, key: Any) -> None:
    """Each call would have a lock of its own. Kept by `_lasting` in key.py."""

    async def ship(order: Order) -> None: ...

    async def ship_all(lines: list[Order]) -> None: ...

    function = exclusive(locks, key=key)(ship_all if key == "{lines}" else ship)
    with pytest.raises(ConfigurationError, match=r"address in memory.*order\.id"):
        await function([Order(42)] if key == "{lines}" else Order(42))  # type: ignore[arg-type]
    assert backend.calls == []


async def test_a_set_is_no_key(locks: LockManager, backend: MemoryBackend) -> None:
    """Each process has an order of its own. Kept by `unordered` in key.py."""

    @exclusive(locks, key="{tags}")
    async def publish(tags: frozenset[str]) -> None: ...

    with pytest.raises(ConfigurationError, match="set 'tags'"):
        await publish(frozenset({"new", "sale"}))
    assert backend.calls == []


async def test_methods_and_a_manager_that_they_have(locks: LockManager) -> None:
    class Shop:
        def __init__(self, name: str) -> None:
            self.name = name
            self.locks = locks

        @exclusive(lambda self: self.locks, key="{self.name}:{order}")
        async def ship(self, order: int) -> str:
            lease = current_lease()
            assert lease is not None
            return lease.name

        @classmethod
        @exclusive(locks, key="{cls.__name__}")
        async def audit(cls) -> bool:
            return await held(locks, "Shop")

    @exclusive(lambda shop: shop.locks, key="{shop.name}")
    async def close(shop: Shop) -> bool:
        return await held(locks, "west")

    assert await close(shop=Shop("west"))  # the first argument, though it has a name
    assert await Shop("north").ship(3) == "north:3"
    assert await Shop("south").ship(order=4) == "south:4"
    assert await Shop.audit()


async def test_a_call_with_wrong_arguments_holds_nothing(
    locks: LockManager, backend: MemoryBackend, work: Work
) -> None:
    with pytest.raises(TypeError, match="what"):
        await decorated(locks, work)()

    @exclusive(locks, key="{tenant}")
    async def loose(**more: int) -> None: ...

    with pytest.raises(TypeError, match="loose needs the argument 'tenant'"):
        await loose(tenants=3)
    assert backend.calls == []


def test_the_signature_stays(locks: LockManager) -> None:
    """Frameworks read it."""

    @exclusive(locks, key="{a}")
    async def function(a: int, /, *, b: str = "x") -> float:
        """What it does."""
        return 1.0

    assert str(inspect.signature(function)) == "(a: 'int', /, *, b: 'str' = 'x') -> 'float'"
    assert function.__doc__ == "What it does."
    assert inspect.iscoroutinefunction(function)


# Busy.


async def test_wait_gives_up_after_its_timeout(
    locks: LockManager, crew: Crew, backend: MemoryBackend, work: Work
) -> None:
    backend.steal("a")
    task = crew.start(decorated(locks, work, timeout=2.0)("a"))
    await backend.clock.advance(2.0)
    with pytest.raises(Busy, match="a thief") as caught:
        await task
    assert caught.value.name == "a"
    assert caught.value.holder is not None
    assert isinstance(caught.value, AcquireTimeout)
    assert work.begun == []


async def test_wait_takes_the_locks_own_timeout(
    locks: LockManager, crew: Crew, backend: MemoryBackend, work: Work
) -> None:
    backend.steal("a")
    task = crew.start(decorated(locks, work, acquire_timeout=2.0)("a"))
    await backend.clock.advance(1.0)
    assert not task.done()
    await backend.clock.advance(1.0)
    with pytest.raises(Busy):
        await task


async def test_skip_returns_none_at_once(locks: LockManager, backend: MemoryBackend, work: Work) -> None:
    function = decorated(locks, work, busy="skip")
    backend.steal("a")
    assert await function("a") is None
    assert work.begun == []
    backend.give_back("a")
    work.go.set()
    assert await function("a") == "did a"


async def test_raise_raises_at_once(locks: LockManager, backend: MemoryBackend, work: Work) -> None:
    backend.steal("a")
    with pytest.raises(Busy, match="held by a thief: the function was not run") as caught:
        await decorated(locks, work, busy="raise")("a")
    assert str(caught.value.holder) == "a thief"
    assert work.begun == []


async def test_busy_in_the_same_process(locks: LockManager, crew: Crew, backend: MemoryBackend, work: Work) -> None:
    crew.start(decorated(locks, work)("a"))
    await settle(backend)
    assert await decorated(locks, work, busy="skip")("a") is None
    with pytest.raises(Busy):
        await decorated(locks, work, busy="raise")("a")


@pytest.mark.parametrize("busy", ["wait", "skip", "raise"])
@pytest.mark.parametrize("outage", ["raise", "run"])
@pytest.mark.parametrize("error", OWN_ERRORS, ids=repr)
async def test_an_error_of_the_body_is_never_not_run(
    locks: LockManager, work: Work, busy: str, outage: str, error: Exception
) -> None:
    """And the body is never run twice. Broken by one `try` around the acquisition and the body."""
    work.error = error
    with pytest.raises(type(error)) as caught:
        await decorated(locks, work, busy=busy, outage=outage)("a")
    assert caught.value is error
    assert not isinstance(error, NotRun)
    assert work.begun == ["a"]


# Outages.


@pytest.mark.parametrize("busy", ["wait", "skip", "raise"])
async def test_an_outage_is_not_busy(
    locks: LockManager, crew: Crew, backend: MemoryBackend, work: Work, busy: str
) -> None:
    with backend.outage():
        task = crew.start(decorated(locks, work, busy=busy)("a"))
        await backend.clock.advance(6.0)
        with pytest.raises(Unavailable) as caught:
            await task
    assert caught.value.transient
    assert isinstance(caught.value, BackendError)
    assert caught.value.__cause__ is not None
    assert work.begun == []


@pytest.mark.parametrize("outage", ["raise", "run"])
async def test_a_timeout_without_an_answer_is_an_outage(
    locks: LockManager, crew: Crew, backend: MemoryBackend, work: Work, outage: str
) -> None:
    work.go.set()
    with backend.outage():
        task = crew.start(decorated(locks, work, timeout=1.0, outage=outage)("a"))
        await backend.clock.advance(1.0)
        if outage == "run":
            assert await task == "did a"
        else:
            with pytest.raises(Unavailable):
                await task


class Silent(MemoryBackend):
    """Answers no acquire, and has no connection that could fail."""

    def post(self, call: Call[Any]) -> None:
        if call.script.name != "acquire":
            super().post(call)


@pytest.mark.parametrize(("busy", "timeout", "runs"), [("wait", 1.0, False), ("wait", 6.0, True), ("skip", None, True)])
async def test_a_short_timeout_proves_no_outage(
    crew: Crew, work: Work, busy: str, timeout: float | None, runs: bool
) -> None:
    """The answer may be on its way, and say that another runs. Kept by `_away`."""
    backend = Silent()
    options = {} if timeout is None else {"timeout": timeout}
    async with LockManager(backend) as locks:
        work.go.set()
        task = crew.start(decorated(locks, work, busy=busy, outage="run", **options)("a"))
        await backend.clock.advance(6.0)
        if runs:
            assert await task == "did a"
        else:
            with pytest.raises(Unavailable):
                await task
            assert work.begun == []


async def test_run_goes_on_without_the_lock(
    locks: LockManager, crew: Crew, backend: MemoryBackend, caplog: pytest.LogCaptureFixture
) -> None:
    leases: list[object] = []

    @exclusive(locks, key="a", outage="run")
    async def function() -> None:
        leases.append(current_lease())

    with backend.outage():
        task = crew.start(function())
        await backend.clock.advance(6.0)
        await task
    assert leases == [None]
    (told,) = [record for record in caplog.records if record.name == "aiolock.exclusive"]
    assert told.levelno == logging.WARNING


async def test_run_is_not_for_busy_or_lost_locks(
    locks: LockManager, crew: Crew, backend: MemoryBackend, work: Work
) -> None:
    function = decorated(locks, work, busy="raise", outage="run")
    task = crew.start(function("lost"))
    await settle(backend)
    backend.steal("lost")
    with pytest.raises(Busy):
        await function("lost")
    await backend.clock.advance(10.0)
    with pytest.raises(LockLost):
        await task
    assert work.begun == ["lost"]


# Misuse.


def plain(what: object) -> None: ...


async def ask(what: object) -> str:
    return "key"


async def generator(what: object) -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize("function", [plain, generator, Work])
def test_only_coroutine_functions(locks: LockManager, function: Any) -> None:
    with pytest.raises(TypeError, match=rf"async def.*{function.__name__}"):
        exclusive(locks, key="a")(function)


@pytest.mark.parametrize("key", ["{order}", "{}", "{0}", "{what", "{what:{order}}", 42, ask])
def test_a_key_that_cannot_work(locks: LockManager, work: Work, key: Any) -> None:
    async def function(what: object) -> None: ...

    with pytest.raises(ConfigurationError):
        exclusive(locks, key=key)(function)


@pytest.mark.parametrize(
    "options",
    [{"busy": "never"}, {"outage": "ignore"}, {"busy": "skip", "timeout": 1.0}, {"timeout": -1.0}, {"ttl": 0.0}],
    ids=str,
)
def test_an_option_that_cannot_work(locks: LockManager, options: Any) -> None:
    with pytest.raises(ConfigurationError):
        exclusive(locks, key="a", **options)
    with pytest.raises(ConfigurationError, match="needs a LockManager"):
        exclusive(cast(Any, "redis://localhost"), key="a")


def test_a_keyword_of_another_library(locks: LockManager) -> None:
    with pytest.raises(TypeError, match="leave it out"):
        exclusive(locks, key="a", sleep=1)  # type: ignore[call-overload]


async def test_a_key_that_is_no_name(locks: LockManager) -> None:
    @exclusive(locks, key=lambda: cast(str, 42))
    async def function() -> None: ...

    with pytest.raises(ConfigurationError, match="must be str"):
        await function()


@pytest.mark.parametrize("error", [Busy("a", "busy", None), Unavailable("a", "away", transient=True)])
def test_the_errors_survive_copies(error: NotRun) -> None:
    for same in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert (type(same), same.name, str(same)) == (type(error), "a", str(error))
        assert same.__dict__ == error.__dict__
