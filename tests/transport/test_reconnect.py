"""Losing the connection: who is asked, what is written again and in which order, and what never happens."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import pytest
import redis.asyncio

from aiolock.backends.redis import RedisBackend
from aiolock.backends.redis.backoff import CAP, Backoff
from aiolock.errors import BackendError
from aiolock.testing.server import RedisServer
from tests.support import acl
from tests.support.proxy import FaultProxy

from .calls import Log, append, echo, result, until
from .conftest import Connect


async def seen(raw: redis.asyncio.Redis) -> list[str]:
    return [value.decode() for value in await raw.lrange("seen", 0, -1)]


class Asked:
    """Callbacks that record the order in which they are asked."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def __call__(self, name: str, answer: bool, also: Callable[[], None] = lambda: None) -> Callable[[], bool]:
        def unanswered() -> bool:
            self.names.append(name)
            also()
            return answer

        return unanswered


@pytest.mark.any_loop
async def test_killed_from_outside(backend: RedisBackend, raw: redis.asyncio.Redis, reconnected: Log) -> None:
    await backend.run(echo("x"))
    await raw.client_kill_filter(skipme=True)
    await reconnected.has(1)
    assert await backend.run(echo("y")) == "y"
    assert backend._dialer.opened == 2


async def test_unwritten_calls_stay_in_order_behind_repeated_ones(
    connect: Connect, proxy: FaultProxy, raw: redis.asyncio.Redis
) -> None:
    backend = await connect(proxy.url)
    await backend.run(append("warm"))
    asked = Asked()
    hole = proxy.blackhole("requests")
    written = [append(name, asked(name, name != "b")) for name in "abc"]
    futures = [backend.run(call) for call in written]
    await hole.hit(3)
    proxy.refuse()
    proxy.reset()
    await until(lambda: len(asked.names) == 3)
    futures += [backend.run(append(name, asked(name, True))) for name in "def"]
    proxy.heal()
    outcomes = [await result(future) for future in futures]
    assert isinstance(outcomes[1], BackendError)
    assert outcomes[1].transient
    assert [*outcomes[:1], *outcomes[2:]] == [2, 3, 4, 5, 6]
    assert await seen(raw) == ["warm", "a", "c", "d", "e", "f"]
    assert asked.names == ["a", "b", "c"]  # once each, in order; the unwritten ones not at all
    assert [call.writes for call in written] == [2, 1, 2]


async def test_a_lost_reply_was_executed(connect: Connect, proxy: FaultProxy, raw: redis.asyncio.Redis) -> None:
    backend = await connect(proxy.url)
    asked = Asked()
    cut = proxy.cut(matching=b"precious")
    first, second = append("precious", asked("precious", True)), append("other", asked("other", False))
    futures = [backend.run(first), backend.run(second)]
    assert await result(futures[0]) in (2, 3)
    await cut.hit()
    assert isinstance(await result(futures[1]), BackendError)
    assert (await seen(raw)).count("precious") == 2
    assert asked.names == ["precious", "other"]


async def test_asked_once_for_each_connection(connect: Connect, proxy: FaultProxy, raw: redis.asyncio.Redis) -> None:
    backend = await connect(proxy.url)
    asked = Asked()
    call = append("x", asked("x", True))
    cut = proxy.cut(times=2, matching=b"EVALSHA")
    assert await result(backend.run(call)) == 3
    assert len(cut.frames) == 2
    assert asked.names == ["x", "x"]
    assert call.writes == 3
    assert backend._dialer.opened == 3


async def test_a_call_made_when_asked_keeps_the_place(
    connect: Connect, proxy: FaultProxy, raw: redis.asyncio.Redis
) -> None:
    backend = await connect(proxy.url)
    asked = Asked()
    made: list[asyncio.Future[int]] = []
    hole = proxy.blackhole("requests")

    def undo(name: str) -> Callable[[], None]:
        return lambda: made.append(backend.run(append(name)))

    def settle(outcome: object) -> None:
        undo("instead of c")()

    calls = [append("a", asked("a", True)), append("b", asked("b", False, undo("instead of b"))), append("c")]
    calls[2].settle = settle
    calls.append(append("d", asked("d", True)))
    futures = [backend.run(call) for call in calls]
    await hole.hit(4)
    proxy.refuse()
    proxy.reset()
    await until(lambda: asked.names == ["a", "b", "d"])
    last = backend.run(append("new"))
    proxy.heal()
    await last
    assert len(made) == 2
    assert await seen(raw) == ["a", "instead of b", "instead of c", "d", "new"]
    assert isinstance(await result(futures[1]), BackendError)


async def test_again_with_other_arguments(connect: Connect, proxy: FaultProxy, raw: redis.asyncio.Redis) -> None:
    backend = await connect(proxy.url)

    def unanswered() -> bool:
        call.args = ("tainted",)
        return True

    call = append("first", unanswered)
    proxy.cut(matching=b"EVALSHA")
    await backend.run(call)
    assert await seen(raw) == ["first", "tainted"]


