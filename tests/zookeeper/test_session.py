"""A session of our own client, beside those of kazoo."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from kazoo.client import KazooClient

from aiolock.backends.coordinator.store import Away
from aiolock.backends.zookeeper import jute
from aiolock.backends.zookeeper.address import ZooKeeperAddress
from aiolock.backends.zookeeper.jute import Answered, Code, Mode, Op
from aiolock.backends.zookeeper.link import Link
from aiolock.backends.zookeeper.session import Session, lag, needed
from aiolock.clock import SystemClock
from aiolock.errors import AiolockError
from tests.support.silent_zookeeper import SilentZooKeeper
from tests.support.zookeeper import ZooKeeper

ANYONE = jute.acl("world", "anyone")


class Told:
    """What a session says of itself."""

    def __init__(self) -> None:
        self.events: list[tuple[int, bool]] = []
        self.lost: list[tuple[AiolockError, bool]] = []
        self.backs = 0
        self.changed = asyncio.Event()

    def hear(self, watch: int, gone: bool) -> None:
        self.events.append((watch, gone))
        self.changed.set()

    def lose(self, error: AiolockError, away: bool) -> None:
        self.lost.append((error, away))
        self.changed.set()

    def back(self) -> None:
        self.backs += 1
        self.changed.set()

    async def until(self, check: Callable[[], object]) -> None:
        async with asyncio.timeout(20):
            while not check():
                self.changed.clear()
                await self.changed.wait()


@asynccontextmanager
async def opened(url: str, timeout: float = 6.0, ends: bool = True) -> AsyncIterator[tuple[Session, Told]]:
    told = Told()
    made = Session(ZooKeeperAddress(url), timeout, SystemClock(), told.lose, told.back)
    try:
        await made.open()
        yield made, told
    finally:
        await made.aclose(ends)


def make(session: Session, path: str, mode: Mode, data: bytes = b"") -> asyncio.Future[object]:
    return session.ask(Op.CREATE2, jute.create(path, data, ANYONE, mode))  # type: ignore[return-value]


@pytest.mark.parametrize("ttl", [0.5, 1.0, 3.0, 10.0, 30.0, 35.0, 600.0])
def test_a_session_is_long_enough(ttl: float) -> None:
    """As long as needed, and no longer. The default ttl has room below the longest session that servers give."""
    assert needed(ttl) - lag(needed(ttl)) == pytest.approx(ttl)
    assert needed(30.0) <= 40.0


async def test_answers_come_in_order(server: ZooKeeper) -> None:
    """Also errors. What is asked for is done in that order."""
    async with opened(server.url) as (session, _):
        asked = [
            session.ask(Op.GET_CHILDREN, jute.read("/a")),
            make(session, "/a", Mode.PERSISTENT),
            make(session, "/a/x-", Mode.EPHEMERAL_SEQUENTIAL),
            make(session, "/a/x-", Mode.EPHEMERAL_SEQUENTIAL),
            session.ask(Op.GET_CHILDREN, jute.read("/a")),
        ]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert isinstance(answers[0], Answered)
        assert answers[0].code == Code.NO_NODE
        assert sorted(answers[-1].body.texts()) == ["x-0000000000", "x-0000000001"]
    assert server.children("/a") == []  # it has ended


async def test_a_proof_is_a_write(server: ZooKeeper) -> None:
    """So most servers must take it. Kept by `Session.prove`."""
    async with opened(server.url) as (session, _):
        first, second = await session.prove(), await session.prove()
        assert second.zxid == first.zxid + 1
        assert second.body.failure() == 0
        assert session.fresh


async def test_a_read_proves_nothing(server: ZooKeeper) -> None:
    """Any server answers it. Kept by `Op.writes`."""
    async with opened(server.url) as (session, _):
        await session.prove()
        before = session.renewed
        await session.ask(Op.GET_CHILDREN, jute.read("/"))
        await session.ask(Op.SYNC, jute.text("/"))
        assert session.renewed == before
        await session.prove()
        assert session.renewed > before


async def test_all_or_nothing(server: ZooKeeper) -> None:
    async with opened(server.url) as (session, _):
        await make(session, "/a", Mode.PERSISTENT, b"1")
        failing = jute.multi([(Op.SET_DATA, jute.set_data("/a", b"2")), (Op.DELETE, jute.delete("/b"))])
        assert (await session.ask(Op.MULTI, failing)).body.failure() == Code.NO_NODE
        assert server.client.get("/a")[0] == b"1"
        working = jute.multi([(Op.SET_DATA, jute.set_data("/a", b"2")), (Op.CHECK, jute.check("/a"))])
        assert (await session.ask(Op.MULTI, working)).body.failure() == 0
        assert server.client.get("/a")[0] == b"2"


async def test_a_watch(server: ZooKeeper) -> None:
    """It tells once: of what is gone, and of what has changed, also before it was set."""
    async with opened(server.url) as (session, told):
        first = await make(session, "/a", Mode.PERSISTENT)
        assert session.watches is not None
        session.watches.add("/a", first.zxid, lambda gone: told.hear(1, gone))  # type: ignore[attr-defined]
        session.watches.add("/a", first.zxid, lambda gone: told.hear(2, gone), deletes_only=True)  # type: ignore[attr-defined]
        dropped = session.watches.add("/a", first.zxid, lambda gone: told.hear(3, gone))  # type: ignore[attr-defined]
        session.watches.drop("/a", dropped)
        await session.prove()
        assert told.events == []
        await asyncio.to_thread(server.client.set, "/a", b"x")
        await told.until(lambda: told.events == [(1, False)])
        session.watches.add("/a", first.zxid, lambda gone: told.hear(4, gone))  # type: ignore[attr-defined]
        await told.until(lambda: told.events[1:] == [(4, False)])
        await asyncio.to_thread(server.client.delete, "/a")
        await told.until(lambda: told.events[2:] == [(2, True)])
        session.watches.add("/a", first.zxid, lambda gone: told.hear(5, gone))  # type: ignore[attr-defined]
        await told.until(lambda: told.events[3:] == [(5, True)])


async def test_it_goes_on_with_another_connection(server: ZooKeeper) -> None:
    """What got no answer says so; its nodes are there. Kept by `jute.connect`: id and password."""
    async with opened(server.url) as (session, told):
        await make(session, "/a", Mode.EPHEMERAL)
        unanswered = session.prove()
        assert session._link is not None
        session._link.fail(ConnectionError("the test has ended it"))
        with pytest.raises(Away) as caught:
            await unanswered
        assert caught.value.ran
        with pytest.raises(Away) as later:
            await session.prove()
        assert not later.value.ran
        before = session.renewed
        await told.until(lambda: told.backs)
        assert not session.over
        assert [away for _, away in told.lost] == [False]
        assert session.renewed == before  # one server knows of it: that proves nothing
        assert server.children("/")[:1] == ["a"]
        await session.prove()


async def test_it_is_closed_by_another(server: ZooKeeper) -> None:
    """As when it has expired: it is over for good."""
    async with opened(server.url) as (session, told):
        await make(session, "/a", Mode.EPHEMERAL)
        other = KazooClient(server.hosts, client_id=(session._id, session._password))
        await asyncio.to_thread(other.start, 20)
        await asyncio.to_thread(other.stop)
        other.close()
        await told.until(lambda: session.over and told.backs)
        assert session.expiry == 0.0
        with pytest.raises(Answered, match="session expired"):
            await session.prove()
        await session.ready()
        assert "a" not in server.children("/")


async def test_a_server_that_offers_another_session() -> None:
    """Others than ZooKeeper's own do so instead of saying that it has expired. Kept by `Session._connect`."""
    async with (
        SilentZooKeeper() as server,
        opened(f"zookeeper://127.0.0.1:{server.port}", ends=False) as (session, told),
    ):
        server.cut()
        await told.until(lambda: told.backs)
        assert not session.over
        server.session = 2
        server.cut()
        await told.until(lambda: told.backs == 2)
        assert session.over


