"""`aiolock run`: what becomes of the command, of the lock, and of the exit code."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from aiolock import LockLost, LockManager, LossReason
from aiolock.cli.job import Outlived
from aiolock.cli.job_control import Keeper
from aiolock.cli.run import Busy, Skipped, Wanted, _run
from aiolock.cli.text import plain
from aiolock.testing.server import RedisServer
from tests.support import redis_cli

from .conftest import CommandLine, alive, protected, unheard

pytestmark = pytest.mark.own_loop  # uvloop lets nobody else hear SIGCHLD

TRAP = "trap 'echo term >> note' TERM; echo $$ >> note; while :; do sleep 0.02; done"
"""A shell that notes its pid, and each SIGTERM, and goes on."""


def wanted(command: str, window: float | None = None, timeout: float | None = None, repeat: str = "never") -> Wanted:
    """A command of the shell, under the lock `a`."""
    return Wanted("a", ("sh", "-c", command), timeout, window, repeat)


def lines_of(note: Path) -> list[str]:
    return note.read_text().splitlines() if note.exists() else []


@contextlib.contextmanager
def taken(url: str, name: str = "a") -> Iterator[None]:
    """Meanwhile another process has the lock."""

    async def take() -> None:
        async with LockManager(url) as locks:
            await (await locks.lock(name, metadata="elsewhere").acquire()).detach()

    asyncio.run(take())
    yield


@contextlib.asynccontextmanager
async def running(
    manager: LockManager, command: Wanted, note: Path, lines: int = 1
) -> AsyncIterator[asyncio.Task[int]]:
    """It runs, and has noted this much."""
    task = asyncio.create_task(_run(manager, command))
    try:
        async with asyncio.timeout(20):
            while len(lines_of(note)) < lines:  # noqa: ASYNC110 - other processes
                await asyncio.sleep(0.01)
        yield task
    finally:
        task.cancel()
        await asyncio.wait({task})


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("true", 0),
        ("exit 3", 3),
        ("kill -9 $$", 137),
        ("kill -TERM $$", 143),
    ],
)
def test_the_exit_code_is_the_commands(cli: CommandLine, command: str, code: int) -> None:
    assert cli("run", "a", "--", "sh", "-c", command).exit_code == code


@pytest.mark.parametrize(("program", "code"), [("no-such-program", 127), ("/dev/null", 126), ("a\0b", 126)])
def test_a_command_that_cannot_start(cli: CommandLine, program: str, code: int) -> None:
    """And the lock is free again."""
    result = cli("run", "a", "--", program)
    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr.startswith(f"aiolock: {plain(program)}: ")
    assert cli("run", "--skip-if-held", "a", "--", "true").exit_code == 0


def test_what_was_ignored_stays_ignored(cli: CommandLine) -> None:
    """As under nohup; otherwise the command would be ended. Kept by Signals."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert cli("run", "a", "--", "sh", "-c", "kill -HUP $$; exit 4").exit_code == 4
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize(
    "words",
    [
        ("--ttl", "9s", "a"),
        ("a", "--ttl", "9s"),
        ("-q", "a", "--ttl=9s", "--"),
        ("-q", "--", "a"),
        ("a",),
    ],
)
def test_options_after_the_command_are_the_commands(
    cli: CommandLine, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with flock and timeout, also without `--`. Kept by Runner.parse_args."""
    monkeypatch.chdir(cli.folder)
    result = cli("run", *words, "sh", "-c", 'printf "%s\n" "$@" >> note', "sh", "-q", "--", "--timeout", "soon", "-h")
    assert (result.exit_code, result.output) == (0, "")
    assert cli.noted() == ["-q", "--", "--timeout", "soon", "-h"]


@pytest.mark.parametrize("words", [("-c", "{}", "a"), ("a", "-c", "{}"), ("a", "--command={}")])
def test_a_line_for_the_shell(cli: CommandLine, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(cli.folder)
    line = "echo $AIOLOCK_NAME >> note; exit 5"
    assert cli("run", *(word.format(line) for word in words)).exit_code == 5
    assert cli.noted() == ["a"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("a",), "write the program"),
        (("a", "-c", "true", "true"), "write the program"),
        (("a", "-s", "-x", "true"), "exclude each other"),
        (("a", "-s", "--permits", "2", "true"), "exclude each other"),
        (("a", "-x", "--once", "5s", "true"), "exclude each other"),
        (("a", "--signal", "TURM", "true"), "is not a signal here"),
        (("a", "--once", "5s", "--at-least", "1s", "true"), "leave out --at-least"),
        (("a", "--ttl", "5s", "--at-least", "6s", "true"), "raise the ttl"),
    ],
)
def test_options_that_do_not_fit(cli: CommandLine, words: tuple[str, ...], told: str) -> None:
    result = cli("run", *words)
    assert result.exit_code == 2
    assert told in result.stderr


def test_others_are_kept_out(cli: CommandLine) -> None:
    """Also after its end. Kept by _under: `hold_at_least`."""
    assert cli("run", "--at-least", "30s", "a", "true").exit_code == 0
    assert cli("run", "--skip-if-held", "a", "true").exit_code == 75
    assert cli("run", "--skip-if-held", "b", "true").exit_code == 0


async def test_together_with_others(cli: CommandLine) -> None:
    """Readers, a writer, and permits: each is busy as the primitive is. Kept by _under."""

    async def runs(*words: str) -> bool:
        code = await asyncio.to_thread(cli.start("run", "--skip-if-held", *words, "a", "true").wait, 30)
        assert code in (0, 75), cli.errors
        return code == 0

    async with LockManager(cli.url) as locks:
        rw = locks.rw_lock("a")
        async with rw.read:
            assert [await runs(word) for word in ("-s", "-x")] == [True, False]
        async with rw.write:
            assert [await runs(word) for word in ("--shared", "--exclusive")] == [False, False]
            assert await runs()
        async with locks.semaphore("a", 2):
            assert await runs("--permits", "2")
            async with locks.semaphore("a", 2):
                assert not await runs("--permits", "2")


def test_an_option_that_is_unknown(cli: CommandLine) -> None:
    """Before the command it is no part of it."""
    assert cli("run", "a", "--tll", "9s", "true").exit_code == 2


def test_the_command_knows_its_lock(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kept by Job._start."""
    monkeypatch.chdir(cli.folder)
    for _ in range(2):
        assert cli("run", "order:42", "--", "sh", "-c", "echo $AIOLOCK_NAME $AIOLOCK_FENCE >> note").exit_code == 0
    (name, first), (_, second) = (line.split() for line in cli.noted())
    assert name == "order:42"
    assert int(first) < int(second)


def test_a_lock_that_is_held(cli: CommandLine) -> None:
    with taken(cli.url):
        for patience in ("--skip-if-held", "--timeout=50ms"):
            result = cli("run", patience, "a", "--", "true")
            assert result.exit_code == 75
            assert "elsewhere" in result.stderr
            assert "not run" in result.stderr
        silent = cli("run", "--skip-if-held", "-q", "-E", "0", "a", "--", "false")
        assert (silent.exit_code, silent.output) == (0, "")


async def test_it_says_for_whom_it_waits(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless it is to be quiet. Kept by _tell_who_holds."""
    said: list[str] = []
    monkeypatch.setattr("aiolock.cli.run.say", said.append)
    monkeypatch.setattr("aiolock.cli.run.PATIENCE", 0.0)
    async with LockManager(redis_url) as locks, locks.lock("a", metadata="elsewhere"):
        with pytest.raises(Busy):
            await _run(LockManager(redis_url), Wanted("a", ("true",), 0.2, None, "never", quiet=True))
        assert said == []
        task = asyncio.create_task(_run(LockManager(redis_url), wanted("true")))
        async with asyncio.timeout(20):
            while not said:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    assert await asyncio.wait_for(task, 20) == 0
    assert len(said) == 1
    assert said[0].startswith("waiting for 'a', held by ")
    assert said[0].endswith(" elsewhere")


async def test_it_says_it_again_if_you_wish(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At once, with all holders, and again each minute. Kept by _tell_who_holds: `verbose`."""
    said: list[str] = []
    monkeypatch.setattr("aiolock.cli.run.say", said.append)
    monkeypatch.setattr("aiolock.cli.run.AGAIN", 0.01)
    command = Wanted("a", ("true",), None, None, "never", verbose=True, takes="permits", permits=2)
    async with LockManager(redis_url, name="checkout") as locks:
        one, two = [await locks.semaphore("a", 2, metadata=name).acquire() for name in ("nightly", "hourly")]
        task = asyncio.create_task(_run(LockManager(redis_url), command))
        async with asyncio.timeout(20):
            while len(said) < 3:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await one.release()
        assert await asyncio.wait_for(task, 20) == 0
        await two.release()
    assert {*said[:3]} == {said[0]}
    assert said[0].startswith("waiting for 'a', held by checkout@")
    assert " nightly, checkout@" in said[0]


def test_a_server_that_is_away(cli: CommandLine) -> None:
    """The password is not shown."""
    result = cli("run", "--url", "redis://me:secret@127.0.0.1:1", "a", "--", "true")
    assert result.exit_code == 69
    assert "secret" not in result.output


@pytest.mark.parametrize(
    "words",
    [
        ["--ttl", "soon"],
        ["--once", "1h", "--timeout", "1"],
        ["--service", "mymaster"],
        ["--url", "memory://"],
        ["--url", "redis://u:secret@a:b"],
        ["--ttl", "1ms"],
        ["--busy-code", "256"],
    ],
)
def test_what_cannot_work(cli: CommandLine, words: list[str]) -> None:
    result = cli("run", *words, "a", "--", "true")
    assert result.exit_code == 2
    assert "secret" not in result.output


async def test_a_lost_lock_ends_the_command(redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked first: it may clean up for most of the margin."""
    monkeypatch.chdir(tmp_path)
    note = tmp_path / "note"
    polite = "trap 'echo bye >> note; exit 0' TERM; echo $$ >> note; while :; do sleep 0.02; done"
    async with LockManager(redis_url) as locks, running(LockManager(redis_url), wanted(polite), note) as task:
        assert await locks.lock("a").force_release()
        with pytest.raises(LockLost) as lost:
            await asyncio.wait_for(task, 20)
        assert lost.value.reason is LossReason.REVOKED
    assert lines_of(note)[1:] == ["bye"]


async def test_the_signal_that_it_shall_get(redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kept by Job._stop: `_ending`."""
    monkeypatch.chdir(tmp_path)
    note = tmp_path / "note"
    line = "trap 'echo usr1 >> note; exit 0' USR1; echo $$ >> note; while :; do sleep 0.02; done"
    command = Wanted("a", ("sh", "-c", line), None, None, "never", ending=signal.SIGUSR1)
    async with LockManager(redis_url) as locks, running(LockManager(redis_url), command, note) as task:
        assert await locks.lock("a").force_release()
        with pytest.raises(LockLost):
            await asyncio.wait_for(task, 20)
    assert lines_of(note)[1:] == ["usr1"]


async def test_nothing_outlives_the_expiry(
    own_server: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a command that ignores SIGTERM nor its children. Kept by Job._stop."""
    monkeypatch.chdir(tmp_path)
    note = tmp_path / "note"
    manager = LockManager(own_server.url, ttl=2.5, margin=2.0, request_timeout=0.3)
    async with running(manager, wanted(f"sh -c '{TRAP.replace(chr(39), chr(34))}' & {TRAP}"), note, lines=2) as task:
        pids = [int(line) for line in lines_of(note)[:2]]
        own_server.freeze()
        async with asyncio.timeout(20):
            while any(map(alive, pids)):  # noqa: ASYNC110 - other processes
                await asyncio.sleep(0.01)
        dead_at = time.time() * 1000
        with pytest.raises(LockLost) as lost:
            await task
        assert lost.value.reason is LossReason.UNREACHABLE
        assert lines_of(note)[2:] == ["term", "term"]
        own_server.thaw()
        with redis_cli.client(own_server.url) as link:
            ends = link.hget("aiolock:lock:{a}", "expires")
        assert dead_at < int(ends)  # type: ignore[arg-type]


async def test_who_wakes_late_kills_at_once(redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Past the expiry another may be inside, if nothing else has killed it by then. Kept by Job._stop."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Keeper, "keep", unheard)
    note = tmp_path / "note"
    async with running(LockManager(redis_url, ttl=0.5), wanted(TRAP), note) as task:
        time.sleep(0.8)  # noqa: ASYNC251 - a process that stands still
        with pytest.raises(LockLost) as lost:
            await asyncio.wait_for(task, 20)
    assert lost.value.reason is LossReason.LOOP_BLOCKED
    assert len(lines_of(note)) == 1


async def test_a_command_that_we_may_not_end(redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as one of sudo: that is said at once, and the loss is not over before it has ended. Kept by Job._refused."""
    monkeypatch.chdir(tmp_path)
    said: list[str] = []
    monkeypatch.setattr("aiolock.cli.job.say", said.append)
    monkeypatch.setattr(os, "killpg", protected)
    monkeypatch.setattr(Keeper, "keep", unheard)
    note = tmp_path / "note"
    command = wanted("echo $$ >> note; until [ -e end ]; do sleep 0.02; done")
    async with LockManager(redis_url) as locks, running(LockManager(redis_url, ttl=0.5), command, note) as task:
        await locks.lock("a").force_release()
        async with asyncio.timeout(20):
            while not said:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        async with locks.lock("a"):  # past the time in which it would have been killed
            await asyncio.sleep(0.6)
        assert not task.done()
        assert alive(int(note.read_text()))
        (tmp_path / "end").touch()
        with pytest.raises(Outlived) as lost:
            await asyncio.wait_for(task, 20)
    assert lost.value.reason is LossReason.REVOKED
    assert len(said) == 1
    assert "WITHOUT THE LOCK" in said[0]


async def test_what_is_left_of_a_command_that_we_may_not_end(
    redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its shell ends, and another process of its group goes on. Kept by Job._stop."""
    monkeypatch.chdir(tmp_path)
    said: list[str] = []
    monkeypatch.setattr("aiolock.cli.job.say", said.append)
    killpg = os.killpg

    def half_protected(group: int, number: int) -> None:
        """The first process of the group can be ended."""
        killpg(group, 0)
        if not alive(group):
            raise PermissionError
        if number:
            os.kill(group, number)

    monkeypatch.setattr(os, "killpg", half_protected)
    monkeypatch.setattr(Keeper, "keep", unheard)
    note = tmp_path / "note"
    child = "sh -c 'echo $$ >> note; until [ -e end ]; do sleep 0.02; done'"
    async with (
        LockManager(redis_url) as locks,
        running(LockManager(redis_url), wanted(f"{child} & wait"), note) as task,
    ):
        await locks.lock("a").force_release()
        async with asyncio.timeout(20):
            while not said:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert alive(int(note.read_text()))
        (tmp_path / "end").touch()
        with pytest.raises(Outlived):
            await asyncio.wait_for(task, 20)


async def test_a_cancelled_run_leaves_nothing(redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    note = tmp_path / "note"
    async with running(LockManager(redis_url), wanted(TRAP), note) as task:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert not alive(int(note.read_text()))


async def test_once(redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    job = wanted("echo ran >> note; exit 4", window=60.0, repeat="interrupted")
    assert await _run(LockManager(redis_url), job) == 4
    with pytest.raises(Skipped, match=r"'a': failed by .*, begun .* ago: not run"):
        await _run(LockManager(redis_url), job)
    again = wanted("echo ran >> note", window=60.0, repeat="failed")
    assert await _run(LockManager(redis_url), again) == 0
    with pytest.raises(Skipped, match="succeeded"):
        await _run(LockManager(redis_url), again)
    assert (tmp_path / "note").read_text().split() == ["ran", "ran"]


def test_forget(cli: CommandLine) -> None:
    """A run that exited 0, and did harm, can be repeated."""
    once = ("run", "-q", "--once", "1h", "a", "--", "sh", "-c", "exit 0")
    assert cli("forget", "a").exit_code == 1
    assert cli(*once).exit_code == 0
    assert "once a: succeeded" in cli("info", "a").stdout
    told = cli("forget", "a")
    assert (told.exit_code, told.stdout.partition(",")[0]) == (0, "forgot the run of a: succeeded")
    assert "once a" not in cli("info", "a").stdout
    assert cli("run", "--once", "1h", "a", "--", "sh", "-c", "exit 4").exit_code == 4
    assert json.loads(cli("forget", "--json", "a").stdout) == {"name": "a", "forgotten": True, "status": "failed"}


async def test_a_once_that_lost_its_lock_may_run_again(
    redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was interrupted, neither failed nor done."""
    monkeypatch.chdir(tmp_path)
    job = wanted(TRAP, window=60.0, repeat="interrupted")
    async with LockManager(redis_url) as locks:
        async with running(LockManager(redis_url, ttl=0.5), job, tmp_path / "note") as task:
            await locks.lock("a").force_release()
            with pytest.raises(LockLost):
                await asyncio.wait_for(task, 20)
        assert await _run(LockManager(redis_url), wanted("true", window=60.0, repeat="interrupted")) == 0


def test_a_release_that_is_refused(cli: CommandLine) -> None:
    """The command ran to its end: its exit code stands."""
    with redis_cli.client(cli.url) as link:
        rule = ("on", ">secret", "~*", "&*", "+@all", "-zrange")
        link.execute_command("ACL", "SETUSER", "limited", *rule)
        try:
            url = cli.url.replace("redis://", "redis://limited:secret@")
            result = cli("run", "--url", url, "--ttl", "1s", "a", "--", "sh", "-c", "exit 5")
        finally:
            link.acl_deluser("limited")
    assert (result.exit_code, result.stdout) == (5, "")
    assert "zrange" in result.stderr.lower()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("-n", "a", "true"), "-n is an option of flock: write --skip-if-held"),
        (("a", "--nonblock", "true"), "--nonblock is an option of flock: write --skip-if-held"),
        (("-w", "5", "a", "true"), "-w is an option of flock: write --timeout 10s"),
        (("-e", "a", "true"), "-e is an option of flock: write -x"),
    ],
)
def test_an_option_of_flock_names_ours(cli: CommandLine, words: tuple[str, ...], told: str) -> None:
    """Kept by OF_FLOCK."""
    result = cli("run", *words)
    assert result.exit_code == 2
    assert told in result.stderr


def test_the_program_keeps_its_own_options(cli: CommandLine) -> None:
    """Also those that flock has; and an option that nobody has is named as such."""
    assert cli("run", "a", "sh", "-c", "exit 7").exit_code == 7
    assert "No such option" in cli("run", "--nosuch", "a", "true").stderr
