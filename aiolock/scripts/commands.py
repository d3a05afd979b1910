"""The commands that the scripts use, over a `Store`, and how a script runs there."""

from __future__ import annotations

import sys
import threading
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any

from ..errors import BackendError
from .base import Arg, Call, Reply
from .foreign import OTHER_TYPE, foreign
from .interpreter import Answer, Interpreter
from .store import ErrorReply, Store

Word = str | int | float
"""What a script gives a command; Lua's numbers come as they are."""
Ranked = list[tuple[int, str]]


def run(store: Store, lua: str, keys: Sequence[str], args: Sequence[Arg]) -> Reply:
    """Run a script on a store.

    Raises:
        ErrorReply: what a server would answer.
        ConfigurationError: lupa is not installed.
    """
    with store.mutex:
        return _interpreter().run(lua, store, keys, args)


def answer(store: Store, call: Call[Any]) -> Reply | BackendError:
    """Run a call on a store; return its raw reply, or the error for what a server would refuse."""
    try:
        return run(store, call.script.lua, call.keys, call.args)
    except ErrorReply as error:
        remedy = f" ({OTHER_TYPE})" if "WRONGTYPE" in str(error) else ""
        refusal = BackendError(call.name, foreign(str(error)) or f"{call.doing} was refused: {error}{remedy}")
        refusal.__cause__ = error
        return refusal


def _interpreter() -> Interpreter:
    """This thread's, for all stores: to compile a script takes longer than to run it."""
    found: Interpreter | None = getattr(_of_thread, "interpreter", None)
    if found is None:
        found = _of_thread.interpreter = Interpreter(COMMANDS)
    return found


_of_thread = threading.local()


def _text(word: Word) -> str:
    return word if isinstance(word, str) else f"{word:.17g}"


def _time(store: Store) -> Answer:
    seconds, micros = divmod(store.wall_us(), 1_000_000)
    return [str(seconds), str(micros)]


def _exists(store: Store, *keys: str) -> Answer:
    return sum(map(store.exists, keys))


def _delete(store: Store, *keys: str) -> Answer:
    return sum(map(store.delete, keys))


def _pexpire(store: Store, key: str, ms: Word) -> Answer:
    return store.pexpire(key, int(ms))


def _set(store: Store, key: str, value: Word, _px: str, ms: Word) -> Answer:
    store.set(key, _text(value), int(ms))
    return "OK"


def _incrby(store: Store, key: str, by: Word) -> Answer:
    return store.incr(key, int(by))


def _hmget(store: Store, key: str, *fields: str) -> Answer:
    return [*store.hmget(key, fields)]


def _hgetall(store: Store, key: str) -> list[Answer]:
    return [word for pair in store.hgetall(key).items() for word in pair]


def _hscan(store: Store, key: str, *_options: Word) -> Answer:
    return ["0", _hgetall(store, key)]  # all at once, as a server does with a small hash


def _hset(store: Store, key: str, *words: Word) -> Answer:
    texts = [_text(word) for word in words]
    return store.hset(key, dict(zip(texts[::2], texts[1::2], strict=True)))


def _hdel(store: Store, key: str, *fields: str) -> Answer:
    return sum(store.hdel(key, field) for field in fields)


def _zadd(store: Store, key: str, *words: Any) -> Answer:
    only_new = words[0] == "NX"
    pairs = zip(words[only_new::2], words[only_new + 1 :: 2], strict=True)
    return sum(
        store.zadd(key, int(score), member)
        for score, member in pairs
        if not only_new or store.zscore(key, member) is None
    )


def _zrem(store: Store, key: str, *members: str) -> Answer:
    return sum(store.zrem(key, member) for member in members)


def _zcard(store: Store, key: str) -> Answer:
    return len(store.ranked(key))


def _zscore(store: Store, key: str, member: str) -> Answer:
    score = store.zscore(key, member)
    return None if score is None else str(score)


def _zrank(store: Store, key: str, member: str) -> Answer:
    score = store.zscore(key, member)
    return None if score is None else bisect_left(store.ranked(key), (score, member))


