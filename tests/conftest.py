"""Fixtures for every test: real servers, event loops, and the check that nothing is left running."""

from __future__ import annotations

import asyncio
import functools
import gc
import importlib
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis.asyncio
import redis.utils
import trustme

from aiolock.testing.server import URL_VARIABLE, RedisServer

from .support import in_memory, redis_cli, replication
from .support.cluster import Cluster, start_cluster
from .support.sentinels import SentinelSet, start_sentinels
from .support.shares import shared_out

# For each connection redis-py reads its own version from the files of the package: a quarter of what a test costs.
redis.utils.get_lib_version = functools.cache(redis.utils.get_lib_version)

SERVER_FIXTURES = {
    *("redis_server", "own_server", "replicated", "own_pair", "three_servers"),
    *("cluster", "own_cluster", "masters_only", "sentinels", "own_sentinels"),
}
SETTLE_TURNS = 20
TESTS = Path(__file__).parent.resolve()

WORKERS_PER_CORE = 3  # most tests wait, for servers and for clocks
MOST_WORKERS = 12

needing_server = 0
servers_met = 0
strays: list[tuple[str, str]] = []
"""What tests left behind, as (node id, error). Their loops report it when it is collected, which may be much later."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--uvloop", action="store_true", help="run every test on uvloop instead of asyncio's own loop")
    what = (
        "run what concerns clusters and Sentinels, what takes long, and the contract where `make test` runs parts of it"
    )
    parser.addoption("--topologies", action="store_true", help=what)
    what = "run only what `make test-slow` runs; without it, what `make test` runs, or the files that you name wholly"
    parser.addoption("--slow", action="store_true", help=what)
    parser.addoption("--redisson", action="store_true", help="run what shares locks with a JVM")


def pytest_configure(config: pytest.Config) -> None:
    if "TMPDIR" not in os.environ and in_memory.has_room():
        os.environ["TMPDIR"] = tempfile.tempdir = str(in_memory.FOLDER)  # also of servers and workers
    config.addinivalue_line("markers", "any_loop: run on asyncio's own loop and on uvloop")
    config.addinivalue_line("markers", "own_loop: run on asyncio's own loop only, as the command line does")
    config.addinivalue_line("markers", "takes_long: runs with --topologies only")
    config.addinivalue_line("markers", "mysql: runs on MariaDB or MySQL")
    config.addinivalue_line("markers", "slow: runs in `make test-slow` instead of `make test`")
    config.addinivalue_line("markers", "short_ttl: too short to wait for a replica")
    config.addinivalue_line("markers", "not_in_threads(why): what aiolock.sync promises otherwise")
    config.addinivalue_line("markers", "not_in_queues(why): what a store without scripts has not, or has otherwise")
    config.addinivalue_line("markers", "not_in_zookeeper(why): what it has otherwise than other stores with queues")
    config.addinivalue_line("markers", "not_polling(why): what it checks is not there, or no different, under polling")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage among tests and modules, now or later: they all stay, and half of the time went into it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--topologies"):
        choose(config, items, lambda item: item.get_closest_marker("takes_long") is None)
        slow: bool = config.getoption("--slow")
        if slow or not _few(config):
            choose(config, items, lambda item: (item.get_closest_marker("slow") is not None) == slow)
    if workers := os.environ.get("PYTEST_XDIST_WORKER_COUNT"):
        items[:] = shared_out(items, int(workers))


def choose(config: pytest.Config, items: list[pytest.Item], wanted: Callable[[pytest.Item], bool]) -> None:
    """Deselect the other items."""
    config.hook.pytest_deselected(items=[item for item in items if not wanted(item)])
    items[:] = [item for item in items if wanted(item)]


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    everywhere = item.get_closest_marker("any_loop") is not None
    factories: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {}
    uvloop = config.getoption("--uvloop") and item.get_closest_marker("own_loop") is None
    if everywhere or not uvloop:
        factories["asyncio"] = asyncio.new_event_loop
    if everywhere or uvloop:
        factories["uvloop"] = importlib.import_module("uvloop").new_event_loop
    return factories


# Parallel workers.


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """The number of workers for `-n auto`: several per core for many tests; none for a few, which end before workers
    are ready.
    """
    shared = os.environ.get(URL_VARIABLE)  # a server that each worker would flush
    if _few(config) or shared or config.option.collectonly:
        return 0
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(MOST_WORKERS, WORKERS_PER_CORE * cores)


def _few(config: pytest.Config) -> bool:
    """Whether you named files or tests, and no folder."""
    given = [Path(arg.partition("::")[0]) for arg in config.getoption("file_or_dir")]
    return bool(config.getoption("keyword") or (given and not any(path.is_dir() for path in given)))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    global needing_server, servers_met
    output = getattr(node, "workeroutput", None) or {}
    needing_server = max(needing_server, output.get("needing_server", 0))
    servers_met += output.get("servers_met", 0)
    strays.extend(output.get("strays", ()))


# A suite that met no server proves nothing about servers, however green it is. What a failed test leaves behind is
# reported with that failure; what a passed test leaves behind fails the run.


def pytest_collection_finish(session: pytest.Session) -> None:
    global needing_server
    needing_server = sum(bool(SERVER_FIXTURES & set(getattr(item, "fixturenames", ()))) for item in session.items)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        item.stash[FAILED] = True
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Collect what a failed test left behind now, before it turns up in the middle of another test."""
    done = yield
    if item.stash.get(FAILED, False):
        sys.last_exc = sys.last_value = sys.last_traceback = None  # type: ignore[assignment]
        with unraisables_of(item):
            gc.collect()
    return done


