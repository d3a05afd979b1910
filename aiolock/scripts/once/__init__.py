"""The scripts of the recipe `once()`: a record of the last run, in one slot with the lock that guards it."""

from __future__ import annotations

from collections.abc import Sequence

from ..base import Call, Script
from ..keys import Keys
from . import decode
from .decode import KeptRun as KeptRun

RUN = ("lock/clock", "lock/state", "run")

LAST_RUN = Script(__name__, "last_run", decode.kept_run, prelude=RUN)
BEGIN = Script(__name__, "begin", decode.kept_run, decode.not_kept, RUN)
FINISH = Script(__name__, "finish", decode.flag, decode.not_kept)
UNDO = Script(__name__, "undo", decode.flag, decode.not_kept, ("lock/clock",))
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

    def begin(self, fence: int, window_ms: int, repeatable: Sequence[str], by: str) -> Call[KeptRun | None]:
        """Begin a run under the hold with this fence, however often this is executed."""
        allowed = "".join(f" {status} " for status in repeatable)
        return Call(self.name, BEGIN, self._keys, (fence, window_ms, allowed, by))

    def finish(self, fence: int, status: str) -> Call[bool]:
        """Keep how the run ended; written again if it went unanswered, as no other run can have its fence."""
        return Call(self.name, FINISH, self._keys[1:], (fence, status), unanswered=lambda: True)

    def undo(self, fence: int) -> Call[bool]:
        """Forget a run that has not called its function; written again if it went unanswered."""
        return Call(self.name, UNDO, self._keys[1:], (fence,), unanswered=lambda: True)

    def forget(self) -> Call[bool]:
        """Forget any run. Never written again if it went unanswered: by then it may be a newer one."""
        return Call(self.name, FINISH, self._keys[1:], ("", ""))