async def test_a_callback_that_raises_means_no(
    connect: Connect, proxy: FaultProxy, caplog: pytest.LogCaptureFixture
) -> None:
    def unanswered() -> bool:
        raise RuntimeError("broken")

    backend = await connect(proxy.url)
    proxy.cut(matching=b"EVALSHA")
    assert isinstance(await result(backend.run(echo("x", unanswered))), BackendError)
    assert "RuntimeError: broken" in caplog.text
    assert await backend.run(echo("y")) == "y"


async def test_a_cancelled_call_is_asked_about_too(
    connect: Connect, proxy: FaultProxy, raw: redis.asyncio.Redis
) -> None:
    backend = await connect(proxy.url)
    asked = Asked()
    hole = proxy.blackhole("requests")
    future = backend.run(append("x", asked("x", True)))
    await hole.hit()
    future.cancel()
    proxy.heal()
    proxy.reset()
    await backend.run(append("y", lambda: True))
    assert asked.names == ["x"]
    assert (await seen(raw))[0] == "x"


async def test_nothing_is_written_to_a_connection_known_to_be_lost(backend: RedisBackend) -> None:
    await backend.run(echo("warm"))
    assert backend._session is not None
    backend._session.link._writer.transport.abort()
    call = echo("x")
    assert await result(backend.run(call)) == "x"
    assert call.writes == 1


async def test_withdrawn_while_disconnected(own_server: RedisServer, connect: Connect) -> None:
    backend = await connect(own_server.url)
    own_server.kill()
    await until(lambda: "open" in repr(backend))
    gone, kept = append("gone"), append("kept")
    futures = [backend.run(gone), backend.run(kept)]
    assert gone.withdraw()
    own_server.restart()
    assert await result(futures[1]) == 1
    assert isinstance(await result(futures[0]), BackendError)
    assert gone.writes == 0


async def test_calls_caused_by_a_withdrawal_come_last(own_server: RedisServer, connect: Connect) -> None:
    """The callback of a withdrawn call may run a call, which must not get into the middle of the write that leaves it
    out.
    """
    backend = await connect(own_server.url)
    own_server.kill()
    await until(lambda: "open" in repr(backend))
    gone = append("withdrawn")
    gone.settle = lambda outcome: made.append(backend.run(append("instead")))
    made: list[asyncio.Future[int]] = []
    backend.run(gone)
    kept = backend.run(append("kept"))
    assert gone.withdraw()
    own_server.restart()
    assert await result(kept) == 1
    assert await result(made[0]) == 2


async def test_withdrawn_calls_do_not_pile_up(own_server: RedisServer, connect: Connect) -> None:
    backend = await connect(own_server.url)
    own_server.kill()
    await until(lambda: "open" in repr(backend))
    settled = 0

    def settle(outcome: object) -> None:
        nonlocal settled
        settled += isinstance(outcome, BackendError)

    for _ in range(1000):
        call = echo("x")
        call.settle = settle
        backend.run(call)
        call.withdraw()
    await asyncio.sleep(0)
    assert settled > 800
    own_server.restart()
    assert await result(backend.run(echo("y"))) == "y"
    assert settled == 1000


@pytest.mark.parametrize("rules", ["", "-client +client|id +client|kill"], ids=["CLIENT INFO", "CLIENT ID"])
async def test_a_held_back_request_of_the_old_connection_never_runs(
    rules: str, connect: Connect, proxy: FaultProxy, raw: redis.asyncio.Redis, reconnected: Log
) -> None:
    """The server must be told to end the old connection: a proxy may still have bytes of it (review C4). Redis 6.0 has
    no CLIENT INFO.
    """
    await raw.execute_command(*acl.setuser(raw, "limited", *acl.EVERYTHING, *rules.split()))
    backend = await connect(proxy.url.replace("redis://", "redis://limited:secret@"))
    await backend.run(append("warm"))
    hold = proxy.hold_matching(b"stale")
    future = backend.run(append("stale"))
    await hold.hit()
    proxy.reset(upstream=False)
    assert isinstance(await result(future), BackendError)
    assert await result(backend.run(append("new"))) == 2
    hold.lift()
    await until(lambda: proxy.open == 1)
    assert await seen(raw) == ["warm", "new"]
    await raw.acl_deluser("limited")