@contextmanager
def unraisables_of(item: pytest.Item) -> Iterator[None]:
    """Record what this test left behind: errors that cannot be raised, and that the garbage collector finds."""
    hook = sys.unraisablehook
    sys.unraisablehook = lambda found: strays.append((item.nodeid, repr(found.exc_value)))
    try:
        yield
    finally:
        sys.unraisablehook = hook


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    config = session.config
    gc.collect()
    if hasattr(config, "workeroutput"):  # a worker of pytest-xdist: its controller judges
        config.workeroutput |= {"needing_server": needing_server, "servers_met": servers_met, "strays": strays}
        return
    gc.unfreeze()  # plugins that look who refers to what they were given see all again
    folders = {Path(given).resolve() for given in config.getoption("file_or_dir")} - {TESTS, TESTS.parent}
    whole = not (folders or config.getoption("keyword") or config.getoption("markexpr"))
    met_none = servers_met == 0 and bool(needing_server or whole) and not config.option.collectonly
    config.stash[MET_NONE] = met_none
    if exitstatus == pytest.ExitCode.OK and (met_none or strays):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


FAILED = pytest.StashKey[bool]()
MET_NONE = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> Generator[None]:
    failed = {report.nodeid: report for key in ("failed", "error") for report in terminalreporter.getreports(key)}
    complaints = ["no test met a real server"] if config.stash.get(MET_NONE, False) else []
    for nodeid, error in strays:
        if nodeid in failed:
            failed[nodeid].sections.append(("left behind by this test", error))
        else:
            complaints.append(f"{nodeid} left this error behind, unretrieved: {error}")
    yield
    if complaints:
        terminalreporter.section("failed as a whole", red=True)
        for complaint in complaints:
            terminalreporter.line(complaint)


def meet(server: RedisServer) -> RedisServer:
    global servers_met
    servers_met += 1
    return server


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """One server for the whole run. Leave it running, with its configuration unchanged."""
    with RedisServer.start() as server:
        yield meet(server)


@pytest.fixture
def own_server() -> Iterator[RedisServer]:
    """A server for this test alone, to kill, freeze, restart and configure."""
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
    """The shared master without any key, and its replica. You may freeze the replica and cut it off, but not kill
    it.
    """
    redis_cli.flush(shared_pair.url)
    yield shared_pair
    shared_pair.calm()


@pytest.fixture
def own_pair() -> Iterator[replication.Pair]:
    """A master and a replica for this test alone, to kill."""
    with replication.pair() as pair:
        meet(pair.master)
        yield pair


@pytest.fixture(scope="session")
def three_servers() -> Iterator[list[RedisServer]]:
    """Three servers for the whole run, for quorums; leave them running."""
    with (
        RedisServer.start(owned=True) as one,
        RedisServer.start(owned=True) as two,
        RedisServer.start(owned=True) as three,
    ):
        yield [meet(server) for server in (one, two, three)]


