"""What the log says of events, and when."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import fields

import pytest

from aiolock import LockManager, LossReason, events
from aiolock.errors import Holder
from aiolock.event_log import LINES, log_event
from aiolock.events import (
    Abandoned,
    Acquired,
    AcquireFailed,
    Disconnected,
    Dropped,
    Event,
    Granted,
    Lost,
    Passed,
    Ran,
    Reconnected,
    Refused,
    Released,
    Renewed,
    TimedOut,
    Waiting,
    WokeLate,
)
from aiolock.testing import MemoryBackend

from .world import expect_loss

OWNER = "0123456789abcdef:f7"
HOLD = ("a", "lock", OWNER, 42)
EVENTS: list[tuple[Event, str, int, str]] = [
    (Acquired(*HOLD, 1, 0.25, 1, False, False), "lock", logging.DEBUG, "acquired lock 'a' after 0.250 s, fence 42"),
    (Waiting("a", "latch", 7), "lock", logging.DEBUG, "waits for latch 'a'"),
    (Passed("a", "latch", 0.25, 7), "lock", logging.DEBUG, "waited for latch 'a' for 0.250 s"),
    (Ran("a", "once", True, "failed"), "lock", logging.DEBUG, "the run of 'a' is failed"),
    (Refused("a", "lock", 0.1, Holder("a", "web:1")), "lock", logging.DEBUG, "lock 'a' is not free, held by web:1"),
    (
        TimedOut("a", "lock", 1.5, 2, None),
        *("lock", logging.DEBUG, "gave up on lock 'a' after 1.500 s, held by an unknown owner"),
    ),
    (
        AcquireFailed("a", "lock", 0.5, ValueError("why")),
        *("lock", logging.DEBUG, "did not acquire lock 'a' after 0.500 s: ValueError('why')"),
    ),
    (Granted("a", "lock", OWNER, 42), "queue", logging.DEBUG, "lock 'a' was granted to this process, fence 42"),
    (
        Renewed(*HOLD, 30.0, 17.0, 0.001),
        *("hold", logging.DEBUG, "renewed lock 'a' 17.000 s before it would have been lost"),
    ),
    (Released(*HOLD, 0, 0.125, False, False), "lock", logging.DEBUG, "released lock 'a' after 0.125 s"),
    (Lost(*HOLD, LossReason.DELETED, 1.0, 0.0, "DELETED: why"), "hold", logging.ERROR, "lost lock 'a': DELETED: why"),
    (Lost(*HOLD, LossReason.REVOKED, 1.0, 0.0, "REVOKED"), "hold", logging.WARNING, "lost lock 'a': REVOKED"),
    (Lost(*HOLD, LossReason.CLOSED, 1.0, 0.0, "CLOSED"), "hold", logging.WARNING, "lost lock 'a': CLOSED"),
    (
        Abandoned(*HOLD, 0, 1.0, False),
        *("lease", logging.ERROR, "a task ended inside `async with` on lock 'a' without leaving it: released"),
    ),
    (Abandoned(*HOLD, 0, 1.0, True), "lease", logging.WARNING, "a lease of lock 'a' was garbage collected: released"),
    (
        Dropped(*HOLD, 10.0),
        *("lease", logging.WARNING),
        "nothing refers to lock 'a', or to its lease, after 10.0 s: renewed until its task or thread calls "
        "lock.release() of another lock object, or ends",
    ),
    (
        Disconnected("localhost:6379", OSError(), "was lost (OSError: )"),
        *("redis", logging.WARNING, "the connection to localhost:6379 was lost (OSError: ), connecting again"),
    ),
    (Reconnected("localhost:6379", 1.25), "redis", logging.INFO, "connected to localhost:6379 after 1.2 s"),
    (
        WokeLate(0.5),
        *("scheduler", logging.DEBUG, "woke 0.50 s late: the event loop was blocked or the process stopped"),
    ),
    (
        WokeLate(3.0),
        *("scheduler", logging.WARNING, "woke 3.00 s late: the event loop was blocked or the process stopped"),
    ),
]


@pytest.fixture(autouse=True)
def unset() -> Iterator[None]:
    """The levels are as they were."""
    names = ["aiolock", *(line.log.name for line in LINES.values())]
    before = {name: logging.getLogger(name).level for name in names}
    yield
    for name, level in before.items():
        logging.getLogger(name).setLevel(level)


def test_every_event_has_a_line() -> None:
    kinds = {kind for kind in vars(events).values() if isinstance(kind, type) and issubclass(kind, Event)}
    leaves = {kind for kind in kinds if not any(other is not kind and issubclass(other, kind) for other in kinds)}
    assert {*LINES} == leaves == {type(event) for event, *_ in EVENTS}


@pytest.mark.parametrize(("event", "logger", "level", "message"), EVENTS, ids=lambda given: type(given).__name__)
def test_a_line(event: Event, logger: str, level: int, message: str, caplog: pytest.LogCaptureFixture) -> None:
    """All that the event says is in the record, by the event's own names, and nothing by which one could act."""
    with caplog.at_level(logging.DEBUG, "aiolock"):
        log_event(event)
    (record,) = caplog.records
    assert (record.name, record.levelno, record.getMessage()) == (f"aiolock.{logger}", level, message)
    extra = {key: value for key, value in vars(record).items() if key not in vars(logging.makeLogRecord({}))}
    extra.pop("message", None)
    renamed = {"name": "lock_name", "reason": "loss_reason"}
    assert {*extra} == {renamed.get(field.name, field.name) for field in fields(event)}
    assert all(isinstance(value, str | int | float) for value in extra.values())
    assert OWNER not in str(vars(record))
    assert extra.get("owner", "f7") == "f7"


@pytest.mark.parametrize("name", ["aiolock", "aiolock.lock"])
async def test_levels_count_at_once(backend: MemoryBackend, caplog: pytest.LogCaptureFixture, name: str) -> None:
    """Whoever turns DEBUG on, at run time, sees lines from then on, of that logger."""
    logger = logging.getLogger(name)

    async def pair() -> list[str]:
        caplog.clear()
        async with locks.lock("a"):
            pass
        return [record.getMessage().partition(" after")[0] for record in caplog.records]

    async with LockManager(backend) as locks:
        assert await pair() == []
        logger.setLevel(logging.DEBUG)
        assert await pair() == ["acquired lock 'a'", "released lock 'a'"]
        logging.getLogger("aiolock.lock").setLevel(logging.INFO)
        assert await pair() == []


async def test_a_wait_that_began_before(backend: MemoryBackend, caplog: pytest.LogCaptureFixture) -> None:
    """Its whole length is known, although nobody listened when it began."""
    async with LockManager(backend) as locks:
        lease = await locks.lock("a").acquire()
        await backend.clock.advance(4)
        with caplog.at_level(logging.DEBUG, "aiolock.lock"):
            await lease.release()
    assert [record.getMessage() for record in caplog.records] == ["released lock 'a' after 4.000 s"]


async def test_one_line_an_event(backend: MemoryBackend, caplog: pytest.LogCaptureFixture) -> None:
    """What was logged before there were events is not logged twice."""
    async with LockManager(backend) as locks:
        with expect_loss(LossReason.DELETED):
            async with locks.lock("a"):
                backend.flush()
                backend.clock.jump(12)
                await backend.clock.advance(1)
    assert sorted(record.name for record in caplog.records) == ["aiolock.hold", "aiolock.scheduler"]
