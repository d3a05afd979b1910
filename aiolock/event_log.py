"""Events as log lines: the first observer, always there, and shown as far as the levels of its loggers allow."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import fields

from .errors import LossReason
from .events import (
    Abandoned,
    Acquired,
    AcquireFailed,
    Disconnected,
    Dropped,
    Event,
    Granted,
    HoldEvent,
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
from .log import Line, Log
from .owner import own_part
from .repeats import Repeats

LOCK = Log("aiolock.lock")
QUEUE = Log("aiolock.queue")
HOLD = Log("aiolock.hold")
LEASE = Log("aiolock.lease")
REDIS = Log("aiolock.redis")
SCHEDULER = Log("aiolock.scheduler")

KEYS = {"name": "lock_name", "reason": "loss_reason"}
"""Attributes of events that have another name in records, which have a `name` of their own."""


LINES: dict[type[Event], Line] = {
    Waiting: Line(LOCK, logging.DEBUG, "waits for %(kind)s %(lock_name)r"),
    Passed: Line(LOCK, logging.DEBUG, "waited for %(kind)s %(lock_name)r for %(waited).3f s"),
    Acquired: Line(LOCK, logging.DEBUG, "acquired lock %(lock_name)r after %(waited).3f s, fence %(fence)d"),
    Refused: Line(LOCK, logging.DEBUG, "lock %(lock_name)r is not free, held by %(holder)s"),
    TimedOut: Line(LOCK, logging.DEBUG, "gave up on lock %(lock_name)r after %(waited).3f s, held by %(holder)s"),
    AcquireFailed: Line(LOCK, logging.DEBUG, "did not acquire lock %(lock_name)r after %(waited).3f s: %(error)s"),
    Ran: Line(LOCK, logging.DEBUG, "the run of %(lock_name)r is %(status)s"),
    Granted: Line(QUEUE, logging.DEBUG, "lock %(lock_name)r was granted to this process, fence %(fence)d"),
    Renewed: Line(HOLD, logging.DEBUG, "renewed lock %(lock_name)r %(headroom).3f s before it would have been lost"),
    Released: Line(LOCK, logging.DEBUG, "released lock %(lock_name)r after %(held).3f s"),
    Lost: Line(
        HOLD,
        logging.ERROR,
        "lost lock %(lock_name)r: %(explanation)s",
        "lost %(count)d more locks (%(loss_reason)s): %(lock_names)s",
    ),
    Abandoned: Line(
        LEASE, logging.ERROR, "a task ended inside `async with` on lock %(lock_name)r without leaving it: released"
    ),
    Dropped: Line(
        LEASE,
        logging.WARNING,
        "nothing refers to lock %(lock_name)r, or to its lease, after %(held).1f s: renewed until its task or thread "
        "calls lock.release() of another lock object, or ends",
    ),
    Disconnected: Line(REDIS, logging.WARNING, "the connection to %(address)s %(explanation)s, connecting again"),
    Reconnected: Line(REDIS, logging.INFO, "connected to %(address)s after %(after).1f s"),
    WokeLate: Line(
        SCHEDULER, logging.WARNING, "woke %(late).2f s late: the event loop was blocked or the process stopped"
    ),
}
SHOWN: dict[type[Event], Callable[[int], bool]] = {kind: line.log.shows for kind, line in LINES.items()}
"""Whether anything comes of a record about such an event, by its level; found by one look, because every lock asks."""
CALM = frozenset({LossReason.CLOSED, LossReason.REVOKED})
"""Losses that someone asked for."""
CALM_LOSS = LINES[Lost]._replace(level=logging.WARNING)
SLIGHT = 1.0
"""Seconds by which a late wake-up is the normal course of a busy loop."""
SLIGHTLY_LATE = LINES[WokeLate]._replace(level=logging.DEBUG)
COLLECTED = Line(LEASE, logging.WARNING, "a lease of lock %(lock_name)r was garbage collected: released")


def line_of(event: Event) -> Line:
    """How `event` looks in the log."""
    if isinstance(event, Lost) and event.reason in CALM:
        return CALM_LOSS
    if isinstance(event, Abandoned) and event.collected:
        return COLLECTED
    if isinstance(event, WokeLate) and event.late <= SLIGHT:
        return SLIGHTLY_LATE
    return LINES[type(event)]


def values_of(event: Event) -> dict[str, object]:
    """What its record says about `event`, by the keys of its `extra`."""
    values: dict[str, object] = {KEYS.get(name, name): getattr(event, name) for name in _NAMES[type(event)]}
    if isinstance(event, HoldEvent | Granted):
        values["owner"] = own_part(event.owner)
    if isinstance(event, Lost):
        values["loss_reason"] = event.reason.value
    elif isinstance(event, Refused | TimedOut):
        values["holder"] = str(event.holder or "an unknown owner")
    elif isinstance(event, AcquireFailed | Disconnected):
        values["error"] = repr(event.error)  # the error itself refers to what ran
    return values


def log_event(event: Event, repeats: Repeats | None = None) -> None:
    """Log an event, if anything comes of that; never raises.

    Args:
        event: it.
        repeats: logs what an outage may repeat for each lock; without it, each line is logged.
    """
    line = LINES[type(event)]
    if line.level != logging.DEBUG:  # none of those is one of several
        line = line_of(event)
    if not line.log.shows(line.level):
        return
    if line.more and repeats is not None:
        values = values_of(event)
        repeats.say(line, values, values.get("loss_reason"))
    else:
        line.log.mapped(line.level, line.message, values_of(event))


_NAMES = {kind: tuple([field.name for field in fields(kind)]) for kind in LINES}
