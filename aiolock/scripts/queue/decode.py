"""Decodes the raw replies of the queue family's scripts."""

from __future__ import annotations

from ...errors import LossReason
from ..base import Reply, as_list, as_number, as_text
from ..bid import slots
from ..outcomes import (
    AcquireOutcome,
    Ended,
    Failed,
    Finished,
    Granted,
    Held,
    Impossible,
    Kept,
    Lost,
    Missing,
    Queued,
    Refused,
    Released,
    ReleaseOutcome,
    Standing,
    TransferOutcome,
    failed,
)


def acquire(reply: Reply) -> AcquireOutcome | Failed:
    """Decode one answer of a batch."""
    if not isinstance(reply, list):
        return failed(as_text(reply).removeprefix("error "))
    match as_text(reply[0]):
        case "granted":
            granted = Granted(as_number(reply[1]), as_number(reply[2]), reply[3] == b"1", capacity=as_number(reply[4]))
            if len(reply) > 5:
                granted.slots = slots(as_text(reply[5]))
            return granted
        case "queued":
            serial, queue_number, rank, fence = map(as_number, reply[1:5])
            return Queued(serial, queue_number, rank, fence, as_text(reply[5]), as_number(reply[6]))
        case "refused":
            return Refused(as_number(reply[1]), as_number(reply[2]), as_text(reply[3]))
        case "lost":
            return Lost(LossReason(as_text(reply[1])))
        case "impossible":
            return Impossible(as_number(reply[1]))
    return Finished()


def acquire_one(reply: Reply) -> AcquireOutcome:
    """Decode the answer to a single request: the server raises its errors."""
    outcome = acquire(as_list(reply)[0])
    assert not isinstance(outcome, Failed)
    return outcome


def acquire_each(reply: Reply) -> list[AcquireOutcome | Failed]:
    return [acquire(answer) for answer in as_list(reply)]


def transfer(reply: Reply) -> TransferOutcome:
    reply = as_list(reply)
    if as_text(reply[0]) == "missing":
        return Missing(LossReason(as_text(reply[1])))
    outcome = acquire([*reply[:5], *reply[6:]])
    assert isinstance(outcome, Granted | Finished)
    if isinstance(outcome, Granted):
        outcome.weight = as_number(reply[5])
    return outcome


def info(reply: Reply) -> Standing:
    reply = as_list(reply)
    holders, used, capacity, fence, waiters, rank = map(as_number, reply[:6])
    held = _held(reply[6:]) if len(reply) > 6 else None
    return Standing(holders, used, capacity, fence, waiters, rank or None, held)


def _held(reply: list[Reply]) -> Held:
    owner, depth, pttl, fence, process = reply
    return Held(as_text(owner), as_number(depth), as_number(pttl), as_number(fence), as_text(process))


def request_release(reply: Reply) -> list[str]:
    return [as_text(owner) for owner in as_list(reply)]


def force_release(reply: Reply) -> Ended:
    return Ended(*map(as_number, as_list(reply)))


def release(reply: Reply) -> ReleaseOutcome:
    reply = as_list(reply)
    match reply[0]:
        case b"released":
            return Released(as_number(reply[1]))
        case b"kept":
            return Kept(as_number(reply[1]))
    return Missing(LossReason(as_text(reply[1])))
