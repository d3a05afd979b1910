"""Fixtures of every test: real servers, event loops, and the check that nothing is left running."""

from __future__ import annotations

import asyncio
import gc
import importlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import redis.asyncio

from aiolock.testing.server import RedisServer

from .support import redis_cli, replication

SERVER_FIXTURES = {"redis_server", "own_server", "replicated", "own_pair", "three_servers"}
SETTLE_TURNS = 20
TESTS = Path(__file__).parent.resolve()

needing_server = 0
servers_met = 0
stray_errors: list[str] = []


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--uvloop", action="store_true", help="run every test on uvloop instead of asyncio's own loop")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "any_loop: run on asyncio's own loop and on uvloop")
    config.addinivalue_line("markers", "short_ttl: too short to wait for a replica")
    config.addinivalue_line("markers", "not_polling(why): what it checks is not there, or no different, under polling")


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    everywhere = item.get_closest_marker("any_loop") is not None
    factories: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {}
    if everywhere or not config.getoption("--uvloop"):
        factories["asyncio"] = asyncio.new_event_loop
    if everywhere or config.getoption("--uvloop"):
        factories["uvloop"] = importlib.import_module("uvloop").new_event_loop
    return factories


# A suite that met no server proves nothing about one, however green.


def pytest_collection_finish(session: pytest.Session) -> None:
    global needing_server
    needing_server = sum(bool(SERVER_FIXTURES & set(getattr(item, "fixturenames", ()))) for item in session.items)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    config = session.config
    met = servers_met + getattr(config, "workers_met", 0)
    if hasattr(config, "workeroutput"):  # a worker of pytest-xdist: its controller judges
        config.workeroutput["servers_met"] = met
        return
    gc.collect()
    folders = {Path(given).resolve() for given in config.getoption("file_or_dir")} - {TESTS, TESTS.parent}
    whole = not (folders or config.getoption("keyword") or config.getoption("markexpr"))
    complaint = ""
    if stray_errors:
        complaint = "an error nobody looked at:\n" + "\n".join(stray_errors)
    elif met == 0 and (needing_server or whole):
        complaint = "no test met a real server"
    if complaint and exitstatus == pytest.ExitCode.OK and not config.option.collectonly:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        config.stash[COMPLAINT] = complaint


COMPLAINT = pytest.StashKey[str]()


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    complaint = config.stash.get(COMPLAINT, "")
    if complaint:
        terminalreporter.section("failed as a whole", red=True)
        terminalreporter.line(complaint)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    met = getattr(node, "workeroutput", {}).get("servers_met", 0)
    node.config.workers_met = getattr(node.config, "workers_met", 0) + met


def meet(server: RedisServer) -> RedisServer:
    global servers_met
    servers_met += 1
    return server


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """One server for the whole run; leave it running, and as it was configured."""
    with RedisServer.start() as server:
        yield meet(server)


@pytest.fixture
def own_server() -> Iterator[RedisServer]:
    """A server of the test's own, to kill, freeze, restart and configure."""
    with RedisServer.start(owned=True) as server:
        yield meet(server)


@pytest.fixture(scope="session")
def shared_pair() -> Iterator[replication.Pair]:
    """A master and a replica for the whole run."""
    with replication.pair() as pair:
        meet(pair.master)
        yield pair


@pytest.fixture
def replicated(shared_pair: replication.Pair) -> Iterator[replication.Pair]:
    """The shared master, without a key in it, and its replica, which may be frozen and cut off, but not killed."""
    redis_cli.flush(shared_pair.url)
    yield shared_pair
    shared_pair.calm()


@pytest.fixture
def own_pair() -> Iterator[replication.Pair]:
    """A master and a replica of the test's own, to kill."""
    with replication.pair() as pair:
        meet(pair.master)
        yield pair


@pytest.fixture(scope="session")
def three_servers() -> Iterator[list[RedisServer]]:
    """Three for the whole run, for quorums; leave them running."""
    with (
        RedisServer.start(owned=True) as one,
        RedisServer.start(owned=True) as two,
        RedisServer.start(owned=True) as three,
    ):
        yield [meet(server) for server in (one, two, three)]


@pytest.fixture
def three_urls(three_servers: list[RedisServer]) -> list[str]:
    """URLs of the three, without a key in them."""
    for server in three_servers:
        redis_cli.flush(server.url)
    return [server.url for server in three_servers]


@pytest.fixture
def redis_url(redis_server: RedisServer) -> str:
    """URL of the shared server, without a key in it."""
    redis_cli.flush(redis_server.url)
    return redis_server.url


@pytest.fixture
async def raw(redis_url: str) -> AsyncIterator[redis.asyncio.Redis]:
    """A plain client of the shared server, which never sends twice."""
    client = redis_cli.async_client(redis_url)
    yield client
    await client.aclose()


@pytest.fixture
async def commandstats(raw: redis.asyncio.Redis) -> redis_cli.CommandStats:
    """What the shared server executed since the test began."""
    stats = redis_cli.CommandStats(raw)
    await stats.reset()
    return stats


@pytest.fixture(autouse=True)
def nothing_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that leaves a task running, or an exception that nobody retrieved.

    It is set up before every other fixture of an async test, so it looks after they were torn down.
    """
    if "_function_scoped_runner" not in request.fixturenames:
        yield
        return
    runner: asyncio.Runner = request.getfixturevalue("_function_scoped_runner")

    def note(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        stray_errors.append(f"{request.node.nodeid}: {context}")

    runner.get_loop().set_exception_handler(note)
    yield
    left = runner.run(tasks_left())
    errors = stray_errors[:]
    stray_errors.clear()
    assert not left, f"tasks left at the end of the test: {left}"
    assert not errors, f"errors nobody looked at: {errors}"


async def tasks_left() -> list[str]:
    """Tasks of the running loop that do not end within a few turns of it."""
    for _ in range(SETTLE_TURNS):
        left = asyncio.all_tasks() - {asyncio.current_task()}
        if not left:
            return []
        await asyncio.sleep(0)
    return [repr(task) for task in left]
