"""Decodes the raw replies of the lock's scripts."""

from __future__ import annotations

from ...errors import LossReason
from ..base import Reply, as_list, as_number, as_text
from ..outcomes import (
    AcquireOutcome,
    Asked,
    Finished,
    Gone,
    Granted,
    Held,
    Kept,
    Missing,
    Passed,
    Queued,
    RefreshOutcome,
    Refused,
    Released,
    ReleaseOutcome,
    Renewed,
    RenewOutcome,
    Standing,
    TransferOutcome,
    failed,
)


def acquire(reply: Reply) -> AcquireOutcome:
    if isinstance(reply, bytes) and reply.startswith(b"granted"):  # as nearly always
        _, number, left, mark = reply.split()
        return Granted(int(number), int(left), mark == b"1")
    word, _, facts = as_text(reply).partition(" ")
    match word:
        case "queued":
            return _queued(facts)
        case "refused":
            pttl, fence, metadata = facts.split(" ", 2)
            return Refused(int(pttl), int(fence), metadata)
    return Finished()


def transfer(reply: Reply) -> TransferOutcome:
    word, _, facts = as_text(reply).partition(" ")
    match word:
        case "granted":
            return _granted(facts)
        case "passed":
            number, pttl = facts.split(" ")
            return Passed(int(number), int(pttl))
        case "missing":
            return Missing(LossReason(facts))
    return Finished()


def release(reply: Reply) -> ReleaseOutcome:
    if isinstance(reply, bytes) and reply.startswith(b"released "):
        fence, _, heard = reply[9:].partition(b" ")
        return Released(int(fence), heard != b"")
    return nest(reply)


def nest(reply: Reply) -> Kept | Missing:
    word, _, fact = as_text(reply).partition(" ")
    return Kept(int(fact)) if word == "kept" else Missing(LossReason(fact))


def renew(reply: Reply) -> list[RenewOutcome]:
    return [_renewed(answer) for answer in as_list(reply)]


def refresh(reply: Reply) -> list[RefreshOutcome]:
    return [_refreshed(as_text(answer)) for answer in as_list(reply)]


def info(reply: Reply) -> Standing:
    reply = as_list(reply)
    if not reply:
        return Standing(0, 0, 1, 0, 0, None, None)
    owner, metadata = as_text(reply[0]), as_text(reply[4])
    depth, pttl, fence, waiters, rank = (as_number(reply[at]) for at in (1, 2, 3, 5, 6))
    held = Held(owner, depth, pttl, fence, metadata) if owner else None
    used = 1 if owner else 0
    return Standing(used, used, 1, fence, waiters, rank or None, held)


def request_release(reply: Reply) -> Asked:
    owner, _, fence = as_text(reply).partition(" ")
    return Asked(owner, int(fence or 0))


def _granted(facts: str) -> Granted:
    fence, pttl, abandoned = facts.split(" ")
    return Granted(int(fence), int(pttl), abandoned == "1")


def _queued(facts: str) -> Queued:
    number, rank, pttl, fence, metadata = facts.split(" ", 4)
    return Queued(queue_number=int(number), rank=int(rank), pttl=int(pttl), fence=int(fence), holder=metadata)


def _renewed(answer: Reply) -> RenewOutcome:
    if isinstance(answer, int):
        return Renewed(answer)
    text = as_text(answer)
    return failed(text.removeprefix("error ")) if text.startswith("error ") else Missing(LossReason(text))


def _refreshed(answer: str) -> RefreshOutcome:
    word, _, facts = answer.partition(" ")
    match word:
        case "granted":
            return _granted(facts)
        case "queued":
            return _queued(facts)
        case "gone":
            return Gone()
    return failed(facts)
