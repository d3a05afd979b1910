"""The commands that look: what they show is what the server has, and they change nothing."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from aiolock import Lease, LockManager, LossReason
from aiolock.cli.text import columns
from aiolock.recipes import once
from aiolock.testing.server import RedisServer
from tests.docs.test_acl import rules
from tests.support import locks as kept
from tests.support import redis_cli

from .conftest import CommandLine, with_one_away

PLACE = ("position", "wants", "alive", "process")
ODD_NAMES = ["a{b}c", "50%", "x*y", "[z]", "é\n2", "a:b:dead:c", "last\\"]


@asynccontextmanager
async def scene(url: str) -> AsyncIterator[LockManager]:
    """A lock, a read-write lock and a semaphore that are held and waited for, a latch, a condition, and a job."""
    async with LockManager(url) as one, LockManager(url) as two, AsyncExitStack() as held:
        await held.enter_async_context(one.lock("order:42", metadata="charge"))
        await held.enter_async_context(one.rw_lock("catalog").read)
        await held.enter_async_context(two.rw_lock("catalog").read)
        await held.enter_async_context(one.semaphore("api", 5, slots=True).acquire(3))
        await held.enter_async_context(two.semaphore("api", 5).acquire(1))
        await one.latch("ready", 3).count_down()
        await once(one, "report", window=60.0, repeat="never").run(nothing)
        changed = two.condition(two.lock("jobs"))

        async def until_changed() -> None:
            async with two.lock("jobs"):
                await changed.wait()

        waiting = [
            asyncio.ensure_future(one)
            for one in (
                two.lock("order:42").acquire(),
                two.fair_lock("order:42").acquire(),
                two.rw_lock("catalog").write.acquire(),
                two.semaphore("api", 5).acquire(4),
                until_changed(),
            )
        ]
        async with asyncio.timeout(20):
            while True:
                standings = [await look() for look in (two.fair_lock("order:42").info, two.rw_lock("catalog").info)]
                places = [getattr(standing, "waiters", 0) for standing in standings]
                with redis_cli.client(url) as link:
                    if places == [2, 1] and link.exists("aiolock:condition:{jobs}"):
                        break
                await asyncio.sleep(0.01)
        yield one
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)


async def nothing(lease: Lease) -> None: ...


async def seen(cli: CommandLine, *words: str) -> Any:
    """What a command says as JSON."""
    result = await asyncio.to_thread(cli, *words, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


async def test_since_when(cli: CommandLine) -> None:
    """Of a lock, a writer, permits and a run: that is in their fence. Readers share one, so of them nobody knows."""
    began, ended = time.monotonic(), asyncio.Event()

    async def work(lease: Lease) -> None:
        await ended.wait()

    async with AsyncExitStack() as held:
        locks = await held.enter_async_context(LockManager(cli.url))
        for name in (locks.lock("a"), locks.rw_lock("b").write, locks.semaphore("c", 2), locks.rw_lock("d").read):
            await held.enter_async_context(name)
        run = asyncio.ensure_future(once(locks, "e", window=60.0, repeat="never").run(work))
        while len(views := await seen(cli, "ls")) < 6:  # the run has a lock, too
            pass
        (deep,) = await seen(cli, "info", "c")
        most = time.monotonic() - began
        ended.set()
        await run
    ages = {(view["kind"], view["name"]): view["held_for"] for view in views}
    assert ages.pop(("rw", "d")) is None
    assert set(ages) == {("lock", "a"), ("rw", "b"), ("semaphore", "c"), ("once", "e"), ("lock", "e")}
    assert all(0 < age <= most for age in [*ages.values(), deep["holders"][0]["held_for"]]), ages


def test_a_list_of_nothing_says_so(cli: CommandLine) -> None:
    """On standard error, as it is no name; not in JSON."""
    for words, told in (
        (("ls",), "no name is held or waited for"),
        (("ls", "order:*"), "no name that matches 'order:*' is held or waited for"),
        (("ls", "--all", "order:*"), "no name that matches 'order:*' is known"),
    ):
        result = cli(*words)
        assert (result.exit_code, result.stdout, result.stderr) == (0, "", f"aiolock: {told}\n")
    result = cli("ls", "--json")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "[]\n", "")


async def test_what_is_there(cli: CommandLine) -> None:
    """With the rights of the page alone: none of them can change anything."""
    rule = rules()["viewers"]
    with redis_cli.client(cli.url) as link:
        link.acl_log_reset()
        link.execute_command(*(word.replace(">password", ">secret") for word in rule))
    reader = CommandLine(cli.url.replace("redis://", "redis://viewer:secret@"), cli.folder)
    async with scene(cli.url):
        listed = {(name["kind"], name["name"]): name for name in await seen(reader, "ls")}
        (lock,) = await seen(reader, "info", "order:42")
        (catalog,) = await seen(reader, "info", "catalog")
        (api,) = await seen(reader, "info", "api")
        (latch,) = await seen(reader, "info", "ready")
        _, condition = await seen(reader, "info", "jobs")
        _, run = await seen(reader, "info", "report")
    with redis_cli.client(cli.url) as link:
        assert link.acl_log() == []
        link.acl_deluser("viewer")
    assert {name: (facts["state"], facts["used"], facts["waiting"]) for name, facts in listed.items()} == {
        ("lock", "order:42"): ("held", 1, 2),
        ("rw", "catalog"): ("read", 2, 1),
        ("semaphore", "api"): ("held", 4, 1),
        ("latch", "ready"): ("closed", 2, 0),
        ("condition", "jobs"): ("waiting", 0, 1),
    }
    assert lock["metadata"] == "charge"
    assert 25 < lock["ttl"] <= 30
    assert [tuple(place[fact] for fact in PLACE) for place in lock["queue"]] == [
        (1, "lock", True, lock["process"]),  # the other manager is of this process, too
        (2, "task", True, lock["process"]),
    ]
    assert 0 < lock["oldest_wait"] < 20
    assert [len(catalog["holders"]), catalog["queue"][0]["wants"]] == [2, "write"]
    assert sorted((holder["permits"], holder["slots"]) for holder in api["holders"]) == [(1, []), (3, [0, 1, 2])]
    assert [(place["wants"], place["permits"]) for place in api["queue"]] == [("permits", 4)]
    assert {holder["process"] for holder in (*api["holders"], *catalog["holders"])} == {lock["process"]}
    waits = catalog["queue"][0]
    assert [holder["process"] for holder in catalog["holders"] if holder["manager"] == waits["manager"]] == [
        waits["process"]
    ]
    assert waits["process"]
    assert (latch["used"], latch["capacity"]) == (2, 3)
    assert [(place["wants"], place["process"]) for place in condition["queue"]] == [("notification", lock["process"])]
    assert (run["kind"], run["state"]) == ("once", "succeeded")


async def test_a_lock_that_was_granted_and_not_asked_for(cli: CommandLine) -> None:
    """And those that wait for it, of which 0.2.0 does not say where they are."""
    with redis_cli.client(cli.url) as link:
        now = int(link.time()[0])  # type: ignore[index]
        ends = 1000 * (now + 60)
        kept.change(link, "a", owner="m:1", fence=7, expires=ends, process="web-3:4711")
        link.zadd("aiolock:lock:{a}:queue", {"n:1": now * 1_000_000, "o:f2": now * 1_000_000 + 1, "p:+3": 2e15})
        link.hset("aiolock:lock:{a}:alive", mapping={"n": f"{ends} web 4:1", "o": "1+"})
    (lock,) = await seen(cli, "info", "a")
    people = await asyncio.to_thread(cli, "info", "a")
    assert (lock["state"], lock["process"], lock["holders"][0]["process"]) == ("granted", *["web-3:4711"] * 2)
    assert [tuple(place[fact] for fact in PLACE) for place in lock["queue"]] == [
        (1, "lock", True, "web 4:1"),
        (2, "task", False, ""),
        (3, "lock", False, ""),
    ]
    assert people.stdout.startswith("lock a: granted\n  granted to  web-3:4711\n")
    assert "depth" not in people.stdout


async def test_people_see_the_same(cli: CommandLine) -> None:
    """And no id of an owner, with which one could release."""
    async with scene(cli.url):
        listed = await asyncio.to_thread(cli, "ls", "o*")
        told = [await asyncio.to_thread(cli, "info", name) for name in ("order:42", "catalog", "api", "ready", "jobs")]
        with redis_cli.client(cli.url) as link:
            owner = link.hget("aiolock:lock:{order:42}", "owner").decode()  # type: ignore[union-attr]
    assert [line.split()[:3] for line in listed.stdout.splitlines()] == [
        ["KIND", "NAME", "STATE"],
        ["lock", "order:42", "held"],
    ]
    text = "".join(result.stdout for result in told)
    for part in ("lock order:42: held", "charge", "write", "4 of 5 taken", "4 permits", "2 of 3", "notification"):
        assert part in text
    assert owner.partition(":")[0] not in text


async def test_it_agrees_with_the_library(cli: CommandLine) -> None:
    async with scene(cli.url) as locks:
        (lock,), (catalog,), (api,) = [await seen(cli, "info", name) for name in ("order:42", "catalog", "api")]
        own, readers, permits = [
            await look()
            for look in (locks.lock("order:42").info, locks.rw_lock("catalog").info, locks.semaphore("api", 5).info)
        ]
    assert own is not None
    assert readers is not None
    assert (own.holder, own.fence, own.depth) == (lock["process"], lock["fence"], lock["holders"][0]["depth"])
    assert (readers.readers, readers.fence, readers.waiters) == (catalog["used"], catalog["fence"], catalog["waiting"])
    assert (permits.used, permits.permits, permits.waiters) == (api["used"], api["capacity"], api["waiting"])


async def test_all_that_one_process_holds(cli: CommandLine) -> None:
    """A semaphore, too, that another took later. Kept by `_is_held_by`."""
    async with (
        LockManager(cli.url, name="checkout") as ours, LockManager(cli.url, name="billing") as theirs,
        ours.semaphore("api", 5), theirs.semaphore("api", 5), ours.lock("order:42"), theirs.lock("order:7"),
    ):  # fmt: skip
        found = await seen(cli, "ls", "--holder", "checkout@*")
        assert [view["name"] for view in found] == ["api", "order:42"]
        result = await asyncio.to_thread(cli, "ls", "--holder", "shipping@*")
    assert (result.exit_code, result.stderr) == (0, "aiolock: no name of 'shipping@*' is held or waited for\n")
    assert cli("ls", "--redisson", "--holder", "x").exit_code == 2


async def test_odd_names(cli: CommandLine) -> None:
    """Each is found by its own name; those of another namespace, of other programs, and tombstones are not."""
    async with (
        LockManager(cli.url) as locks,
        LockManager(cli.url, namespace="other") as others,
        AsyncExitStack() as held,
    ):
        for name in ODD_NAMES:
            await held.enter_async_context(locks.lock(name))
            assert [one["name"] for one in await seen(cli, "info", name)] == [name]
        await held.enter_async_context(others.lock("theirs"))
        with redis_cli.client(cli.url) as link:
            link.set("aiolock:lock:{gone}:dead:x", 1)
            link.hset("aiolock:lock:{foreign}", "a", "b")
            link.set(b"aiolock:lock:{\xff}", 1)
        assert sorted(one["name"] for one in await seen(cli, "ls")) == sorted(ODD_NAMES)
        assert [one["name"] for one in await seen(cli, "ls", "a{*")] == ["a{b}c"]
        assert [one["name"] for one in await seen(cli, "ls", "--namespace", "other")] == ["theirs"]
        assert len((await asyncio.to_thread(cli, "ls")).stdout.splitlines()) == len(ODD_NAMES) + 1


async def test_runs_that_have_ended(cli: CommandLine) -> None:
    """Who asks for them sees them. Breaks without ls(): `everything`."""
    async with LockManager(cli.url) as locks:
        await once(locks, "report", window=60.0, repeat="never").run(nothing)
    assert await seen(cli, "ls") == []
    assert [one["name"] for one in await seen(cli, "ls", "--kind", "once")] == ["report"]


async def test_free_names(cli: CommandLine) -> None:
    """One that was left by a process that vanished says so."""
    async with LockManager(cli.url, ttl=0.1) as locks:
        async with locks.lock("clean"):
            pass
        await (await locks.lock("left").acquire()).detach()
        await asyncio.sleep(0.15)
    assert (await asyncio.to_thread(cli, "ls")).exit_code == 0
    assert {one["name"]: one["state"] for one in await seen(cli, "ls", "--all")} == {
        "clean": "free",
        "left": "abandoned",
    }
    nobody = await asyncio.to_thread(cli, "info", "nobody")
    assert (nobody.exit_code, "nothing is known" in nobody.stderr) == (1, True)


async def test_a_big_server_is_scanned_in_steps(cli: CommandLine) -> None:
    """Never KEYS. Kept by Reader.scan."""
    with redis_cli.client(cli.url) as link:
        link.mset({f"key:{number}": 1 for number in range(3000)})
        link.config_resetstat()
        async with LockManager(cli.url) as locks, locks.lock("a"):
            assert [one["name"] for one in await seen(cli, "ls")] == ["a"]
        stats: Any = link.info("commandstats")
    assert stats["cmdstat_scan"]["calls"] >= 3
    assert "cmdstat_keys" not in stats


async def test_a_server_that_is_away_hides_no_other(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the other nodes of a cluster have is listed, and that it is not all. Kept by Namespace.find."""
    with_one_away(monkeypatch)
    async with LockManager(cli.url) as locks, locks.lock("a"):
        result = await asyncio.to_thread(cli, "ls")
    assert result.exit_code == 69
    assert [line.split()[1] for line in result.stdout.splitlines()] == ["NAME", "a"]
    assert result.stderr.startswith("aiolock: the list is not complete: ")
    assert "127.0.0.1:1" in result.stderr


