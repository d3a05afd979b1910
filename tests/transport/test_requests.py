"""Calls on a healthy connection: few writes, answers in order, errors for the right caller."""

from __future__ import annotations

import asyncio
import gc
import random
from typing import Any

import pytest
import redis.asyncio

from aiolock.backends.redis import RedisBackend
from aiolock.backends.redis.replies import Scripts
from aiolock.backends.redis.session import ENOUGH, Session
from aiolock.errors import BackendError
from aiolock.scripts.base import Call, Script
from aiolock.scripts.bid import Bid
from aiolock.scripts.keys import Keys
from aiolock.scripts.lock import LockCalls
from aiolock.scripts.outcomes import Granted
from tests.support import redis_cli
from tests.support.proxy import FaultProxy
from tests.support.redis_cli import CommandStats

from .calls import ECHO, append, echo, result
from .conftest import Connect


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What was handed to the transport, write by write."""
    writes: list[bytes] = []
    send = Session._send

    def spy(session: Session, data: bytes) -> None:
        writes.append(data)
        send(session, data)

    monkeypatch.setattr(Session, "_send", spy)
    return writes


@pytest.mark.any_loop
async def test_a_call_leaves_at_once_if_none_is_on_its_way(backend: RedisBackend, written: list[bytes]) -> None:
    for word in ("first", "second"):
        written.clear()
        future = backend.run(echo(word))
        assert len(written) == 1
        assert await future == word


@pytest.mark.any_loop
async def test_all_others_of_the_turn_leave_in_one_write(backend: RedisBackend, written: list[bytes]) -> None:
    futures = [backend.run(echo(i)) for i in range(ENOUGH)]
    assert await asyncio.gather(*futures) == [str(i) for i in range(ENOUGH)]
    assert [data.count(b"EVALSHA") for data in written] == [1, ENOUGH - 1]
    assert sum(data.count(b"LOAD") for data in written) == 1


@pytest.mark.any_loop
async def test_a_large_batch_leaves_before_the_end_of_the_turn(backend: RedisBackend, written: list[bytes]) -> None:
    """So that the server can work on it meanwhile. Kept by `Session.put`: `waiting >= ENOUGH`."""
    futures = [backend.run(echo(i)) for i in range(3 * ENOUGH)]
    assert [data.count(b"EVALSHA") for data in written] == [1, ENOUGH, ENOUGH]
    assert await asyncio.gather(*futures) == [str(i) for i in range(3 * ENOUGH)]
    assert [data.count(b"EVALSHA") for data in written] == [1, ENOUGH, ENOUGH, ENOUGH - 1]


async def test_the_kernel_sees_as_many_writes(connect: Connect, proxy: FaultProxy) -> None:
    backend = await connect(proxy.url)
    await backend.run(echo(0))
    chunks, requests = proxy.chunks, proxy.requests
    await asyncio.gather(*(backend.run(echo(i)) for i in range(ENOUGH)))
    assert proxy.requests - requests == ENOUGH
    assert proxy.chunks - chunks <= 2


async def test_subscriptions_and_calls_share_a_write(backend: RedisBackend, written: list[bytes]) -> None:
    first = backend.run(echo(0))
    futures = [backend.run(echo(1)), backend.subscribe("c", lambda payload: None), backend.run(echo(2))]
    await asyncio.gather(first, *futures)
    assert len(written) == 2
    assert written[1].index(b"\r\n1\r\n") < written[1].index(b"SUBSCRIBE") < written[1].rindex(b"\r\n2\r\n")


async def test_order_of_calls_is_the_order_on_the_server(backend: RedisBackend, raw: redis.asyncio.Redis) -> None:
    async def one(start: int) -> None:
        for i in range(20):
            await backend.run(append(start + i))

    numbers = [backend.run(append(i)) for i in range(50)]
    assert await asyncio.gather(*numbers) == list(range(1, 51))
    await asyncio.gather(one(1000), one(2000))
    seen = [int(value) for value in await raw.lrange("seen", 0, -1)]
    assert seen[:50] == list(range(50))
    assert [v for v in seen if 1000 <= v < 2000] == list(range(1000, 1020))


async def test_a_call_is_stamped_when_it_is_written(backend: RedisBackend) -> None:
    call = echo("x")
    ahead, before = backend.run(echo("ahead")), backend.clock.now()
    future = backend.run(call)
    assert (call.writes, call.sent_at) == (0, 0.0)
    await future
    assert call.writes == 1
    assert before <= call.sent_at <= backend.clock.now()
    assert ahead.done()


async def test_cancelled_awaiters_shift_no_reply(backend: RedisBackend, raw: redis.asyncio.Redis) -> None:
    chance = random.Random(1)
    mismatches: list[tuple[int, str]] = []
    cancelled = 0

    async def ask(i: int) -> None:
        answer = await backend.run(echo(i))
        if answer != str(i):
            mismatches.append((i, answer))

    for batch in range(40):
        tasks = [asyncio.create_task(ask(batch * 100 + i)) for i in range(100)]
        for _ in range(chance.randrange(4)):
            await asyncio.sleep(0)
        for task in chance.sample(tasks, 60):
            cancelled += task.cancel()
        await asyncio.wait(tasks)
    assert cancelled > 1000
    assert mismatches == []
    assert await backend.run(echo("in step")) == "in step"


async def test_a_cancelled_call_still_runs_and_settles(backend: RedisBackend, raw: redis.asyncio.Redis) -> None:
    call = append("cancelled")
    settled: list[object] = []
    call.settle = settled.append
    backend.run(call).cancel()
    await backend.run(append("after"))
    assert await raw.lrange("seen", 0, -1) == [b"cancelled", b"after"]
    assert settled == [1]


async def test_settle_comes_first_and_may_run_more(backend: RedisBackend) -> None:
    order: list[object] = []
    inner: list[asyncio.Future[str]] = []
    call = echo("outer")

    def settle(outcome: object) -> None:
        order.append((outcome, future.done()))
        inner.append(backend.run(echo("inner")))

    call.settle = settle
    future = backend.run(call)
    assert await future == "outer"
    assert await inner[0] == "inner"
    assert order == [("outer", False)]


async def test_a_settle_that_raises_hurts_no_one(backend: RedisBackend, caplog: pytest.LogCaptureFixture) -> None:
    def settle(outcome: object) -> None:
        raise RuntimeError("broken")

    call = echo("x")
    call.settle = settle
    assert await backend.run(call) == "x"
    assert await backend.run(echo("next")) == "next"
    assert "broken" in caplog.text


async def test_a_withdrawn_call_is_never_written(backend: RedisBackend, raw: redis.asyncio.Redis) -> None:
    settled: list[object] = []
    gone = append("withdrawn")
    gone.settle = settled.append
    ahead, future = backend.run(append("ahead")), backend.run(gone)
    assert gone.withdraw()
    assert [await ahead, await backend.run(append("kept"))] == [1, 2]
    assert gone.writes == 0
    assert await raw.lrange("seen", 0, -1) == [b"ahead", b"kept"]
    assert isinstance(await result(future), BackendError)
    assert len(settled) == 1


async def test_a_written_call_cannot_be_withdrawn(backend: RedisBackend, raw: redis.asyncio.Redis) -> None:
    call = append("written")
    future = backend.run(call)
    await future
    assert not call.withdraw()
    assert await raw.llen("seen") == 1


async def test_a_failing_decoder_fails_its_call_alone(backend: RedisBackend) -> None:
    def decode(reply: object) -> str:
        raise KeyError(reply)

    script = Script("tests.transport", "echo", decode)
    broken, fine = backend.run(Call("n", script, (), ("x",))), backend.run(echo("fine"))
    error = await result(broken)
    assert isinstance(error, BackendError)
    assert isinstance(error.__cause__, KeyError)
    assert await fine == "fine"


@pytest.mark.parametrize("word", ["\ud800", None, 1.5j])
async def test_what_cannot_be_sent_fails_its_call_alone(backend: RedisBackend, word: Any) -> None:
    settled: list[object] = []
    call = echo(word)
    call.settle = settled.append
    broken = backend.run(call)
    assert (settled, broken.done()) == ([], False)  # not before the caller has what `run` returns
    fine = backend.run(echo("fine"))
    error = await result(broken)
    assert isinstance(error, BackendError)
    assert not error.transient
    assert settled == [error]
    assert await fine == "fine"


async def test_text_goes_as_utf8_and_numbers_whole(backend: RedisBackend) -> None:
    assert await backend.run(echo("Schlüssel ☃ \r\n $5")) == "Schlüssel ☃ \r\n $5"
    assert await backend.run(echo(2**53 + 1)) == str(2**53 + 1)


async def test_a_reply_larger_than_any_buffer(backend: RedisBackend) -> None:
    large = "x" * 3_000_000
    answers = await asyncio.gather(backend.run(echo(large)), backend.run(echo("y")), backend.run(echo(large)))
    assert answers == [large, "y", large]


async def test_a_script_is_loaded_once_a_connection(backend: RedisBackend, commandstats: CommandStats) -> None:
    for i in range(5):
        await backend.run(echo(i))
    counts = await commandstats.sent()
    assert (counts["evalsha"], counts["script|load"] or counts["script"]) == (5, 1)


async def test_a_flushed_script_is_loaded_again(backend: RedisBackend, raw: redis.asyncio.Redis) -> None:
    asked: list[int] = []

    def again(i: int) -> bool:
        asked.append(i)
        return True

    if redis_cli.version_of(raw) < (6, 2):
        pytest.skip("it cannot end a pause")
    await backend.run(append("first"))
    await raw.script_flush()
    await raw.client_pause(5_000, all=False)  # the first is not answered before the others are written
    futures = [backend.run(append(i, lambda i=i: again(i))) for i in range(5)]
    done, _ = await asyncio.wait(futures, timeout=0.01)
    assert not done
    assert asked == []
    await raw.client_unpause()
    assert await asyncio.gather(*futures) == [2, 3, 4, 5, 6]
    assert asked == [0, 1, 2, 3, 4]
    assert await raw.lrange("seen", 1, -1) == [b"0", b"1", b"2", b"3", b"4"]


async def test_a_flushed_script_is_not_run_if_it_is_dropped(backend: RedisBackend, raw: redis.asyncio.Redis) -> None:
    await backend.run(append("first"))
    await raw.script_flush()
    error = await result(backend.run(append("dropped")))
    assert isinstance(error, BackendError)
    assert error.transient
    assert await backend.run(append("second")) == 2


async def test_a_server_that_never_keeps_the_script_is_given_up(
    backend: RedisBackend, raw: redis.asyncio.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    await raw.script_flush()
    monkeypatch.setattr(Scripts, "load_first", lambda self, sha: False)
    call = echo("x", lambda: True)
    error = await result(backend.run(call))
    assert isinstance(error, BackendError)
    assert 1 < call.writes < 10


async def test_a_wrong_type_names_the_remedy(backend: RedisBackend, raw: redis.asyncio.Redis) -> None:
    await raw.set("seen", "a string")
    error = await result(backend.run(append(1)))
    assert isinstance(error, BackendError)
    assert not error.transient
    assert "another name" in str(error)
    assert isinstance(error.__cause__, redis.exceptions.ResponseError)
    assert error.name == "a name"


async def test_an_error_that_is_not_awaited_is_silent(backend: RedisBackend, raw: redis.asyncio.Redis) -> None:
    await raw.set("seen", "a string")
    backend.run(append(1))
    assert await backend.run(echo("behind it")) == "behind it"
    gc.collect()  # the fixture `nothing_left` fails the test if asyncio complains


async def test_the_locks_own_scripts_run(backend: RedisBackend) -> None:
    calls = LockCalls(Keys("aiolock", 0), "order:42", 3_000)
    assert isinstance(await backend.run(calls.acquire(Bid("o", 30_000, 0, ""))), Granted)


async def test_before_and_after(redis_url: str) -> None:
    backend = RedisBackend(redis_url)
    settled: list[object] = []
    call = echo("x")
    call.settle = settled.append
    assert isinstance(await result(backend.run(call)), BackendError)
    assert len(settled) == 1
    await backend.open(timeout=5, reconnected=lambda: None)
    assert await backend.run(echo("x")) == "x"
    await backend.aclose()
    assert isinstance(await result(backend.run(echo("x"))), BackendError)
    assert isinstance(await result(backend.subscribe("c", lambda payload: None)), BackendError)


def test_scripts_of_this_test_are_what_the_server_hashes() -> None:
    assert len(ECHO.sha) == 40
