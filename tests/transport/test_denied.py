"""What managed servers forbid: each command missing alone, and all together; by ACL, and by renaming."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import pytest
import redis.asyncio

from aiolock import BackendError, ConfigurationError, LockManager, Poll
from aiolock.backends.redis import failures
from aiolock.backends.redis.failures import ErrorReply
from aiolock.scripts.base import drop
from aiolock.testing.server import RedisServer
from tests.support.acl import EVERYTHING, setuser
from tests.support.redis_cli import CommandStats

from .calls import append, echo, result, until
from .conftest import Connect

USER = "forbidden"
Deny = Callable[..., Awaitable[str]]


@pytest.fixture
async def deny(raw: redis.asyncio.Redis, redis_server: RedisServer) -> AsyncIterator[Deny]:
    """Returns the URL of a user who may do everything but this."""

    async def url(*commands: str) -> str:
        await raw.script_flush()
        await raw.execute_command(*setuser(raw, USER, *EVERYTHING, *(f"-{command}" for command in commands)))
        return redis_server.url.replace("redis://", f"redis://{USER}:secret@")

    yield url
    await raw.acl_deluser(USER)


def again() -> bool:
    return True


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize(
    ("commands", "texts"), [(["script|load"], 0), (["evalsha"], 2), (["script|load", "evalsha"], 2)]
)
async def test_scripts_as_text(
    connect: Connect,
    raw: redis.asyncio.Redis,
    commandstats: CommandStats,
    deny: Deny,
    caplog: pytest.LogCaptureFixture,
    commands: list[str],
    texts: int,
) -> None:
    """A refusal comes before anything has run, so all of a write are written again, in order. Kept by Refusals."""
    backend = await connect(await deny(*commands))
    calls = [append(1, drop), append(2, again), echo("x", drop), append(3, again)]
    assert await asyncio.gather(*(backend.run(call) for call in calls)) == [1, 2, "x", 3]
    await commandstats.reset()
    assert await backend.run(append(4)) == 4
    assert await backend.run(echo("y")) == "y"
    assert (await commandstats.sent())["eval"] == texts
    await raw.client_kill_filter(user=USER)
    assert await backend.run(echo("z", again)) == "z"
    (said,) = [each for each in warnings(caplog) if "was refused" in each]
    assert commands[-1].replace("|", " ").upper() in said
    assert f"+{commands[-1]}" in said


async def test_scripts_not_at_all(connect: Connect, deny: Deny) -> None:
    backend = await connect(await deny("script|load", "evalsha", "eval"))
    error = await result(backend.run(echo("x", drop)))
    assert isinstance(error, BackendError)
    assert not error.transient
    for command in ("evalsha", "script|load", "eval"):
        assert f"+{command}" in str(error)


HARMLESS = ("client", "info", "ping", "publish", "pubsub", "role", "script", "subscribe", "unsubscribe", "wait")
"""Commands without which locks work."""


async def hand_over(url: str) -> None:
    """A lock goes from one manager to another that waits for it, and a latch opens."""
    async with LockManager(url, liveness=0.2) as here, LockManager(url, liveness=0.2, recheck=0.1) as there:
        async with asyncio.timeout(20):
            async with here.semaphore("permits", 1) as lease:
                waiting = asyncio.create_task(there.semaphore("permits", 1).acquire())
                opening = asyncio.create_task(there.latch("open", 1).wait())
                await until(lambda: there._runtime.queue_entries)
                await lease.renew()
            await (await waiting).release()
            await here.latch("open", 1).count_down()
            await opening


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("client", ["CLIENT INFO", "+client|info", "may still run"]),
        ("client|info", []),  # CLIENT ID says enough
        ("info", ["INFO", "+info", "eviction"]),
        ("publish", ["PUBLISH", "+publish", "message"]),
        ("script", ["SCRIPT LOAD", "+script|load", "text"]),
        ("subscribe", ["subscription", "poll"]),
        ("ping", []),
        ("pubsub", ["PUBSUB NUMSUB", "+pubsub|numsub", "killed"]),
        ("role", []),
        ("unsubscribe", []),
        ("wait", []),
    ],
)
async def test_each_alone(deny: Deny, caplog: pytest.LogCaptureFixture, command: str, says: list[str]) -> None:
    """Each manager says once what is lost, and what to allow."""
    await hand_over(await deny(command))
    said = warnings(caplog)
    assert len(said) == (2 if says else 0)
    for words in says:
        assert words in said[0]


async def test_all_together(caplog: pytest.LogCaptureFixture) -> None:
    with renamed(*HARMLESS, "config", "debug", "monitor", "acl") as server:
        await hand_over(server.url)
    said = warnings(caplog)
    assert len(said) == 2 * 3  # on connecting, on subscribing, and with the first script
    for command in ("CLIENT INFO", "INFO", "PUBLISH", "PUBSUB NUMSUB", "ROLE"):
        assert command in said[0]


@contextlib.contextmanager
def renamed(*commands: str) -> Iterator[RedisServer]:
    words = [word for command in commands for word in ("--rename-command", command, "")]
    with RedisServer.start(*words, owned=True) as server:
        yield server


async def test_no_hello(caplog: pytest.LogCaptureFixture) -> None:
    with renamed("hello") as server:
        with pytest.raises(ConfigurationError, match=r"waiting=Poll\(\)"):
            async with LockManager(server.url):
                pytest.fail("entered")
        async with LockManager(server.url, waiting=Poll()) as locks, locks.lock("order:42"):
            pass


@pytest.mark.parametrize("commands", [["evalsha", "script"], ["time"], ["eval", "evalsha"]])
async def test_renamed_commands_are_named(commands: list[str]) -> None:
    """Some servers say only the line of the script. Kept by failures.refused."""
    with renamed(*commands) as server:
        async with LockManager(server.url) as locks:
            lock = locks.lock("order:42")
            if commands == ["evalsha", "script"]:
                async with lock:
                    return
            with pytest.raises(BackendError, match=commands[0].upper()) as caught:
                await lock.acquire()
    assert "renam" in str(caught.value)


def test_a_proxy_that_hangs_up() -> None:
    """As twemproxy does on whatever it does not know, at the first command of a connection."""
    error = failures.unconnected(redis.exceptions.ConnectionError("Connection closed by server."))
    assert isinstance(error, BackendError)
    assert error.transient
    assert "closed by server; if a proxy hangs up" in str(error)


def test_no_error_quotes_arguments() -> None:
    """They may hold an owner's id, which nobody else may know."""
    said = ErrorReply("ERR unknown command 'EVALSHA', with args beginning with: '02aac5' '1' 'owner:17' ")
    assert str(said) == "ERR unknown command 'EVALSHA'"
