"""Opening and closing: nothing is left, whatever happens in between."""

from __future__ import annotations

import asyncio
import gc
import logging
import warnings

import pytest
import redis.asyncio

from aiolock.backends.redis import RedisBackend, session
from aiolock.backends.redis import backend as redis_backend
from aiolock.backends.redis.connection import pack
from aiolock.errors import BackendError, ConfigurationError
from aiolock.testing.server import RedisServer
from tests.support import redis_cli
from tests.support.proxy import FaultProxy
from tests.support.scripting import wait_until

from .calls import append, echo, result, until
from .conftest import Connect


async def alone(raw: redis.asyncio.Redis) -> None:
    """Wait until only `raw` is connected."""
    async with asyncio.timeout(5):
        while len(await raw.client_list()) > 1:  # noqa: ASYNC110
            await asyncio.sleep(0.005)


def others() -> set[asyncio.Task[object]]:
    return asyncio.all_tasks() - {asyncio.current_task()}


@pytest.mark.any_loop
async def test_nothing_is_left(redis_url: str, raw: redis.asyncio.Redis) -> None:
    await raw.ping()
    backend = RedisBackend(redis_url)
    for _ in range(3):
        await backend.open(timeout=5, reconnected=lambda: None)
        await backend.subscribe("c", lambda payload: None)
        assert await backend.run(echo("x")) == "x"
        await backend.aclose()
        assert others() == set()
        await alone(raw)
        await backend.aclose()
    assert backend._dialer.opened == 3


async def test_a_connection_closed_in_order_is_not_killed(redis_url: str, commandstats: redis_cli.CommandStats) -> None:
    """Its last writes may still be on their way, and must run."""
    backend = RedisBackend(redis_url)
    for _ in range(2):
        await backend.open(timeout=5, reconnected=lambda: None)
        await backend.aclose()
    counts = await commandstats.sent()
    if counts["client"]:
        pytest.skip("it does not count subcommands")
    assert (counts["client|info"], counts["client|kill"]) == (2, 0)


async def test_what_was_run_is_written_and_awaited(backend: RedisBackend, raw: redis.asyncio.Redis) -> None:
    futures = [backend.run(append(i)) for i in range(100)]
    await backend.aclose()
    assert [future.result() for future in futures] == list(range(1, 101))


async def test_a_callback_may_run_more_while_closing(backend: RedisBackend, raw: redis.asyncio.Redis) -> None:
    call = append("first")

    def settle(outcome: object) -> None:
        backend.run(append("second"))

    call.settle = settle
    backend.run(call)
    await backend.aclose()
    assert await raw.lrange("seen", 0, -1) == [b"first", b"second"]


async def test_waiting_for_replies_is_bounded(connect: Connect, proxy: FaultProxy) -> None:
    backend = await connect(proxy.url, request_timeout=0.3)
    hole = proxy.blackhole("replies")
    future = backend.run(echo("x", lambda: True))
    channel = backend.subscribe("c", lambda payload: None)
    await asyncio.wait_for(backend.aclose(), 5)
    hole.lift()
    call, subscription = await result(future), await result(channel)
    assert isinstance(call, BackendError)
    assert not call.transient
    assert isinstance(subscription, BackendError)
    assert subscription.transient  # no one refused it


async def test_closing_while_disconnected(own_server: RedisServer) -> None:
    backend = RedisBackend(own_server.url)
    await backend.open(timeout=5, reconnected=lambda: None)
    own_server.kill()
    await until(lambda: "open" in repr(backend))
    settled: list[object] = []
    call = echo("x")
    call.settle = settled.append
    futures = [backend.run(call), backend.subscribe("c", lambda payload: None)]
    await asyncio.wait_for(backend.aclose(), 5)
    assert others() == set()
    for future in futures:
        error = await result(future)
        assert isinstance(error, BackendError)
        assert str(error) == "the manager was closed before Redis answered"
    assert len(settled) == 1
    own_server.restart()
    await backend.open(timeout=5, reconnected=lambda: None)
    assert await backend.run(echo("y")) == "y"
    await backend.aclose()


