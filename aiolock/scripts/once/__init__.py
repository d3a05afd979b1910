"""The scripts of the recipe `once()`, their answers, and how anyone can look at a run.

A record of the last run is in one slot with the lock that guards it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from ...errors import BackendError
from ..base import Call, Reply, Script, as_flag, as_list, as_number, as_text
from ..keys import Keys
from ..lock.inspection import LockInspection
from ..view import Look, NameView, number_of, text_of


class KeptRun(NamedTuple):
    """The last run of a window: how it is, how old, for how long it is kept (both in ms), and whose it is.

    `mine`: the request began it. A `status` of "held": no run is kept, and this one has the lock.
    """

    mine: bool
    fence: int
    status: str
    age: int
    left: int
    by: str


def _kept_run(reply: Reply) -> KeptRun | None:
    match as_list(reply):
        case [_]:
            return None
        case [int(mine), fence, status, int(age), int(left), by]:
            return KeptRun(mine == 1, as_number(fence), as_text(status), age, left, as_text(by))
    raise ValueError(f"neither a run nor none: {reply!r}")


def _not_kept(result: object, error: BackendError) -> BackendError:
    """What an answer is worth that too few replicas have: a failover could forget the run."""
    return error


RUN = ("lock/version", "lock/clock", "lock/state", "run")

LAST_RUN = Script(__name__, "last_run", _kept_run, prelude=RUN)
BEGIN = Script(__name__, "begin", _kept_run, _not_kept, RUN)
FINISH = Script(__name__, "finish", as_flag, _not_kept, ("lock/version",))
UNDO = Script(__name__, "undo", as_flag, _not_kept, ("lock/version", "lock/clock"))
SCRIPTS = (LAST_RUN, BEGIN, FINISH, UNDO)


class OnceCalls:
    """Requests about the runs of one key.

    Args:
        keys: names the keys.
        name: the key, which is also the lock's name.
    """

    __slots__ = ("_keys", "name")

    kind = "once"

    def __init__(self, keys: Keys, name: str) -> None:
        self.name: str = name
        self._keys = (keys.of("lock", name).lock, keys.of(self.kind, name).lock)

    def last_run(self) -> Call[KeptRun | None]:
        return Call(self.name, LAST_RUN, self._keys, ())

    def begin(self, fence: int, window_ms: int, repeatable: Sequence[str], process: str) -> Call[KeptRun | None]:
        """Begin a run under the hold with this fence, however often this is executed."""
        allowed = "".join(f" {status} " for status in repeatable)
        return Call(self.name, BEGIN, self._keys, (fence, window_ms, allowed, process))

    def finish(self, fence: int, status: str) -> Call[bool]:
        """Keep how the run ended; written again if it went unanswered, as no other run can have its fence."""
        return Call(self.name, FINISH, self._keys[1:], (fence, status), unanswered=lambda: True)

    def undo(self, fence: int) -> Call[bool]:
        """Forget a run that has not called its function; written again if it went unanswered."""
        return Call(self.name, UNDO, self._keys[1:], (fence,), unanswered=lambda: True)

    def forget(self) -> Call[bool]:
        """Forget any run. Never written again if it went unanswered: by then it may be a newer one."""
        return Call(self.name, FINISH, self._keys[1:], ("", ""))


def look(keys: Keys, name: str) -> Look:
    """Return how anyone can look at the last run of a job."""
    key, lock = keys.of(OnceCalls.kind, name).lock, LockInspection(keys, name, deep=False)
    fields = ("fence", "started", "status", "process")
    return Look([("HMGET", key, *fields), ("PTTL", key), *lock.commands], partial(_view, name, lock))


def _view(name: str, lock: LockInspection, replies: Sequence[object], now_us: int) -> NameView | None:
    """A run without an end runs while its lock is held under its fence."""
    match replies[0]:
        case [bytes() as fence, bytes(), bytes() as status, process]:
            held = lock.decode(replies[2:], now_us)
            running = held is not None and held.taken and held.fence == int(fence)
            state = "interrupted" if status == b"running" and not running else status.decode()
            ttl = max(0, number_of(replies[1])) / 1000
            since = held.held_for if held is not None and running else None
            return NameView(OnceCalls.kind, name, state, text_of(process), None, int(fence), ttl, since)
    return None