async def test_killing_the_old_connection_comes_first(
    connect: Connect, proxy: FaultProxy, raw: redis.asyncio.Redis
) -> None:
    backend = await connect(proxy.url)
    await backend.subscribe("c", lambda payload: None)
    old = next(c for c in await raw.client_list() if int(c.get("sub", 0)))
    frames: list[bytes] = []
    proxy.drop("requests", None, lambda frame: bool(frames.append(frame)))  # matches nothing, sees everything
    cut = proxy.cut(matching=b"EVALSHA")
    await backend.run(append("again", lambda: True))
    await until(lambda: any(b"SUBSCRIBE" in frame for frame in frames))
    new = frames[next(i for i, frame in enumerate(frames) if frame == cut.frames[0]) + 1 :]
    commands = [[*frame.split(b"\r\n")[2::2]] for frame in new]
    told = [b"ADDR", old["addr"].encode()] if [b"CLIENT", b"ID"] not in commands else []
    kill = commands.index([b"CLIENT", b"KILL", b"ID", old["id"].encode(), *told])
    names = [words[0] for words in commands]
    assert kill < names.index(b"EVALSHA") < names.index(b"SUBSCRIBE")
    assert {*names[:kill]} == {b"HELLO", b"CLIENT", b"INFO", b"ROLE"}  # which only ask


async def test_reconnected_is_told_between_calls_and_subscriptions(
    redis_url: str, proxy: FaultProxy, raw: redis.asyncio.Redis
) -> None:
    order: list[object] = []
    told = asyncio.Event()

    def reconnected() -> None:
        order.append(("reconnected", call.writes))
        again.append(backend.run(append("verify")))

    def wake(payload: str | None) -> None:
        order.append("woken")
        if len(order) > 1:
            told.set()

    again: list[asyncio.Future[int]] = []
    backend = RedisBackend(proxy.url)
    await backend.open(timeout=5, reconnected=reconnected)
    await backend.subscribe("c", wake)
    call = append("old", lambda: True)
    proxy.cut(matching=b"EVALSHA")
    await backend.run(call)
    await asyncio.wait_for(told.wait(), 10)
    assert order == ["woken", ("reconnected", 2), "woken"]
    assert await asyncio.gather(*again) == [3]
    assert await seen(raw) == ["old", "old", "verify"]
    await backend.aclose()


async def test_a_reconnected_callback_that_raises_hurts_no_one(
    redis_url: str, raw: redis.asyncio.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    def reconnected() -> None:
        raise RuntimeError("broken")

    backend = RedisBackend(redis_url)
    await backend.open(timeout=5, reconnected=reconnected)
    woken = Log()
    await backend.subscribe("c", woken)
    await raw.client_kill_filter(_type="pubsub")
    await woken.has(2)
    assert "RuntimeError: broken" in caplog.text
    await backend.aclose()


async def test_survives_a_restart(own_server: RedisServer, connect: Connect, reconnected: Log) -> None:
    backend = await connect(own_server.url)
    assert await backend.run(append(1)) == 1
    own_server.kill()
    waiting = [backend.run(append(i, lambda: True)) for i in range(10)]
    own_server.restart()
    assert [await result(future) for future in waiting] == list(range(1, 11))
    assert await reconnected.has(1)


async def test_many_kills_under_load(backend: RedisBackend, raw: redis.asyncio.Redis) -> None:
    wrong: list[object] = []
    rounds = 0

    async def ask(worker: int) -> None:
        nonlocal rounds
        for i in range(100):
            word = f"{worker}:{i}"
            answer = await backend.run(echo(word, lambda: True))
            rounds += 1
            if answer != word:
                wrong.append((word, answer))

    async def kill() -> None:
        while True:
            seen = rounds
            await raw.client_kill_filter(skipme=True)
            while rounds < seen + 150:  # noqa: ASYNC110
                await asyncio.sleep(0)

    killer = asyncio.create_task(kill())
    await asyncio.wait_for(asyncio.gather(*(ask(worker) for worker in range(20))), 60)
    killer.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await killer
    assert wrong == []
    assert backend._dialer.opened > 3


async def test_a_changed_password_is_waited_out_and_logged_once(
    own_server: RedisServer, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    async with redis.asyncio.Redis.from_url(own_server.url) as raw:
        user = acl.setuser(raw, "u", "on", "~*", "&*", "+@all", "resetpass")
        await raw.execute_command(*user, ">old")
        backend = await connect(f"redis://u:old@{own_server.host}:{own_server.port}")
        await raw.execute_command(*user, ">new")
        await raw.config_resetstat()
        await raw.client_kill_filter(user="u")
        waiting = backend.run(echo("x", lambda: True))
        while (await raw.info("commandstats")).get("cmdstat_hello", {}).get("calls", 0) < 5:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert not waiting.done()
        await raw.execute_command(*user, ">old")
        assert await result(waiting) == "x"
    errors = [record for record in caplog.records if record.levelname == "ERROR"]
    assert len(errors) == 1
    assert "credentials" in errors[0].getMessage()


def test_backoff_is_immediate_then_grows_to_its_cap() -> None:
    backoff = Backoff()
    waits = [backoff.next() for _ in range(2000)]
    assert waits[0] == 0.0
    assert max(waits[1:3]) <= 0.02
    assert max(waits) <= CAP
    assert max(waits[-1000:]) > CAP * 0.9
    assert min(waits[-1000:]) < CAP * 0.1
    backoff.reset()
    assert backoff.next() == 0.0