async def test_closing_waits_for_a_slow_server(own_server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as answers may come; also for what the transport did not take yet. Kept by RedisBackend.finish."""
    monkeypatch.setattr(redis_backend, "_LINGER", 0.05)
    backend = RedisBackend(own_server.url, request_timeout=10.0)
    await backend.open(timeout=5, reconnected=lambda: None)
    own_server.freeze()
    words = [f"{number}:{'x' * 50_000}" for number in range(400)]
    futures = [backend.run(echo(word)) for word in words]
    assert not backend._outbox.empty
    closing = asyncio.create_task(backend.aclose())
    await asyncio.sleep(0.3)
    own_server.thaw()
    await closing
    assert [await result(future) for future in futures] == words
    assert others() == set()


async def test_a_connection_lost_while_closing(connect: Connect, proxy: FaultProxy, raw: redis.asyncio.Redis) -> None:
    """If something must be written again, closing waits for one attempt to connect."""
    backend = await connect(proxy.url)
    hold = proxy.hold("requests")
    future = backend.run(append("x", lambda: True))
    closing = asyncio.create_task(backend.aclose())
    await hold.hit()
    proxy.reset()
    proxy.heal()
    await closing
    assert await result(future) == 1
    assert await raw.lrange("seen", 0, -1) == [b"x"]
    assert backend._dialer.opened == 2


async def test_closing_in_a_pause_between_two_attempts(
    connect: Connect, proxy: FaultProxy, raw: redis.asyncio.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What must be written gets one more attempt, or an unanswered acquire would hold its lock for a ttl. Kept by
    RedisBackend.finish."""
    backend = await connect(proxy.url)
    monkeypatch.setattr("aiolock.backends.redis.backoff.Backoff.next", lambda self: 3600.0)
    proxy.refuse()
    proxy.reset()
    await until(lambda: backend._session is None and backend._backoff._pausing)
    backend._backoff.hurry()
    await until(lambda: backend.unreachable is not None and backend._attempt is None)
    future = backend.run(append("x", lambda: True))
    proxy.heal()
    await asyncio.wait_for(backend.aclose(), 10)
    assert await result(future) == 1
    assert await raw.lrange("seen", 0, -1) == [b"x"]


async def test_a_connection_lost_for_good_while_closing(proxy: FaultProxy) -> None:
    """It waits for no third attempt to connect."""
    backend = RedisBackend(proxy.url, request_timeout=30.0)
    await backend.open(timeout=5, reconnected=lambda: None)
    hold = proxy.hold("requests")
    future = backend.run(append("x", lambda: True))
    closing = asyncio.create_task(backend.aclose())
    await hold.hit()
    proxy.refuse()
    proxy.reset()
    await asyncio.wait_for(closing, 10)
    assert isinstance(await result(future), BackendError)
    assert not [task for task in others() if task.get_name().startswith("aiolock")]


async def test_a_log_handler_that_raises_while_it_connects_again(connect: Connect, proxy: FaultProxy) -> None:
    """Kept by CarefulLogger."""

    class Broken(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise RuntimeError("the handler is broken")

    backend = await connect(proxy.url)
    logger, handler = logging.getLogger("aiolock.redis"), Broken()
    logger.addHandler(handler)
    try:
        proxy.refuse()
        proxy.reset()
        future = backend.run(echo("x", lambda: True))
        await proxy.connected(3)
        proxy.heal()
        assert await result(future) == "x"
    finally:
        logger.removeHandler(handler)


async def test_closing_with_a_frozen_server(own_server: RedisServer) -> None:
    backend = RedisBackend(own_server.url, request_timeout=0.3)
    await backend.open(timeout=5, reconnected=lambda: None)
    own_server.freeze()
    future = backend.run(echo("x" * 20_000_000))  # more than the sockets take
    await asyncio.wait_for(backend.aclose(), 10)
    assert isinstance(await result(future), BackendError)
    assert others() == set()
    own_server.thaw()


@pytest.mark.parametrize("turns", range(5))
async def test_closing_cancelled(redis_url: str, raw: redis.asyncio.Redis, turns: int) -> None:
    await raw.ping()
    backend = RedisBackend(redis_url)
    await backend.open(timeout=5, reconnected=lambda: None)
    future = backend.run(append("written"))
    closing = asyncio.create_task(backend.aclose())
    for _ in range(turns):
        await asyncio.sleep(0)
    closing.cancel()
    await asyncio.wait((closing,))
    if turns:  # otherwise it never began
        assert isinstance(await result(future), (BackendError, int))
        await alone(raw)
        assert await raw.lrange("seen", 0, -1) == [b"written"]
        await until(lambda: not others())
    await backend.aclose()


async def test_closing_cancelled_before_anything_was_written(redis_url: str, raw: redis.asyncio.Redis) -> None:
    await raw.ping()
    backend = RedisBackend(redis_url)
    await backend.open(timeout=5, reconnected=lambda: None)

    async def close() -> None:
        backend.run(append("written"))
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await backend.aclose()

    await asyncio.wait((asyncio.create_task(close()),))
    await alone(raw)
    assert await raw.lrange("seen", 0, -1) == [b"written"]


async def test_closed_twice_at_once(backend: RedisBackend, raw: redis.asyncio.Redis) -> None:
    future = backend.run(append(1))
    await asyncio.gather(backend.aclose(), backend.aclose(), backend.aclose())
    assert future.result() == 1
    assert others() == set()


async def test_opened_twice(backend: RedisBackend) -> None:
    with pytest.raises(ConfigurationError):
        await backend.open(timeout=5, reconnected=lambda: None)
    assert await backend.run(echo("x")) == "x"


async def test_never_opened(redis_url: str) -> None:
    backend = RedisBackend(redis_url)
    await backend.aclose()
    assert backend._dialer.opened == 0
    assert others() == set()


async def test_opening_cancelled_anywhere(redis_url: str, raw: redis.asyncio.Redis) -> None:
    await raw.ping()
    opened = 0
    turns = 0
    while not opened:
        backend = RedisBackend(redis_url)
        task = asyncio.create_task(backend.open(timeout=5, reconnected=lambda: None))
        for _ in range(turns):
            await asyncio.sleep(0)
        turns += 1
        opened = task.done()
        task.cancel()
        await asyncio.wait((task,))
        await backend.aclose() if opened else None
        await until(lambda: not others())
        await alone(raw)
    assert turns > 3
    gc.collect()


async def test_opening_against_a_frozen_server(own_server: RedisServer) -> None:
    own_server.freeze()
    backend = RedisBackend(own_server.url)
    with pytest.raises(BackendError) as caught:
        await asyncio.wait_for(backend.open(timeout=0.3, reconnected=lambda: None), 5)
    assert caught.value.transient
    assert others() == set()
    own_server.thaw()
    await backend.open(timeout=5, reconnected=lambda: None)
    await backend.aclose()


def test_two_loops_in_turn(redis_url: str) -> None:
    backend = RedisBackend(redis_url)

    async def use(word: str) -> str:
        await backend.open(timeout=5, reconnected=lambda: None)
        confirmed: list[object] = []
        await backend.subscribe("c", confirmed.append)
        answer = await backend.run(echo(word))
        await backend.aclose()
        assert confirmed == [None]
        return answer

    assert [asyncio.run(use(word)) for word in ("a", "b", "c")] == ["a", "b", "c"]


def test_a_loop_that_ends_without_closing(redis_url: str) -> None:
    """Python warns about the connection, as about any other; nothing hangs, and you can use the backend again."""
    backend = RedisBackend(redis_url)

    async def forget() -> None:
        await backend.open(timeout=5, reconnected=lambda: None)
        await backend.run(echo("x"))

    async def use() -> str:
        await backend.open(timeout=5, reconnected=lambda: None)
        try:
            return await backend.run(echo("y"))
        finally:
            await backend.aclose()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        asyncio.run(forget())
        assert asyncio.run(use()) == "y"
        gc.collect()
    with redis_cli.client(redis_url) as link:
        wait_until(lambda: len(link.client_list()) == 1)


@pytest.mark.parametrize("many", [False, True])
async def test_a_signal_strikes_while_a_request_is_written(
    backend: RedisBackend, monkeypatch: pytest.MonkeyPatch, many: bool
) -> None:
    """Its handler's `sys.exit()`: no one gets the answer to something else. Kept by Session._interrupted."""

    def strike(command: tuple[object, ...]) -> bytes:
        if "struck" in command:
            monkeypatch.undo()
            raise SystemExit
        return pack(command)

    assert await backend.run(echo("warm")) == "warm"
    calls = [echo(word, lambda: True) for word in ("x", "struck", "y")]
    monkeypatch.setattr(session, "pack", strike)
    futures: list[asyncio.Future[str]] = []
    if many:
        futures = [backend.run(call) for call in calls]
        assert backend._session is not None
        with pytest.raises(SystemExit):
            backend._session.flush()
        assert [await result(future) for future in futures] == ["x", "struck", "y"]
    else:
        with pytest.raises(SystemExit):
            backend.run(calls[1])
        assert await result(backend.run(calls[2])) == "y"
    assert backend._dialer.opened == 2


def test_calls_made_while_the_loop_stands_still(redis_url: str) -> None:
    """They leave at once, in order: there may be no other turn. Kept by `Session._schedule`: `is_running`."""
    backend = RedisBackend(redis_url)

    async def leave_one_unanswered() -> None:
        await backend.open(timeout=5, reconnected=lambda: None)
        await backend.run(append(1))
        backend.post(append(2))
        backend.post(append(3))

    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(leave_one_unanswered())
        backend.post(append(4))
        backend.post(append(5))
        with redis_cli.client(redis_url) as link:
            wait_until(lambda: link.llen("seen") == 5)
            assert link.lrange("seen", 0, -1) == [b"1", b"2", b"3", b"4", b"5"]
        loop.run_until_complete(backend.aclose())
    finally:
        loop.close()


async def cancel_all() -> None:
    """A crude shutdown handler that continues until there is nothing to cancel."""
    while tasks := others():
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


@pytest.mark.parametrize("turns", range(4))
async def test_every_task_is_cancelled(redis_url: str, turns: int) -> None:
    """Requests are answered, and the connection stays."""
    backend = RedisBackend(redis_url)
    await backend.open(timeout=5, reconnected=lambda: None)
    waiting = backend.run(echo("x"))
    for _ in range(turns):
        await asyncio.sleep(0)
    async with asyncio.timeout(5):
        await cancel_all()
    assert await result(backend.run(echo("y"))) == "y"
    assert await result(waiting) == "x"
    assert backend._dialer.opened == 1
    await backend.aclose()
    assert others() == set()


async def test_a_silent_connection_needs_no_task(backend: RedisBackend) -> None:
    assert await backend.run(echo("x")) == "x"
    assert others() == set()


async def test_the_task_that_reconnects_is_cancelled(own_server: RedisServer, connect: Connect) -> None:
    """It starts again, and no waiter is forgotten."""
    backend = await connect(own_server.url)
    own_server.kill()
    await until(others)
    future = backend.run(echo("x"))
    for _ in range(5):
        async with asyncio.timeout(5):
            await cancel_all()
        assert not future.done()
        await until(others)
    own_server.restart()
    assert await result(future) == "x"


async def test_a_full_buffer_keeps_calls_back(own_server: RedisServer, connect: Connect) -> None:
    """While the server does not read, you can still withdraw what the transport was not given."""
    backend = await connect(own_server.url)
    assert await backend.run(append("warm")) == 1
    own_server.freeze()
    large = backend.run(echo("x" * 20_000_000))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    calls = [append(i) for i in range(500)]
    tasks = len(others())
    futures = []
    for call in calls:
        futures.append(backend.run(call))
        await asyncio.sleep(0)
    assert len(others()) == tasks
    assert not any(call.writes for call in calls)
    assert all(call.withdraw() for call in calls[100:])
    own_server.thaw()
    await large
    assert [await result(future) for future in futures[:100]] == list(range(2, 102))
    async with redis.asyncio.Redis.from_url(own_server.url) as raw:
        assert await raw.llen("seen") == 101
