"""Host names are looked up without the threads of the loop, once at a time, and a known address serves meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import redis.asyncio
import redis.exceptions
import trustme

from aiolock.backends.redis import RedisBackend, ServerConnector
from aiolock.backends.resolver import Resolver
from aiolock.errors import BackendError
from aiolock.testing.server import RedisServer

from .calls import Log, echo
from .conftest import Connect
from .test_tls import encrypted

PATIENCE = 5.0
LOOK_UP = socket.getaddrinfo
Answers = Callable[..., Any]


class Names:
    """A resolver whose answers the test decides; numbers are no names."""

    def __init__(self) -> None:
        self.asked: int = 0
        self.answers: Answers = LOOK_UP
        self._served = threading.Event()
        self._served.set()

    def __call__(self, host: Any, port: Any, *args: Any, **options: Any) -> Any:
        if str(host)[0].isdecimal():
            return LOOK_UP(host, port, *args, **options)
        self.asked += 1
        answers = self.answers
        self._served.wait()
        return answers("127.0.0.1", port, *args, **options)

    def stall(self) -> None:
        """From now on nothing is answered."""
        self._served.clear()

    def refuse(self, code: int) -> None:
        """From now on this error is the answer."""

        def raises(*args: Any, **options: Any) -> Any:
            raise socket.gaierror(code, "as the test says")

        self.answers = raises

    def go_on(self) -> None:
        self._served.set()


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[Names]:
    names = Names()
    monkeypatch.setattr(socket, "getaddrinfo", names)
    yield names
    names.go_on()


@contextlib.contextmanager
def busy_executor() -> Iterator[None]:
    """The threads of the loop do something else."""
    over, pool = threading.Event(), ThreadPoolExecutor(1)
    asyncio.get_running_loop().set_default_executor(pool)
    pool.submit(over.wait)
    try:
        yield
    finally:
        over.set()
        pool.shutdown()


def looking_up() -> int:
    return sum(thread.name == "aiolock resolver" for thread in threading.enumerate())


def named(url: str) -> str:
    return url.replace("127.0.0.1", "redis.internal")


@pytest.mark.any_loop
async def test_the_threads_of_the_loop_are_not_needed(
    names: Names, redis_server: RedisServer, connect: Connect, raw: redis.asyncio.Redis, reconnected: Log
) -> None:
    with busy_executor():
        backend = await connect(named(redis_server.url))
        await raw.client_kill_filter(skipme=True)
        await reconnected.has(1)
        assert await backend.run(echo("x")) == "x"
    assert names.asked == 2


@pytest.mark.any_loop
async def test_nor_with_tls(names: Names, redis_server: RedisServer, connect: Connect, tmp_path: Path) -> None:
    """And the certificate is that of the name."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "authority.pem"))
    trust = f"?ssl_check_hostname=true&ssl_ca_certs={tmp_path / 'authority.pem'}"
    async with encrypted(redis_server, authority.issue_cert("redis.internal")) as url:
        with busy_executor():
            backend = await connect(named(url) + trust)
            assert await backend.run(echo("x")) == "x"
    async with encrypted(redis_server, authority.issue_cert("other.internal")) as url:
        with pytest.raises(BackendError, match=r"not valid for 'redis\.internal'"):
            await connect(named(url) + trust)


@pytest.mark.parametrize("scheme", ["redis", "rediss"])
async def test_nor_to_find_out_that_the_scheme_is_wrong(
    names: Names, redis_server: RedisServer, connect: Connect, scheme: str
) -> None:
    """Kept by Scheme._exchange."""
    async with encrypted(redis_server, trustme.CA().issue_cert("redis.internal")) as url:
        wrong = named(url if scheme == "redis" else redis_server.url).partition("://")[2]
        with busy_executor(), pytest.raises(Exception, match="write redis"):
            await connect(f"{scheme}://{wrong}")


async def test_the_last_address_serves_while_the_resolver_says_nothing(
    names: Names, redis_server: RedisServer, connect: Connect, raw: redis.asyncio.Redis, reconnected: Log
) -> None:
    """All attempts share one look-up, whose answer counts once it comes. Kept by `_known` and `_asked`."""
    backend = await connect(named(redis_server.url))
    names.stall()
    for count in range(1, 4):
        await raw.client_kill_filter(skipme=True)
        await reconnected.has(count)
        assert await backend.run(echo("x")) == "x"
        assert looking_up() == 1
    assert names.asked == 2