def _zcount(store: Store, key: str, least: Word, most: Word) -> Answer:
    start, stop = _span(store.ranked(key), least, most)
    return stop - start


def _zrange(store: Store, key: str, start: Word, stop: Word, *options: Word) -> Answer:
    return _listed(store.ranked(key)[int(start) : int(stop) + 1 or None], options)


def _zrangebyscore(store: Store, key: str, least: Word, most: Word, *options: Word) -> Answer:
    ranked, (skip, count) = store.ranked(key), _limit(options)
    start, stop = _span(ranked, least, most)
    return _listed(ranked[start + skip : min(stop, start + skip + count)], options)


def _zrevrangebyscore(store: Store, key: str, most: Word, least: Word, *options: Word) -> Answer:
    ranked, (skip, count) = store.ranked(key), _limit(options)
    start, stop = _span(ranked, least, most)
    return _listed(ranked[max(start, stop - skip - count) : max(start, stop - skip)][::-1], options)


def _zremrangebyscore(store: Store, key: str, least: Word, most: Word) -> Answer:
    ranked = store.ranked(key)
    start, stop = _span(ranked, least, most)
    return _zrem(store, key, *(member for _, member in ranked[start:stop]))


def _span(ranked: Ranked, least: Word, most: Word) -> tuple[int, int]:
    """Where the scores in a range begin and end."""
    start = _place(ranked, least, after=False)
    return start, max(start, _place(ranked, most, after=True))


def _place(ranked: Ranked, end: Word, *, after: bool) -> int:
    """Where this score begins, or where it is over; "(5" is all above or below 5. Scores are whole."""
    text = _text(end)
    return bisect_left(ranked, (float(text.lstrip("(")) + (text.startswith("(") != after), ""))


def _limit(options: Sequence[Any]) -> tuple[int, int]:
    """How many to skip, and how many to list."""
    if "LIMIT" not in options:
        return 0, sys.maxsize
    at = options.index("LIMIT")
    return int(options[at + 1]), int(options[at + 2])


def _listed(found: Ranked, options: Sequence[Word]) -> Answer:
    if "WITHSCORES" in options:
        return [word for score, member in found for word in (member, str(score))]
    return [member for _, member in found]


def _lrange(store: Store, key: str, start: Word, stop: Word) -> Answer:
    return [*store.lrange(key)[int(start) : int(stop) + 1 or None]]


def _lrem(store: Store, key: str, count: Word, item: str) -> Answer:
    assert int(count) == 0
    return store.lrem(key, item)


def _publish(store: Store, channel: str, payload: str) -> Answer:
    return store.publish(channel, payload)


def _pubsub(store: Store, _numsub: str, channel: str) -> Answer:
    return [channel, store.numsub(channel)]


COMMANDS: dict[str, Callable[..., Answer]] = {
    "TIME": _time,
    "EXISTS": _exists,
    "DEL": _delete,
    "PTTL": Store.pttl,
    "PEXPIRE": _pexpire,
    "GET": Store.get,
    "SET": _set,
    "INCR": Store.incr,
    "INCRBY": _incrby,
    "HGET": Store.hget,
    "HMGET": _hmget,
    "HGETALL": _hgetall,
    "HSCAN": _hscan,
    "HLEN": Store.hlen,
    "HSET": _hset,
    "HDEL": _hdel,
    "ZADD": _zadd,
    "ZREM": _zrem,
    "ZCARD": _zcard,
    "ZSCORE": _zscore,
    "ZRANK": _zrank,
    "ZCOUNT": _zcount,
    "ZRANGE": _zrange,
    "ZRANGEBYSCORE": _zrangebyscore,
    "ZREVRANGEBYSCORE": _zrevrangebyscore,
    "ZREMRANGEBYSCORE": _zremrangebyscore,
    "LRANGE": _lrange,
    "RPUSH": Store.rpush,
    "LREM": _lrem,
    "PUBLISH": _publish,
    "PUBSUB": _pubsub,
}
"""What the scripts use; the tests compare each with a server's."""
