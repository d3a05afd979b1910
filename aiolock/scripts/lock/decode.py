"""Raw replies of the lock's scripts, read."""

from __future__ import annotations

from ...errors import LossReason
from ..base import Reply
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


def _text(value: Reply) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _list(reply: Reply) -> list[Reply]:
    return reply if isinstance(reply, list) else [reply]


def _number(value: Reply) -> int:
    return int(value) if isinstance(value, (int, bytes)) else 0


def _granted(reply: list[Reply]) -> Granted:
    others = _number(reply[4]) if len(reply) > 4 else 0
    return Granted(_number(reply[1]), _number(reply[2]), reply[3] == b"1", others)


def acquire(reply: Reply) -> AcquireOutcome:
    reply = _list(reply)
    match _text(reply[0]):
        case "granted":
            return _granted(reply)
        case "refused":
            return Refused(_number(reply[1]), _number(reply[2]), _text(reply[3]))
        case "lost":
            return Lost(LossReason(_text(reply[1])))
    return Finished()


def release(reply: Reply) -> ReleaseOutcome:
    reply = _list(reply)
    match _text(reply[0]):
        case "released":
            return Released(_number(reply[1]))
        case "kept":
            return Kept(_number(reply[1]))
    return Missing(LossReason(_text(reply[1])))


def transfer(reply: Reply) -> TransferOutcome:
    reply = _list(reply)
    match _text(reply[0]):
        case "granted":
            return _granted(reply)
        case "missing":
            return Missing(LossReason(_text(reply[1])))
    return Finished()


def _renewed(answer: Reply) -> RenewOutcome:
    if isinstance(answer, int):
        return Renewed(answer)
    text = _text(answer)
    return Failed(text.removeprefix("error ")) if text.startswith("error ") else Missing(LossReason(text))


def renew(reply: Reply) -> list[RenewOutcome]:
    return [_renewed(answer) for answer in _list(reply)]


def info(reply: Reply) -> Held | None:
    reply = _list(reply)
    if not reply:
        return None
    return Held(_text(reply[0]), _number(reply[1]), _number(reply[2]), _number(reply[3]), _text(reply[4]))


def flag(reply: Reply) -> bool:
    return reply == 1
