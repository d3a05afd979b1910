"""Histories written by hand, for the tests of the models."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import Any

from .history import History
from .journal import Event
from .verdict import judge
from .violation import Violation

numbers = count(1000)


def stay(pid: int, kind: str, name: str, since: float, until: float | None, fence: int = 0, **more: Any) -> list[Event]:
    """A task asks, is in from `since` on, and leaves at `until`; None: it is killed inside.

    Args:
        more: fields of its begin; or `asked`, `queued`, `lost`, `abandoned`, `slots`, `how`, `reason`, `kept`,
            `kept_until`, `writes` (moments, and whether they were accepted), `detached`, `op`.
    """
    op = more.pop("op", None) or next(numbers)
    asked, queued = more.pop("asked", since), more.pop("queued", None)
    how, reason = more.pop("how", "done"), more.pop("reason", "")
    lost, kept, writes = more.pop("lost", False), more.pop("kept", ()), more.pop("writes", ())
    abandoned, slots = more.pop("abandoned", False), more.pop("slots", ())
    detached, kept_until = more.pop("detached", None), more.pop("kept_until", 0.0)
    told = [_note(pid, op, "began", asked, kind=kind, names=list(name), **more)]
    if queued is not None:
        told.append(_note(pid, op, "queued", queued))
    granted = {"fence": fence or int(since * 100), "lost": lost, "abandoned": abandoned, "slots": slots}
    granted["kept_until"] = kept_until
    told.append(_note(pid, op, "granted", since, **granted))
    told += [_note(pid, op, "kept", at, weight=weight) for at, weight in kept]
    for at, accepted in writes:
        told.append(_note(pid, op, "write", at, since=at, accepted=accepted, fence=fence or int(since * 100)))
    if until is not None:
        told.append(_note(pid, op, "left", until))
        if detached is not None:
            told.append(_note(pid, op, "detached", until, **detached))
        told.append(_note(pid, op, "ended", until, how=how, reason=reason))
    return told


def miss(pid: int, kind: str, name: str, since: float, until: float, reason: str, **more: Any) -> list[Event]:
    """A task asks, and does not get it; or loses it before it has all its answers, `how` lost."""
    op, how = more.pop("op", None) or next(numbers), more.pop("how", "missed")
    return [
        _note(pid, op, "began", since, kind=kind, names=list(name), **more),
        _note(pid, op, "ended", until, how=how, reason=reason),
    ]


def act(pid: int, kind: str, name: str, since: float, until: float, **more: Any) -> list[Event]:
    """A task does something that is done at once."""
    op = next(numbers)
    return [
        _note(pid, op, "began", since, kind=kind, names=list(name), **more),
        _note(pid, op, "ended", until, how="done"),
    ]


def ask(
    pid: int, kind: str, since: float, until: float | None, left: int | None, total: int = 2, **more: Any
) -> list[Event]:
    """A task asks the latch "l"; `until` None: it never hears the answer; `left` None: nothing is answered."""
    op = next(numbers)
    told = [_note(pid, op, "began", since, kind=kind, names=["l"], permits=total, **more)]
    if until is not None:
        if left is not None:
            told.append(_note(pid, op, "counted", until, left=left))
        failed = left is None and kind != "wait"
        told.append(
            _note(pid, op, "ended", until, how="missed" if failed else "done", reason="BackendError" if failed else "")
        )
    return told


def stalled(pid: int, since: float, until: float) -> Event:
    return {"event": "stalled", "pid": pid, "at": until, "since": since, "until": until}


def killed(pid: int, at: float) -> Event:
    return {"event": "killed", "pid": 0, "at": at, "process": pid}


def fault(since: float, until: float, **more: Any) -> list[Event]:
    number = next(numbers)
    return [
        {"event": "fault", "pid": 0, "at": since, "number": number, "what": "it", **more},
        {"event": "mended", "pid": 0, "at": until, "number": number},
    ]


def plan(**fields: Any) -> Event:
    return {"event": "plan", "pid": 0, "at": 0.0, **fields}


def history(*told: Event | Iterable[Event]) -> History:
    """What these events tell."""
    return History([event for some in told for event in ([some] if isinstance(some, dict) else some)])


def found(*told: Event | Iterable[Event]) -> dict[str, Violation]:
    """What the models find, each by its name."""
    return {find.model: find for find in judge(history(*told))}


def _note(pid: int, op: int, event: str, at: float, **fields: Any) -> Event:
    return {"event": event, "pid": pid, "at": float(at), "op": op, **fields}
