"""Decodes the raw replies of the multi lock's scripts."""

from __future__ import annotations

from ...errors import LossReason
from ..base import Reply, as_list, as_number, as_text
from ..lock import decode as lock
from ..outcomes import AcquireOutcome, Held, Lost, Queued, Refused


def acquire(reply: Reply) -> AcquireOutcome:
    if isinstance(reply, list):
        word, *place, pttl, fence, metadata, part = reply
        facts = as_number(pttl), as_number(fence), as_text(metadata)
        if word == b"refused":
            return Refused(*facts, part=as_text(part))
        number, rank = map(as_number, place)
        return Queued(0, number, rank, facts[1], facts[2], facts[0], as_text(part))
    text = as_text(reply)
    return Lost(LossReason(text.removeprefix("lost "))) if text.startswith("lost ") else lock.acquire(reply)


def info(reply: Reply) -> list[Held | None]:
    return [_held(as_list(answer)) for answer in as_list(reply)]


def _held(answer: list[Reply]) -> Held | None:
    if not answer:
        return None
    owner, depth, pttl, fence, metadata = answer
    return Held(as_text(owner), as_number(depth), as_number(pttl), as_number(fence), as_text(metadata))
