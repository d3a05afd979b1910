"""Raw replies of the lock's scripts, read."""

from __future__ import annotations

from ...errors import LossReason
from ..base import Reply, as_list, as_number, as_text
from ..outcomes import (
    AcquireOutcome,
    Failed,
    Finished,
    Granted,
    Held,
    Kept,
    Lost,
    Missing,
    Refused,
    Released,
    ReleaseOutcome,
    Renewed,
    RenewOutcome,
    TransferOutcome,
)


def acquire(reply: Reply) -> AcquireOutcome:
    if isinstance(reply, bytes):
        _, fence, pttl, abandoned = reply.split()
        return Granted(int(fence), int(pttl), abandoned == b"1")
    reply = as_list(reply)
    match reply[0]:
        case b"refused":
            return Refused(as_number(reply[1]), as_number(reply[2]), as_text(reply[3]))
        case b"lost":
            return Lost(LossReason(as_text(reply[1])))
    return Finished()


def release(reply: Reply) -> ReleaseOutcome:
    if isinstance(reply, bytes):
        return Released(int(reply.removeprefix(b"released ")))
    reply = as_list(reply)
    match reply[0]:
        case b"released":
            return Released(as_number(reply[1]))
        case b"kept":
            return Kept(as_number(reply[1]))
    return Missing(LossReason(as_text(reply[1])))


def transfer(reply: Reply) -> TransferOutcome:
    reply = as_list(reply)
    match reply[0]:
        case b"granted":
            others, mark = as_number(reply[4]), max(0, as_number(reply[5]))
            return Granted(as_number(reply[1]), as_number(reply[2]), reply[3] == b"1", others, mark=mark)
        case b"missing":
            return Missing(LossReason(as_text(reply[1])))
    return Finished()


def _renewed(answer: Reply) -> RenewOutcome:
    if isinstance(answer, int):
        return Renewed(answer)
    text = as_text(answer)
    return Failed(text.removeprefix("error ")) if text.startswith("error ") else Missing(LossReason(text))


def renew(reply: Reply) -> list[RenewOutcome]:
    return [_renewed(answer) for answer in as_list(reply)]


def info(reply: Reply) -> Held | None:
    reply = as_list(reply)
    if not reply:
        return None
    return Held(as_text(reply[0]), as_number(reply[1]), as_number(reply[2]), as_number(reply[3]), as_text(reply[4]))


def flag(reply: Reply) -> bool:
    return reply == 1
