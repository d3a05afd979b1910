"""What a server keeps, in this process: keys with types and expiries, and channels."""

from __future__ import annotations

import threading
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

T = TypeVar("T")


class ErrorReply(Exception):
    """The text of a server's error reply."""


class WrongType(ErrorReply):
    """A key holds another type than the command works on."""

    def __init__(self, text: str = "WRONGTYPE Operation against a key holding the wrong kind of value") -> None:
        super().__init__(text)


class Damaged(str):
    """Stands for a value that cannot be read, and says so; no command works on it."""

    __slots__ = ()


class Scores(dict[str, int]):
    """A sorted set: member -> score. Scripts store whole scores.

    Attributes:
        ranked: (score, member), lowest first.
    """

    def __init__(self) -> None:
        self.ranked: list[tuple[int, str]] = []

    @classmethod
    def of(cls, members: Mapping[str, int]) -> Scores:
        """Return the set of these scores."""
        made = cls()
        made.update(members)  # in C: our own `__setitem__` is for one at a time
        made.ranked = sorted((score, member) for member, score in members.items())
        return made

    def __setitem__(self, member: str, score: int) -> None:
        if member in self:
            del self[member]
        super().__setitem__(member, score)
        insort(self.ranked, (score, member))

    def __delitem__(self, member: str) -> None:
        del self.ranked[bisect_left(self.ranked, (self[member], member))]
        super().__delitem__(member)


class Store:
    """Keys with types and expiries, and channels with subscribers.

    Values are text: scripts never store anything else.

    Args:
        wall_us: the server's wall clock, in microseconds since the epoch.

    Attributes:
        mutex: whoever has it runs a script alone, if loops in several threads share the store.
    """

    def __init__(self, wall_us: Callable[[], int]) -> None:
        self.wall_us = wall_us
        self.mutex: threading.RLock = threading.RLock()
        self._values: dict[str, str | dict[str, str] | Scores | list[str]] = {}
        self._expiries: dict[str, int] = {}
        self._subscribers: dict[str, list[Callable[[str], None]]] = {}

    def load(self, key: str, value: str | dict[str, str] | Scores | list[str], expires_us: int | None) -> None:
        """Put a key there as it was kept elsewhere."""
        self._values[key] = value
        if expires_us is not None:
            self._expiries[key] = expires_us

    def contents(self) -> Iterator[tuple[str, str | dict[str, str] | Scores | list[str], int | None]]:
        """Each key with its value and its expiry, in microseconds of the clock."""
        for key, value in self._values.items():
            yield key, value, self._expiries.get(key)

    def exists(self, key: str) -> bool:
        self._expire(key)
        return key in self._values

    def delete(self, key: str) -> int:
        found = self.exists(key)
        self._values.pop(key, None)
        self._expiries.pop(key, None)
        return int(found)

    def pttl(self, key: str) -> int:
        if not self.exists(key):
            return -2
        until = self._expiries.get(key)
        return -1 if until is None else max(0, (until - self.wall_us() + 999) // 1000)

    def pexpire(self, key: str, ms: int) -> int:
        if not self.exists(key):
            return 0
        self._expiries[key] = self.wall_us() + ms * 1000
        self._expire(key)
        return 1

    def set(self, key: str, value: str, px: int) -> None:
        self._values[key] = value
        self._expiries[key] = self.wall_us() + px * 1000

    def get(self, key: str) -> str | None:
        return self._typed(key, str) if self.exists(key) else None

    def incr(self, key: str, by: int = 1) -> int:
        value = int(self._typed(key, str) or 0) + by
        self._values[key] = str(value)
        return value

    def hget(self, key: str, field: str) -> str | None:
        return self._hash(key).get(field)

    def hmget(self, key: str, fields: Sequence[str]) -> list[str | None]:
        return [*map(self._hash(key).get, fields)]

    def hset(self, key: str, fields: dict[str, str]) -> int:
        """Return how many of the fields are new."""
        values = self._hash(key)
        known = len(values)
        values.update(fields)
        self._values[key] = values
        return len(values) - known

    def hdel(self, key: str, field: str) -> int:
        return self._remove(key, self._hash(key), field)

    def hlen(self, key: str) -> int:
        return len(self._hash(key))

    def hgetall(self, key: str) -> dict[str, str]:
        return dict(self._hash(key))

    def zadd(self, key: str, score: int, member: str) -> int:
        """Return 1 if the member is new."""
        scores = self._typed(key, Scores)
        known = len(scores)
        scores[member] = score
        self._values[key] = scores
        return len(scores) - known

    def zrem(self, key: str, member: str) -> int:
        return self._remove(key, self._typed(key, Scores), member)

    def zscore(self, key: str, member: str) -> int | None:
        return self._typed(key, Scores).get(member)

    def ranked(self, key: str) -> list[tuple[int, str]]:
        """Return all scores and members, lowest first; not a copy."""
        return self._typed(key, Scores).ranked

    def lrange(self, key: str) -> list[str]:
        return list(self._list(key))

    def rpush(self, key: str, item: str) -> int:
        items = self._list(key)
        items.append(item)
        self._values[key] = items
        return len(items)

    def lrem(self, key: str, item: str) -> int:
        """Return how many there were of it; all of them are gone."""
        items = self._list(key)
        count = items.count(item)
        items[:] = [other for other in items if other != item]
        if not items:
            self.delete(key)
        return count

    def publish(self, channel: str, payload: str) -> int:
        listeners = list(self._subscribers.get(channel, ()))
        for deliver in listeners:
            deliver(payload)
        return len(listeners)

    def numsub(self, channel: str) -> int:
        return len(self._subscribers.get(channel, ()))

    def subscribe(self, channel: str, deliver: Callable[[str], None]) -> None:
        self._subscribers.setdefault(channel, []).append(deliver)

    def unsubscribe(self, channel: str, deliver: Callable[[str], None]) -> None:
        listeners = self._subscribers.get(channel, [])
        if deliver in listeners:
            listeners.remove(deliver)
        if not listeners:
            self._subscribers.pop(channel, None)

    def flush(self) -> None:
        """Forget every key, as FLUSHALL or a restart without persistence does; subscriptions stay."""
        self._values.clear()
        self._expiries.clear()

    def keys(self) -> list[str]:
        """Return every live key, in no particular order."""
        return [key for key in list(self._values) if self.exists(key)]

    def _hash(self, key: str) -> dict[str, str]:
        found: dict[str, str] = self._typed(key, dict)
        return found

    def _list(self, key: str) -> list[str]:
        found: list[str] = self._typed(key, list)
        return found

    def _typed(self, key: str, kind: type[T]) -> T:
        value = self._values[key] if self.exists(key) else kind()
        if type(value) is not kind:
            raise WrongType(value) if isinstance(value, Damaged) else WrongType
        return value

    def _remove(self, key: str, values: dict[str, str] | Scores, member: str) -> int:
        if member not in values:
            return 0
        del values[member]
        if not values:
            self.delete(key)
        return 1

    def _expire(self, key: str) -> None:
        until = self._expiries.get(key)
        if until is not None and self.wall_us() >= until:
            self._values.pop(key, None)
            self._expiries.pop(key, None)
