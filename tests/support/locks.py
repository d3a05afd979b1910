"""What a server keeps of a lock: who holds it and for how long, who waits, and what expires.

Every function takes the place to look at: a `Store`, a client of a server, or an object that has one as `store` or
`link`, such as a memory backend, a `Side` or a fault test's `Server`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import redis

from aiolock.scripts.keys import Keys
from aiolock.scripts.queue.records import Holder, read
from aiolock.scripts.store import Store
from tests.support.lock_calls import State

KEYS = Keys("aiolock")
NAME = "order:42"
_HELD_BY_ONE = re.compile(r".*:lock:\{[^}]*\}", re.DOTALL)
_HELD_BY_MANY = re.compile(r".*:(?:rw|semaphore):\{[^}]*\}:state", re.DOTALL)
Where = Any


class LockState(NamedTuple):
    """What is known of a lock, even if no one holds it.

    Attributes:
        holder: the owner's id; '' if no one holds it, also after an expiry.
        depth: how often; 0: granted from the queue, and not asked for yet.
        pttl: how long the hold lasts, in ms; 0 if no one holds it.
        fence: of the last grant.
        dirty: for a held name what its holder was told as `abandoned`, for a free one what the next holder is told.
        metadata: what the holder says of itself.
        kept: how long the server keeps all this, in ms; -2 if there is nothing.
    """

    holder: str = ""
    depth: int = 0
    pttl: int = 0
    fence: int = 0
    dirty: bool = False
    metadata: str = ""
    kept: int = -2

    @property
    def manager(self) -> str:
        """The id of the holder's manager."""
        return self.holder.partition(":")[0]


def parse(kept: Mapping[Any, Any], now_ms: int, pttl: int = -2) -> LockState:
    """Parse a lock's state as the server has it.

    Args:
        kept: the fields of its key.
        now_ms: the server's time.
        pttl: that of its key.
    """
    if not kept:
        return LockState()
    found = State.read({_text(field): _text(value) for field, value in kept.items()})
    left, dirty = max(0, found.expires - now_ms), found.abandoned == "1"
    if not left:  # the time is over: what was begun and not ended is dirty
        return LockState("", 0, 0, found.fence, dirty or found.depth > 0, "", pttl)
    return LockState(found.owner, found.depth, left, found.fence, dirty, found.process, pttl)


def state(where: Where, name: str = NAME, keys: Keys = KEYS) -> LockState:
    """What the server keeps of `name`."""
    return of_key(where, keys.of("lock", name).lock)


def of_key(where: Where, key: str) -> LockState:
    """What the server keeps in a lock's key."""
    place = _place(where)
    return parse(place.hgetall(key), _now_ms(place), int(place.pttl(key)))


def held(where: Where, name: str = NAME, keys: Keys = KEYS) -> bool:
    """Whether the name is held, and its time is not over."""
    return state(where, name, keys).holder != ""


def waiting(where: Where, name: str = NAME, keys: Keys = KEYS) -> list[str]:
    """The owners in its queue, first to last."""
    place, (_, queue, _) = _place(where), keys.of("lock", name).of_lock
    if isinstance(place, Store):
        return [owner for _, owner in place.ranked(queue)]
    return [_text(owner) for owner in place.zrange(queue, 0, -1)]


def let_expire(where: Where, name: str = NAME, keys: Keys = KEYS) -> None:
    """Let the holder's time run out, without telling anyone."""
    _end_by(where, name, keys, 0)


def shorten(where: Where, pttl: int, name: str = NAME, keys: Keys = KEYS) -> None:
    """Leave the holder this much time, in ms."""
    _end_by(where, name, keys, pttl)


def change(where: Where, name: str = NAME, keys: Keys = KEYS, **fields: object) -> None:
    """Change its state, or create it.

    Args:
        where: the server.
        name: the lock's.
        keys: the spelling of keys.
        fields: `owner` ('' for none), `fence`, `before`, `depth`, `abandoned` ("0" or "1"), `expires` (server ms) or
            `process`.
    """
    place = _place(where)
    key = keys.of("lock", name).lock
    found = State.read({_text(field): _text(value) for field, value in place.hgetall(key).items()})
    changed = found._replace(**fields)  # type: ignore[arg-type]
    place.delete(key)
    if isinstance(place, Store):
        place.hset(key, changed.encode())
    else:
        place.hset(key, mapping=changed.encode())
    place.pexpire(key, 24 * 3_600_000 + max(0, changed.expires - _now_ms(place)))


def held_names(where: Where) -> list[str]:
    """The keys of all locks, read-write locks and semaphores that are held."""
    place = _place(where)
    now = _now_ms(place)
    return sorted(key for key in all_keys(place) if _holders(place, key, now))


def holders(where: Where, key: str) -> list[str]:
    """The owners that hold what this key keeps, and whose time is not over."""
    place = _place(where)
    return _holders(place, key, _now_ms(place))


def unlimited(where: Where) -> list[str]:
    """Every key without an expiry: there must be none."""
    place = _place(where)
    return sorted(key for key in all_keys(place) if place.pttl(key) == -1)


def nothing_held(where: Where) -> bool:
    """Whether nothing is held, no one waits for a lock, and every key expires."""
    return not (held_names(where) or all_waiting(where) or unlimited(where))


def all_waiting(where: Where) -> list[str]:
    """The queues of locks that are not empty."""
    return sorted(key for key in all_keys(where) if key.endswith("}:queue"))


def tombstones(where: Where) -> list[str]:
    """The keys of owners that may never come back."""
    return sorted(key for key in all_keys(where) if ":dead:" in key)


def all_keys(where: Where) -> list[str]:
    """Every key on the server, or on all masters of a cluster."""
    place = _place(where)
    if isinstance(place, redis.RedisCluster):
        found = place.keys("*", target_nodes=redis.RedisCluster.PRIMARIES)
    else:
        found = place.keys() if isinstance(place, Store) else place.keys("*")
    return [_text(key) for key in found]


def _place(where: Where) -> Any:
    for name in ("store", "link"):
        where = getattr(where, name, where)
    assert isinstance(where, Store | redis.Redis | redis.RedisCluster), f"neither a store nor a client: {where!r}"
    return where


def _now_ms(place: Any) -> int:
    if isinstance(place, Store):
        return place.wall_us() // 1000
    found = place.time()
    # All nodes of a cluster here are on one machine.
    seconds, micros = next(iter(found.values())) if isinstance(found, dict) else found
    return int(seconds) * 1000 + int(micros) // 1000


def _end_by(where: Where, name: str, keys: Keys, pttl: int) -> None:
    place = _place(where)
    assert state(place, name, keys).holder, f"no one holds {name!r}"
    change(place, name, keys, expires=_now_ms(place) + pttl)


def _holders(place: Any, key: str, now_ms: int) -> list[str]:
    if _HELD_BY_ONE.fullmatch(key):
        holder = parse(place.hgetall(key), now_ms).holder
        return [holder] if holder else []
    if not _HELD_BY_MANY.fullmatch(key):
        return []
    # A record whose time is over holds nothing; the next request on the name takes it away.
    order = key.removesuffix("state") + "order"
    return [
        _text(owner)
        for owner, text in place.hgetall(key).items()
        if isinstance(read(_text(text)), Holder) and (place.zscore(order, _text(owner)) or 0) > now_ms
    ]


def _text(text: str | bytes) -> str:
    return text.decode(errors="surrogateescape") if isinstance(text, bytes) else text