async def test_a_server_that_is_silent() -> None:
    """Another one takes over: pings need answers. Kept by `Session._tick`."""
    async with (
        SilentZooKeeper() as server,
        opened(f"zookeeper://127.0.0.1:{server.port}", ends=False) as (session, told),
    ):
        server.pings = False
        await told.until(lambda: server.clients > 1)
        assert r"no answer within 0.5 s" in str(told.lost[0][0])
        server.pings = True
        asked = session.prove()  # it never answers
        with pytest.raises(Away):
            async with asyncio.timeout(20):
                await asked


@pytest.mark.parametrize(
    ("greeting", "why"),
    [(b"HTTP/1.1 400 Bad Request\r\n\r\n", "is it ZooKeeper"), (b"\0\0\0\1x", "cannot be reached")],
)
async def test_what_is_no_zookeeper(greeting: bytes, why: str) -> None:
    """Kept by `LARGEST`."""
    async with SilentZooKeeper() as server:
        server.greeting = greeting
        with pytest.raises(Away, match=why):
            async with opened(f"zookeeper://127.0.0.1:{server.port}"):
                pass


async def test_nobody_is_there() -> None:
    with pytest.raises(Away, match="is it up, and is this its address") as caught:
        async with opened("zookeeper://127.0.0.1:1"):
            pass
    assert not caught.value.ran
    assert caught.value.error.transient  # type: ignore[attr-defined]


async def test_a_user(server: ZooKeeper) -> None:
    """What it makes is its own."""
    url = server.url.replace("//", "//me:secret@")
    async with opened(url) as (session, _), opened(server.url) as (other, _):
        await session.ask(Op.CREATE2, jute.create("/a", b"", jute.acl("auth", ""), Mode.EPHEMERAL))
        with pytest.raises(Answered, match="no auth"):
            await other.ask(Op.GET_DATA, jute.read("/a"))
        await session.ask(Op.GET_DATA, jute.read("/a"))
        session._link.fail(ConnectionError("the test has ended it"))  # type: ignore[union-attr]
        await session.ready()
        await session.ask(Op.GET_DATA, jute.read("/a"))


async def test_one_timer(server: ZooKeeper) -> None:
    """However often it is connected anew. Kept by `Session._schedule`."""
    async with opened(server.url) as (session, told):
        timers = []
        for count in range(1, 4):
            timers.append(session._timer)
            session._link.fail(ConnectionError("the test has ended it"))  # type: ignore[union-attr]
            await told.until(lambda count=count: told.backs == count)  # type: ignore[misc]
        assert all(timer._handle.cancelled() for timer in timers if timer._handle)  # type: ignore[union-attr]
        assert len({id(timer) for timer in [*timers, session._timer]}) == 4


@pytest.mark.parametrize("error", [RuntimeError("unexpected"), UnicodeError("label too long")])
async def test_it_is_connected_again_whatever_happens(
    server: ZooKeeper, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Kept by `Session._connect`."""
    async with opened(server.url) as (session, told):

        async def fail(self: Link, *_: object) -> None:
            raise error

        monkeypatch.setattr(Link, "open", fail)
        session._link.fail(ConnectionError("the test has ended it"))  # type: ignore[union-attr]
        await told.until(lambda: len(told.lost) > 1)
        monkeypatch.undo()
        await told.until(lambda: told.backs)
        await session.prove()
