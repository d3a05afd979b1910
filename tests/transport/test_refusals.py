"""Errors of the server: which pass, which stay, and what to do about them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import redis.asyncio
import redis.exceptions
from redis.exceptions import ResponseError

from aiolock.backends.redis import RedisBackend, failures
from aiolock.backends.redis.failures import ErrorReply
from aiolock.errors import BackendError, ConfigurationError
from aiolock.testing.server import RedisServer
from tests.support import acl

from .calls import append, echo, result
from .conftest import Connect


@pytest.fixture
async def limited(raw: redis.asyncio.Redis) -> AsyncIterator[redis.asyncio.Redis]:
    """Makes the ACL user `limited`, password `secret`; set its rules with `rules()`."""
    yield raw
    await raw.acl_deluser("limited")


async def rules(raw: redis.asyncio.Redis, *more: str) -> None:
    await raw.execute_command(*acl.setuser(raw, "limited", *acl.EVERYTHING, *more))


def url_of(server: RedisServer) -> str:
    return f"redis://limited:secret@{server.host}:{server.port}/0"


@pytest.mark.parametrize(
    ("line", "transient", "says"),
    [
        ("TRYAGAIN Multiple keys request during rehashing of slot", True, "TRYAGAIN"),
        ("LOADING Redis is loading the dataset in memory", True, "loading"),
        ("BUSY Redis is busy running a script. You can only call SCRIPT KILL", True, "BUSY"),
        ("OOM command not allowed when used memory > 'maxmemory'.", True, "maxmemory"),
        ("READONLY You can't write against a read only replica.", True, "master"),
        ("MASTERDOWN Link with MASTER is down", True, "MASTERDOWN"),
        ("CLUSTERDOWN The cluster is down", True, "CLUSTERDOWN"),
        ("MISCONF Redis is configured to save RDB snapshots", True, "MISCONF"),
        ("NOREPLICAS Not enough good replicas to write.", True, "NOREPLICAS"),
        ("NOPERM User bob has no permissions to run the 'evalsha' command", False, "ACL"),
        ("ERR The user executing the script can't run this command or subcommand script: 5", False, "ACL"),
        ("NOAUTH Authentication required.", False, "password"),
        ("WRONGTYPE Operation against a key holding the wrong kind of value", False, "another name"),
        (
            "ERR user_script:18: WRONGVERSION 0.2 aiolock:lock:{a b} script: 5f, on @user_script:18.",
            False,
            "'a b' is used",
        ),
        ("ERR user_script:18: WRONGVERSION 0.4 a:b:rw:{c}:state script: 5f", False, "key 'a:b:rw:{c}:state', or"),
        (
            "ERR user_script:12: BADSTATE aiolock:rw:{a b}:state script: 5f",
            False,
            "delete the key 'aiolock:rw:{a b}:state'",
        ),
        ("MOVED 3999 127.0.0.1:6381", False, "cluster"),
        ("ERR something else", False, "something else"),
        ("ERR Error running script (call to f_1): @user_script:1: WRONGTYPE Operation against", False, "another name"),
        ("ERR Error running script (call to f_1): @user_script: 7: -OOM command not allowed", True, "maxmemory"),
    ],
)
def test_codes(line: str, transient: bool, says: str) -> None:
    error = failures.refused("order:42", "acquire", ErrorReply(line))
    assert error.transient is transient
    assert says in str(error)
    assert error.name == "order:42"


@pytest.mark.parametrize(
    ("line", "ends"),
    [
        ("ERR Error running script (call to f_9): @user_script:1: @user_script: 1: The user executing the script can't "
         "run this command or subcommand", "subcommand (which calls EXISTS and GET)"),
        ("NOPERM User u has no permissions to run the 'get' command script: 9, on @user_script:1.", "user_script:1."),
    ],
    ids=["Redis 6.0", "Redis 7"],
)  # fmt: skip
def test_what_a_line_of_a_script_calls(line: str, ends: str) -> None:
    """Kept by `_called`: one of them is denied, and Redis 6.0 does not say which."""
    lua = "local busy, state = redis.call('EXISTS', KEYS[2]), redis.call('GET', KEYS[1])\nreturn busy"
    error = failures.refused("order:42", "acquire", ErrorReply(line), lua)
    assert str(error).partition(" (allow")[0].endswith(ends)


def test_a_lost_connection_says_why() -> None:
    cause = ConnectionResetError(104, "Connection reset by peer")
    error = failures.lost("order:42", "acquire of lock 'order:42'", cause)
    assert (error.name, error.transient, error.__cause__) == ("order:42", True, cause)
    assert "reset by peer" in str(error)
    assert "lost before acquire of lock 'order:42'" in str(
        failures.lost("order:42", "acquire of lock 'order:42'", None)
    )


async def test_a_command_denied_inside_a_script(
    connect: Connect, limited: redis.asyncio.Redis, redis_server: RedisServer
) -> None:
    await rules(limited, "-rpush")
    backend = await connect(url_of(redis_server))
    error = await result(backend.run(append("x")))
    assert isinstance(error, BackendError)
    assert not error.transient
    assert "ACL" in str(error)
    assert await backend.run(echo("x")) == "x"


async def test_a_refused_subscribe_shifts_no_reply(
    connect: Connect, limited: redis.asyncio.Redis, redis_server: RedisServer
) -> None:
    await rules(limited, "resetchannels", "&allowed*")
    backend = await connect(url_of(redis_server))
    woken: list[object] = []
    first = [backend.run(echo(i)) for i in range(3)]
    allowed = backend.subscribe("allowed", woken.append)
    refused = backend.subscribe("forbidden", woken.append)
    second = [backend.run(echo(i)) for i in range(3, 6)]
    assert [await future for future in first + second] == list("012345")
    await allowed
    error = await result(refused)
    assert isinstance(error, BackendError)
    assert not error.transient
    assert "ACL" in str(error)
    assert woken == [None]
    backend.unsubscribe("forbidden")  # forgotten: nothing is sent
    assert await backend.run(echo("in step")) == "in step"


async def test_denied_client_commands_are_no_obstacle(
    connect: Connect,
    limited: redis.asyncio.Redis,
    redis_server: RedisServer,
    reconnected: object,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await rules(limited, "-client", "-info")
    backend = await connect(url_of(redis_server))
    assert await backend.run(echo("x")) == "x"
    assert "CLIENT KILL" not in caplog.text  # without an id there is nothing to kill


async def test_denied_client_kill_is_logged_once(
    connect: Connect, limited: redis.asyncio.Redis, redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    await rules(limited, "-client|kill")
    backend = await connect(url_of(redis_server))
    for opened in (2, 3):
        await limited.client_kill_filter(user="limited")
        assert await result(backend.run(echo("x", lambda: True))) == "x"
        assert backend._dialer.opened == opened
    assert caplog.text.count("CLIENT KILL was refused") == 1


async def test_a_server_that_evicts_causes_a_warning(own_server: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    async with redis.asyncio.Redis.from_url(own_server.url) as raw:
        for limit, policy, warned in (
            ("0", "allkeys-lru", 0),
            ("100mb", "noeviction", 0),
            ("100mb", "volatile-ttl", 1),
        ):
            await raw.config_set("maxmemory", limit)
            await raw.config_set("maxmemory-policy", policy)
            backend = RedisBackend(own_server.url)
            await backend.open(timeout=5, reconnected=lambda: None)
            await backend.aclose()
            assert caplog.text.count("evicts") == warned
    assert "volatile-ttl" in caplog.text


async def test_out_of_memory_passes(own_server: RedisServer, connect: Connect) -> None:
    backend = await connect(own_server.url)
    async with redis.asyncio.Redis.from_url(own_server.url) as raw:
        assert await backend.run(append(1)) == 1
        await raw.config_set("maxmemory", "1")
        error = await result(backend.run(append(2)))
        assert isinstance(error, BackendError)
        assert error.transient
        await raw.config_set("maxmemory", "0")
    assert await backend.run(append(2)) == 2
    assert backend._dialer.opened == 1


async def test_a_wrong_password(limited: redis.asyncio.Redis, redis_server: RedisServer) -> None:
    await rules(limited)
    for user in ("limited", "nobody"):
        backend = RedisBackend(f"redis://{user}:wr0ng@{redis_server.host}:{redis_server.port}/0")
        with pytest.raises(BackendError) as caught:
            await backend.open(timeout=5, reconnected=lambda: None)
        assert not caught.value.transient, user
        assert isinstance(caught.value.__cause__, redis.exceptions.AuthenticationError)
        assert "wr0ng" not in str(caught.value) + repr(backend)


async def test_a_password_that_is_missing(own_server: RedisServer) -> None:
    """On Redis 7.0 nothing that redis-py sends tells of it without HELLO: kept by `_judge_readiness`."""
    async with redis.asyncio.Redis.from_url(own_server.url) as raw:
        await raw.config_set("requirepass", "secret")
        for pushes in (True, False):  # with HELLO, and without
            with pytest.raises(BackendError, match="refused the credentials") as caught:
                await RedisBackend(own_server.url, pushes=pushes).open(timeout=5, reconnected=lambda: None)
            assert not caught.value.transient
        await raw.config_set("requirepass", "")


def test_an_old_server_is_a_configuration_error() -> None:
    error = failures.unconnected(ResponseError("unknown command `HELLO`, with args beginning with: `3`, "))
    assert isinstance(error, ConfigurationError)
    assert "RESP3 (unknown command `HELLO`, with args beginning with: `3`): Redis 6 or newer is needed;" in str(error)


@pytest.mark.parametrize("words", ["ERR unknown command 'EVALSHA'", "ERR unsupported command 'evalsha'"])
def test_a_proxy_that_does_not_know_evalsha(words: str) -> None:
    """Envoy says it in its own words; then each request carries its script. Kept by `_UNKNOWN`."""
    assert failures.not_run_by(ErrorReply(words)) == "evalsha"