async def test_attempts_without_an_address_share_a_look_up(names: Names, redis_server: RedisServer) -> None:
    """Also if those before them were given up: each would leave a thread behind."""
    names.stall()
    connector = ServerConnector(named(redis_server.url))
    for _ in range(3):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await connector.connect()
    assert (names.asked, looking_up()) == (1, 1)
    connecting = asyncio.gather(connector.connect(), connector.connect())
    await asyncio.sleep(0)
    names.go_on()
    async with asyncio.timeout(PATIENCE):
        for link in await connecting:
            link.reset()
    assert names.asked <= 2


@pytest.mark.parametrize("code", [socket.EAI_AGAIN, socket.EAI_NONAME])
async def test_what_the_resolver_refuses(names: Names, redis_server: RedisServer, code: int) -> None:
    """The last address serves if it has no answer. If it says that there is no such name, that is the answer."""
    connector = ServerConnector(named(redis_server.url))
    (await connector.connect()).reset()
    names.refuse(code)
    if code == socket.EAI_AGAIN:
        (await connector.connect()).reset()
    else:
        with pytest.raises(redis.exceptions.ConnectionError, match=r"redis\.internal.*as the test says"):
            await connector.connect()
    names.answers = LOOK_UP
    (await connector.connect()).reset()


async def test_a_name_that_nobody_knows(names: Names) -> None:
    names.refuse(socket.EAI_NONAME)
    backend = RedisBackend("redis://redis.internal")
    with pytest.raises(BackendError, match=r"redis\.internal.*as the test says") as caught:
        await backend.open(timeout=PATIENCE, reconnected=lambda: None)
    assert caught.value.transient


@pytest.mark.any_loop
async def test_each_address_of_a_name_is_tried(names: Names, redis_server: RedisServer) -> None:
    """As `localhost` may be ::1 first, where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        nobody = closed.getsockname()
    bad = (socket.AF_INET, socket.SOCK_STREAM, 6, "", nobody)
    names.answers = lambda *args, **options: [bad, *LOOK_UP(*args, **options)]
    connector = ServerConnector(named(redis_server.url))
    (await connector.connect()).reset()
    names.answers = lambda *args, **options: [bad, bad]
    with pytest.raises(redis.exceptions.ConnectionError, match=rf"redis\.internal:{redis_server.port}.*{nobody[1]}"):
        await connector.connect()


@pytest.mark.any_loop
async def test_nothing_is_left_open_if_it_is_cancelled(names: Names, redis_server: RedisServer) -> None:
    """At each step of the loop; a socket that is left open is a ResourceWarning, and so an error."""
    connector = ServerConnector(named(redis_server.url))
    for steps in range(40):
        connecting = asyncio.ensure_future(connector.connect())
        for _ in range(steps):
            await asyncio.sleep(0)
        connecting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            (await connecting).reset()


async def test_a_thread_that_cannot_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next attempt asks again. Kept by Resolver._ask."""
    resolver = Resolver()

    def refuses(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuses)
        with pytest.raises(OSError, match=r"localhost.*can't start new thread"):
            await resolver.find("localhost", 1)
    assert await resolver.find("localhost", 1)


async def test_a_connection_that_never_opens(redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its socket is closed all the same; a ResourceWarning is an error. Kept by `open_on`."""

    async def raises(_: object) -> None:
        raise OSError("nothing was opened")

    monkeypatch.setattr(redis.asyncio.Connection, "connect", raises)
    connector = ServerConnector(redis_server.url)
    opened: list[socket.socket] = []
    real = connector._resolver.connect

    async def kept(host: str, port: int) -> socket.socket:
        opened.append(await real(host, port))
        return opened[-1]

    monkeypatch.setattr(connector._resolver, "connect", kept)
    with pytest.raises(OSError, match="nothing was opened"):
        await connector.connect()
    assert [one.fileno() for one in opened] == [-1]
