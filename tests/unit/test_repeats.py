"""What an outage does to many locks is logged in few lines."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

from aiolock import BackendError, LockLost, LockManager
from aiolock.core.holding.release import OVERDUE
from aiolock.log import Line, Log
from aiolock.repeats import NAMES, PERIOD, Repeats
from aiolock.scripts.base import Call
from aiolock.testing import MemoryBackend

from .world import Crew, Holder, runtime_of, settle

COUNT = 100
REST = COUNT - 1 - NAMES
MORE = ", ".join(f"'n{number}'" for number in range(1, 1 + NAMES)) + f" and {REST} others"


class Failing(MemoryBackend):
    """Answers requests of some scripts with an error."""

    failing: Callable[[str], bool] = staticmethod(lambda script: False)

    def _execute(self, call: Call[Any]) -> Any:
        if self.failing(call.script.name):
            return BackendError(call.name, "LOADING", transient=True)
        return super()._execute(call)


def said(caplog: pytest.LogCaptureFixture, least: int = logging.WARNING) -> list[tuple[str, str]]:
    """Levels and messages, and forget them."""
    lines = [(record.levelname, record.getMessage()) for record in caplog.records if record.levelno >= least]
    caplog.clear()
    return lines


async def test_locks_that_are_lost_together(caplog: pytest.LogCaptureFixture, crew: Crew) -> None:
    """A hundred: two lines of each kind, and DEBUG has all. Kept by Repeats.say: `names`."""
    backend = Failing()
    caplog.set_level(logging.DEBUG, "aiolock.hold")
    async with LockManager(backend, ttl=3.0) as locks:
        holders = [Holder(crew, locks.lock(f"n{number}")) for number in range(COUNT)]
        await settle(backend)
        backend.failing = lambda script: script.startswith("renew")
        caplog.clear()
        await backend.clock.advance(3.0)
        lost = await asyncio.gather(*(holder.task for holder in holders), return_exceptions=True)
        assert {type(error) for error in lost} == {LockLost}
        everything = [record for record in caplog.records if record.levelno == logging.DEBUG]
        assert {vars(record)["lock_name"] for record in everything} == {f"n{number}" for number in range(1, COUNT)}
        renewal = "could not renew lock 'n0', trying until its deadline: "
        first, second = said(caplog)
        assert first[0] == "WARNING"
        assert first[1].startswith(renewal)
        assert second[0] == "ERROR"
        assert second[1].startswith("lost lock 'n0': UNREACHABLE")
        await backend.clock.advance(PERIOD)
        records = {record.levelname: record for record in caplog.records if record.levelno > logging.DEBUG}
        assert records["WARNING"].getMessage() == f"could not renew {COUNT - 1} more locks: {MORE}"
        assert records["ERROR"].getMessage() == f"lost {COUNT - 1} more locks (unreachable): {MORE}"
        assert vars(records["ERROR"])["count"] == COUNT - 1
        assert vars(records["ERROR"])["loss_reason"] == "unreachable"
        assert len(said(caplog)) == 2


async def test_locks_that_are_not_released_in_an_outage(caplog: pytest.LogCaptureFixture) -> None:
    """Neither the wait for an answer nor its end is told of each. Kept by Release.overdue, Release.settle."""
    backend = MemoryBackend()
    async with LockManager(backend, ttl=10.0, request_timeout=1.0) as locks:
        leases = [await locks.lock(f"n{number}").acquire() for number in range(COUNT)]
        with backend.outage():
            for lease in leases:
                asyncio.create_task(lease.release())  # noqa: RUF006
            await backend.clock.advance(1.0)
            assert [line.partition(";")[0] for _, line in said(caplog)] == ["no answer yet to the release of lock 'n0'"]
            await backend.clock.advance(PERIOD)
            (line,) = said(caplog)
            assert line == ("WARNING", f"no answer yet to the releases of {COUNT - 1} more locks: {MORE}")
    assert said(caplog) == []


async def test_a_manager_that_is_closed_in_an_outage(caplog: pytest.LogCaptureFixture) -> None:
    """Its lines come before it is closed: nobody waits for a period. Kept by Services.stop."""
    backend = MemoryBackend()
    with ExitStack() as stack:
        async with LockManager(backend, request_timeout=1.0) as locks:
            for number in range(COUNT):
                await locks.lock(f"n{number}").acquire()
            stack.enter_context(backend.outage())
        lines = said(caplog)
    assert [line for _, line in lines[:3]] == [
        "lost lock 'n0': CLOSED: its manager was closed",
        "lock 'n0' was not released, it expires by itself: the manager was closed",
        f"lost {COUNT - 1} more locks (closed): {MORE}",
    ]
    assert lines[3:] == [("WARNING", f"{COUNT - 1} more locks were not released, they expire by themselves: {MORE}")]


async def test_what_is_said_after_the_end(caplog: pytest.LogCaptureFixture, backend: MemoryBackend) -> None:
    """Is logged at once: nothing is due any more. Kept by Repeats.end, which Services.stop calls."""
    async with LockManager(backend) as locks:
        runtime_of(locks).warn(OVERDUE, "a")
        runtime_of(locks).warn(OVERDUE, "b")
        assert len(said(caplog)) == 1
    assert len(said(caplog)) == 1
    runtime_of(locks).warn(OVERDUE, "c")
    runtime_of(locks).warn(OVERDUE, "d")
    assert len(said(caplog)) == 2


async def test_the_second_line_of_a_kind(caplog: pytest.LogCaptureFixture, backend: MemoryBackend) -> None:
    """Is logged as it is if it is the only other one, and what comes later begins anew. Kept by Repeats.on_due."""
    async with LockManager(backend, ttl=300.0) as locks:
        for name in "abcd":
            await locks.lock(name).acquire()
        for name, expected in (("a", ["a"]), ("b", [])):
            await locks.lock(name).force_release()
            await settle(backend)
            assert [line.partition(":")[0] for _, line in said(caplog)] == [f"lost lock {one!r}" for one in expected]
        await backend.clock.advance(PERIOD)
        assert said(caplog) == [("WARNING", "lost lock 'b': REVOKED: force_release() was called")]
        await backend.clock.advance(PERIOD)
        assert said(caplog) == []
        await locks.lock("c").force_release()
        await settle(backend)
        assert said(caplog) == [("WARNING", "lost lock 'c': REVOKED: force_release() was called")]


def test_a_lock_is_counted_once(caplog: pytest.LogCaptureFixture) -> None:
    """However often the same is said of it. Breaks without Gathered.add: `names`, a dict."""
    line = Line(Log("aiolock.hold"), logging.WARNING, "could not renew %(lock_name)s", "%(count)d more: %(lock_names)s")
    repeats = Repeats(lambda _: None)
    for name in ("first", "feed", "feed", "feed"):
        repeats.say(line, {"lock_name": name}, None)
    repeats.on_due(0.0, 0.0)
    for name in ("feed", "feed", "other"):
        repeats.say(line, {"lock_name": name}, None)
    repeats.on_due(0.0, 0.0)
    assert [text for _, text in said(caplog)] == [
        "could not renew first", "could not renew feed", "2 more: 'feed', 'other'"
    ]  # fmt: skip