@pytest.mark.parametrize("words", [("ls",), ("info", "a"), ("wait", "a"), ("top", "--once")])
def test_a_replica_is_recognised(own_server: RedisServer, tmp_path: Path, words: tuple[str, ...]) -> None:
    """What it has is late, and `wait` would say too early that a name is free. Kept by Reader._judge."""
    with redis_cli.client(own_server.url) as link:
        link.execute_command("REPLICAOF", "127.0.0.1", "1")
    told = CommandLine(own_server.url, tmp_path)(*words)
    assert (told.exit_code, "the server is a replica" in told.stderr) == (2, True)


def test_a_pattern_that_is_no_text(cli: CommandLine) -> None:
    result = cli("ls", "\udcff")
    assert (result.exit_code, "pattern" in result.stderr) == (2, True)


def test_columns() -> None:
    """Wide signs are counted as such, a terminal gets nothing that it would obey, and what is long moves no other."""
    rows = [("名前", "x"), ("a\x1b[2J名", "x"), ("a" * 100, "x"), ("b", "x")]
    assert columns(rows).splitlines() == [
        "名前" + " " * 8 + "x",
        "a\\x1b[2J名  x",
        "a" * 100 + "  x",
        "b" + " " * 11 + "x",
    ]


async def test_wait(cli: CommandLine) -> None:
    assert (await asyncio.to_thread(cli, "wait", "--timeout", "0", "free")).exit_code == 0
    async with LockManager(cli.url) as locks:
        async with locks.lock("a"):
            late = await asyncio.to_thread(cli, "wait", "--timeout", "50ms", "a")
            assert (late.exit_code, "not free" in late.stderr) == (75, True)
            patient = asyncio.ensure_future(asyncio.to_thread(cli, "wait", "--timeout", "20", "a"))
            await asyncio.sleep(0.1)
            assert not patient.done()
        assert (await patient).exit_code == 0
        latch = locks.latch("b", 1)
        assert (await asyncio.to_thread(cli, "wait", "--kind", "latch", "--timeout", "50ms", "b")).exit_code == 75
        await latch.count_down()
        assert (await asyncio.to_thread(cli, "wait", "--kind", "latch", "b")).exit_code == 0


