"""Some keys of a store at one moment: scripts run on them, and what they changed is written back."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple, TypeVar

from ...scripts.store import Damaged, Scores, Store

C = TypeVar("C", bound=Collection[Any])

KINDS: dict[type, str] = {str: "string", dict: "hash", Scores: "zset"}
"""What a value is called, as Redis's TYPE does."""


class Row(NamedTuple):
    """A key as a store keeps it.

    Attributes:
        kind: one of `KINDS`.
        value: the text itself; for a hash or a sorted set a JSON object.
        expires: microseconds of the store's clock; None for never.
    """

    kind: str
    value: str
    expires: int | None

    @classmethod
    def of_json(cls, kind: str, value: str, expires: int | None) -> Row:
        """The same if a text is kept as JSON, too. What cannot be read is of no kind."""
        if kind == "string":
            try:
                return cls(kind, json.loads(value), expires)
            except (ValueError, RecursionError):
                return cls("", value, expires)
        return cls(kind, value, expires)

    def as_json(self) -> str:
        """Its value as JSON."""
        return json.dumps(self.value) if self.kind == "string" else self.value


class Loaded(Store):
    """The keys of some requests.

    Args:
        now_us: the store's time, for all that runs here.
        rows: the keys that exist. One that is damaged is refused to those who need it; it can be deleted.
        listeners: how many listen on a channel.

    Attributes:
        published: what is to be sent once this is committed: (channel, payload).
        touched: the keys that were read or written: nothing depends on the others, and they stay as they are.
    """

    def __init__(self, now_us: int, rows: Mapping[str, Row], listeners: Callable[[str], int]) -> None:
        super().__init__(lambda: now_us)
        self.published: list[tuple[str, str]] = []
        self.touched: set[str] = set()
        self._rows = rows
        self._listeners = listeners
        for key, row in rows.items():
            try:
                self.load(key, _value(row), row.expires)
            except (ValueError, TypeError, AttributeError, RecursionError):
                text = f"DAMAGED the row of key {key!r} cannot be read: delete it while nobody holds the lock"
                self.load(key, Damaged(text), None)

    def publish(self, channel: str, payload: str) -> int:
        self.published.append((channel, payload))
        return self._listeners(channel)

    def numsub(self, channel: str) -> int:
        return self._listeners(channel)

    def set(self, key: str, value: str, px: int) -> None:
        self.touched.add(key)
        super().set(key, value, px)

    def flush(self) -> None:
        self.touched.update(self._rows)
        super().flush()

    def _expire(self, key: str) -> None:
        self.touched.add(key)  # all but set() ask so whether it is there
        super()._expire(key)

    def changes(self) -> dict[str, Row | None]:
        """What to write: a row, or None for a key that there is no more, unless that expired by itself."""
        now = self.wall_us()
        found: dict[str, Row | None] = {
            key: None
            for key, row in self._rows.items()
            if key in self.touched and (not isinstance(row.expires, int) or row.expires > now)
        }
        for key, value, expires in self.contents():
            if key not in self.touched:
                continue
            damaged = isinstance(value, Damaged)
            row = self._rows[key] if damaged else Row(KINDS[type(value)], _text(value), expires)
            if row != self._rows.get(key):
                found[key] = row
            else:
                found.pop(key, None)
        return found


def _value(row: Row) -> str | dict[str, str] | Scores:
    """Raises one of several errors if it is not what we write: others may edit a file."""
    if not isinstance(row.expires, int | None):
        raise TypeError
    if row.kind == "string":
        return _all_of(str, [row.value])[0]
    members: dict[str, Any] = json.loads(row.value)
    if row.kind == "zset":
        _all_of(int, members.values())
        return Scores.of(members)
    _all_of(str, members.values())
    if row.kind != "hash":
        raise ValueError
    return members


def _all_of(kind: type, values: C) -> C:
    if not {kind}.issuperset(map(type, values)):
        raise TypeError
    return values


def _text(value: str | dict[str, str] | Scores | list[str]) -> str:
    return value if isinstance(value, str) else _ENCODER.encode(value)


_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)
