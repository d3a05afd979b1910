"""Names that a user's own transaction has, until it ends: `hold_in()`. No row says so, as nothing of it is committed.

Whoever grants such a name tries the lock of its transaction, as it does with those who listen. If that is taken, the
scripts run on a lock that somebody else has for a moment: so they queue, and ask again when that is over.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from ...scripts.foreign import VERSION
from ...scripts.store import ErrorReply, WrongType
from .loaded import Loaded, Row

OWNER = "transaction:0"
PROCESS = "a transaction in the database"
"""What those who wait are told about the holder."""
PAUSE_MS = 200
"""For how long they are told that it lasts: then they ask again."""
DAY_US = 86_400_000_000
"""By how much the key of a lock outlives the hold: see lock/state.lua."""


def is_lock(key: str) -> bool:
    """Whether it is the state of a lock, which can be held so."""
    return key.endswith("}") and ":lock:{" in key


def grants(row: Row | None) -> bool:
    """Whether this state of a lock has a holder, or had one."""
    return row is not None and '"owner":' in row.value


def lasts(row: Row | None, now_us: int) -> bool:
    """Whether somebody holds the lock by a lease. A state that cannot be read counts: whoever needs it is told."""
    if row is None or not grants(row):
        return False
    try:
        expires = int(json.loads(row.value)["expires"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return True
    return expires > now_us // 1000 or (row.expires or 0) - now_us > DAY_US


class LoadedBesideTransactions(Loaded):
    """The same as `Loaded`, where transactions have some locks.

    Args:
        now_us, rows, listeners: see there.
        held: the states of those locks.
    """

    def __init__(
        self, now_us: int, rows: Mapping[str, Row], listeners: Callable[[str], int], held: Iterable[str]
    ) -> None:
        super().__init__(now_us, rows, listeners)
        self._held = frozenset(held)
        for key in self._held:
            with suppress(WrongType):  # those who need it are told that it is damaged
                fence = self.hget(key, "fence") or "0"
                ends = str(now_us // 1000 + PAUSE_MS)
                state = {"owner": OWNER, "depth": "1", "fence": fence, "before": fence, "expires": ends}
                self.load(key, {"version": VERSION, "abandoned": "0", "process": PROCESS, **state}, None)

    def hset(self, key: str, fields: dict[str, str]) -> int:
        self._refuse(key)
        return super().hset(key, fields)

    def hdel(self, key: str, field: str) -> int:
        self._refuse(key)
        return super().hdel(key, field)

    def changes(self) -> dict[str, Row | None]:
        return {key: row for key, row in super().changes().items() if key not in self._held}

    def _refuse(self, key: str) -> None:
        """Only by force could anyone take it, and nobody can."""
        if key in self._held:
            raise ErrorReply(f"{PROCESS} has the lock until it ends: pg_locks says which, or end that session")