def by_lock(locks: LockManager) -> Any:
    return locks.lock("a")


def by_writer(locks: LockManager) -> Any:
    return locks.rw_lock("a").write


def by_permit(locks: LockManager) -> Any:
    return locks.semaphore("a", 2)


@pytest.mark.parametrize(("kind", "made"), [("lock", by_lock), ("rw", by_writer), ("semaphore", by_permit)])
async def test_force_release(cli: CommandLine, kind: str, made: Callable[[LockManager], Any]) -> None:
    """It asks, unless it is told not to; the holder hears of it at once."""
    async with LockManager(cli.url) as locks:
        lease = await made(locks).acquire()
        assert (await asyncio.to_thread(cli, "force-release", "--kind", kind, "a")).exit_code == 2
        assert not lease.lost
        result = await asyncio.to_thread(cli, "force-release", "--kind", kind, "--yes", "--json", "a")
        assert json.loads(result.stdout) == {"name": "a", "kind": kind, "released": True}
        assert await asyncio.wait_for(lease.wait_lost(), 20) is LossReason.REVOKED
        assert (await asyncio.to_thread(cli, "force-release", "--kind", kind, "--yes", "a")).exit_code == 1


async def test_force_release_ends_what_it_has_shown(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the one who came in while someone thought about it. Kept by _end in aiolock/cli/force_release.py."""
    module = sys.modules["aiolock.cli.force_release"]
    async with LockManager(cli.url) as locks:
        lock = locks.lock("a")
        first = await lock.acquire()

        async def swap() -> Lease:
            await first.release()
            return await lock.acquire()

        loop = asyncio.get_running_loop()
        came = []
        monkeypatch.setattr(
            module, "_confirm", lambda *_: came.append(asyncio.run_coroutine_threadsafe(swap(), loop).result(20))
        )
        result = await asyncio.to_thread(cli, "force-release", "a")
        assert (result.exit_code, "meanwhile" in result.stderr) == (1, True)
        assert await lock.is_locked()
        await came[0].release()


async def test_force_release_of_all_that_match(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """It lists them first, and ends no other. Kept by _all in aiolock/cli/force_release.py."""
    module = sys.modules["aiolock.cli.force_release"]
    async with LockManager(cli.url) as locks:
        leases = [await locks.lock(name).acquire() for name in ("job:1", "job:2", "order:42")]
        other = await locks.semaphore("job:3", 2).acquire()
        assert (await asyncio.to_thread(cli, "force-release", "job:*")).exit_code == 2  # nobody can be asked
        monkeypatch.setattr(module, "_someone_is_there", lambda: True)
        result = await asyncio.to_thread(lambda: cli("force-release", "job:*", answer="n\n"))
        assert result.exit_code == 1
        assert all(name in result.stderr for name in ("job:1", "job:2", "End these 2?"))
        assert not any(lease.lost for lease in leases)
        result = await asyncio.to_thread(cli, "force-release", "--yes", "job:*")
        assert result.exit_code == 0
        assert [line.partition(",")[0] for line in result.stdout.splitlines()] == [
            "released lock job:1",
            "released lock job:2",
        ]
        assert [await asyncio.wait_for(lease.wait_lost(), 20) for lease in leases[:2]] == [LossReason.REVOKED] * 2
        result = await asyncio.to_thread(cli, "force-release", "--yes", "job:*")
        assert (result.exit_code, result.stderr) == (1, "aiolock: no lock that matches 'job:*' is held\n")
        result = await asyncio.to_thread(cli, "force-release", "--yes", "--json", r"job:\*")
        assert (result.exit_code, result.stdout) == (1, "[]\n")
        await leases[2].release()
        await other.release()


async def test_force_release_of_windows_and_latches(cli: CommandLine) -> None:
    """Runs of `once()` whose window is not over, and latches, though nobody holds them."""
    async with LockManager(cli.url) as locks:
        for name in ("report:1", "report:2"):
            await once(locks, name, window=60.0, repeat="never").run(nothing)
            await locks.latch(name, 2).count_down()
        await asyncio.to_thread(cli, "force-release", "--yes", "--kind", "once", "report:*")
        assert await once(locks, "report:1", window=60.0, repeat="never").last() is None
        result = await asyncio.to_thread(cli, "force-release", "--yes", "--json", "--kind", "latch", "report:1")
        assert json.loads(result.stdout) == {"name": "report:1", "kind": "latch", "released": True}
        assert await seen(cli, "ls", "--kind", "latch", "report:*") != []
        result = await asyncio.to_thread(cli, "force-release", "--yes", "--kind", "latch", "report:*")
        assert result.stdout == "released latch report:2\n"
        result = await asyncio.to_thread(cli, "force-release", "--yes", "--kind", "once", "report:1")
        assert (result.exit_code, result.stderr) == (1, "aiolock: nothing is known of once 'report:1'\n")


def test_force_release_leaves_those_of_another_version(cli: CommandLine) -> None:
    """And says so. Kept by _can_end: `refusal`."""
    with redis_cli.client(cli.url) as link:
        link.hset("aiolock:latch:{job:9}", mapping={"version": "0.9", "left": "1"})
        result = cli("force-release", "--yes", "--kind", "latch", "job:*")
        assert (result.exit_code, result.stdout) == (1, "")
        assert "is used by an aiolock with wire format 0.9" in result.stderr
        assert link.exists("aiolock:latch:{job:9}")


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 1), ("\n", 1)])
async def test_force_release_asks(cli: CommandLine, answer: str, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules["aiolock.cli.force_release"]  # in the package, the command has its name
    monkeypatch.setattr(module, "_someone_is_there", lambda: True)
    async with LockManager(cli.url) as locks:
        lease = await locks.lock("a").acquire()
        result = await asyncio.to_thread(lambda: cli("force-release", "a", answer=answer))
        assert result.exit_code == code
        assert "lock a: held" in result.stderr
        assert await locks.lock("a").is_locked() == bool(code)
        lease.release()
