"""Decodes the raw replies of the scripts for Redisson's wire."""

from __future__ import annotations

from ..base import Reply, as_list, as_number, as_text
from ..lock.decode import nest
from ..outcomes import (
    AcquireOutcome,
    Finished,
    Gone,
    Granted,
    Held,
    Queued,
    RefreshOutcome,
    Refused,
    Released,
    ReleaseOutcome,
    Standing,
    failed,
)

FULL = 2**31
"""What the writer takes of a read-write lock."""


def acquire(reply: Reply) -> AcquireOutcome:
    word, _, facts = as_text(reply).partition(" ")
    match word:
        case "granted":
            token, pttl = facts.split(" ")
            return Granted(int(token), int(pttl), abandoned=False)
        case "queued":
            return _queued(facts)
        case "refused":
            pttl, holder = facts.split(" ", 1)
            return Refused(int(pttl), 0, holder)
    return Finished()


def refresh(reply: Reply) -> list[RefreshOutcome]:
    return [_refreshed(as_text(answer)) for answer in as_list(reply)]


def release(reply: Reply) -> ReleaseOutcome:
    return Released(0) if as_text(reply) == "released" else nest(reply)


def info(reply: Reply) -> Standing:
    pttl, token, waiters, rank, *words = as_list(reply)
    fields = dict(zip(map(as_text, words[::2]), map(as_text, words[1::2]), strict=True))
    used = FULL if fields.pop("mode", "") == "write" else len(fields)
    held = None
    if fields:
        field, depth = next(iter(fields.items()))
        owner = field.removesuffix(":write")
        held = Held(owner, int(depth), as_number(pttl), as_number(token), owner)
    return Standing(len(fields), used, 1, as_number(token), as_number(waiters), as_number(rank) or None, held)


def _queued(facts: str) -> Queued:
    rank, pttl, holder = facts.split(" ", 2)
    return Queued(rank=int(rank), pttl=int(pttl), holder=holder)


def _refreshed(answer: str) -> RefreshOutcome:
    word, _, facts = answer.partition(" ")
    match word:
        case "granted":
            return Granted(0, 0, abandoned=False)  # it may ask
        case "queued":
            return _queued(facts)
        case "gone":
            return Gone()
    return failed(facts)