@pytest.fixture
def three_urls(three_servers: list[RedisServer]) -> list[str]:
    """URLs of the three servers, without any key in them."""
    for server in three_servers:
        redis_cli.flush(server.url)
    return [server.url for server in three_servers]


@pytest.fixture(scope="session")
def shared_cluster() -> Iterator[Cluster]:
    """Three masters with a replica each, for the whole run. A machine that stands still does not make it fail over."""
    with start_cluster(node_timeout=10.0) as cluster:
        meet(cluster.nodes[0].server)
        yield cluster


@pytest.fixture
def cluster(shared_cluster: Cluster) -> Iterator[Cluster]:
    """The shared cluster without any key. You may order failovers, move slots, and freeze servers, but kill none."""
    shared_cluster.flush()
    yield shared_cluster
    shared_cluster.calm()


@pytest.fixture
def own_cluster() -> Iterator[Cluster]:
    """Three masters with a replica each for this test alone, which replace one that is silent for 1.5 s."""
    with start_cluster(node_timeout=1.5) as cluster:
        meet(cluster.nodes[0].server)
        yield cluster


@pytest.fixture(scope="session")
def shared_masters() -> Iterator[Cluster]:
    """Three masters without replicas, for the whole run."""
    with start_cluster(replicas=0, node_timeout=10.0) as cluster:
        meet(cluster.nodes[0].server)
        yield cluster


@pytest.fixture
def masters_only(shared_masters: Cluster) -> Iterator[Cluster]:
    """A cluster of three masters without any key; you may move slots."""
    shared_masters.flush()
    yield shared_masters
    shared_masters.calm()


@pytest.fixture(scope="session")
def shared_sentinels() -> Iterator[SentinelSet]:
    """A master, a replica and three Sentinels for the whole run."""
    with start_sentinels() as sentinels:
        meet(sentinels.servers[0])
        yield sentinels


@pytest.fixture
def sentinels(shared_sentinels: SentinelSet) -> Iterator[SentinelSet]:
    """The shared servers and Sentinels, without any key. You may order failovers and freeze, but kill none."""
    shared_sentinels.flush()
    yield shared_sentinels
    shared_sentinels.calm()


@pytest.fixture
def own_sentinels() -> Iterator[SentinelSet]:
    """A master, a replica and three Sentinels for this test alone."""
    with start_sentinels() as sentinels:
        meet(sentinels.servers[0])
        yield sentinels


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a server's certificate, and that of its issuer."""
    folder = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "authority.pem"))
    authority.issue_cert("127.0.0.1", "localhost").private_key_and_cert_chain_pem.write_to_path(
        str(folder / "cert.pem")
    )
    return folder


@pytest.fixture
def redis_url(redis_server: RedisServer) -> str:
    """URL of the shared server, without any key in it."""
    redis_cli.flush(redis_server.url)
    return redis_server.url


@pytest.fixture
async def raw(redis_url: str) -> AsyncIterator[redis.asyncio.Redis]:
    """A plain client of the shared server, which never sends anything twice."""
    client = redis_cli.async_client(redis_url)
    yield client
    await client.aclose()


@pytest.fixture
async def commandstats(raw: redis.asyncio.Redis) -> redis_cli.CommandStats:
    """What the shared server has executed since the test began."""
    stats = redis_cli.CommandStats(raw)
    await stats.reset()
    return stats


@pytest.fixture(autouse=True)
def nothing_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that leaves a task running, or an exception unretrieved.

    It is set up before every other fixture of an async test, so it looks after they were torn down.
    """
    if "_function_scoped_runner" not in request.fixturenames:
        yield
        return
    runner: asyncio.Runner = request.getfixturevalue("_function_scoped_runner")
    found: list[str] = []

    def note(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if looking:
            found.append(str(context))
        else:
            strays.append((request.node.nodeid, str(context)))

    looking = True
    runner.get_loop().set_exception_handler(note)
    yield
    left = runner.run(tasks_left())
    looking = False
    assert not left, f"tasks left at the end of the test: {left}"
    assert not found, f"unretrieved errors: {found}"


async def tasks_left() -> list[str]:
    """Tasks of the running loop that do not end within a few turns of it."""
    for _ in range(SETTLE_TURNS):
        left = asyncio.all_tasks() - {asyncio.current_task()}
        if not left:
            return []
        await asyncio.sleep(0)
    return [repr(task) for task in left]
