"""Raw replies of the multi lock's scripts, read."""

from __future__ import annotations

from ..base import Reply, as_list, as_number, as_text
from ..lock import decode as lock
from ..outcomes import AcquireOutcome, Held, Refused, Released, ReleaseOutcome


def acquire(reply: Reply) -> AcquireOutcome:
    outcome = lock.acquire(reply)
    return outcome._replace(part=as_text(as_list(reply)[4])) if isinstance(outcome, Refused) else outcome


def release(reply: Reply) -> ReleaseOutcome:
    outcome = lock.release(reply)
    return outcome._replace(others=as_number(as_list(reply)[2])) if isinstance(outcome, Released) else outcome


def info(reply: Reply) -> list[Held | None]:
    return [lock.info(answer) for answer in as_list(reply)]
