"""How anyone can look at the last run of a job."""

from __future__ import annotations

from collections.abc import Sequence

from ..keys import Keys
from ..lock.inspection import LockInspection
from ..view import Command, NameView, number_of, text_of


class OnceInspection:
    """Looks at the run of one window; implements `Inspection`.

    Args:
        keys: names the keys.
        name: the job's.
    """

    def __init__(self, keys: Keys, name: str) -> None:
        self._name = name
        self._lock = LockInspection(keys, name, deep=False)
        key = keys.of("once", name).lock
        self.commands: Sequence[Command] = [
            ("HMGET", key, "fence", "started", "status", "by"),
            ("PTTL", key),
            *self._lock.commands,
        ]

    def decode(self, replies: Sequence[object], now_us: int) -> NameView | None:
        """See `Inspection.decode`. A run without an end runs while its lock is held under its fence."""
        match replies[0]:
            case [bytes() as fence, bytes(), bytes() as status, by]:
                lock = self._lock.decode(replies[2:], now_us)
                running = lock is not None and lock.taken and lock.fence == int(fence)
                state = "interrupted" if status == b"running" and not running else status.decode()
                ttl = max(0, number_of(replies[1])) / 1000
                return NameView("once", self._name, state, process=text_of(by), fence=int(fence), ttl=ttl)
        return None
