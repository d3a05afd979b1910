"""Scripts run on both sides: on a real server, and over a store."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from typing import Any, Protocol, TypeVar

import redis

from aiolock.scripts import commands
from aiolock.scripts.base import Call, Reply, Script
from aiolock.scripts.keys import Keys
from aiolock.scripts.store import ErrorReply, Store, WrongType

R = TypeVar("R")

KEYS = Keys("aiolock")
LONG_MS = 10**9
KEPT_MS = 10**7
"""How long a test's own states last: less than a day, so that what they say of a hold counts."""
DENIAL = re.compile("NOPERM|ACL failure|can't run this command")
"""What different servers say of a denied command."""
WRAPPED = re.compile(r"^(?:ERR )?Error running script \(call to f_[0-9a-f]+\): @user_script: ?\d+: -?")
"""What servers before Redis 7 put in front of an error in a script."""
Seen = tuple[dict[str, str] | None, int]
"""A key's fields or scores (None if it has another type), and its PTTL."""


def gist(error: object) -> str:
    """The code of an error, or how it begins: without the place in a script that raised it."""
    return re.sub(r"^(ERR )?(@?user_script: ?\d+: )?", "", str(error))[:9]


class Refused(Exception):
    """The script ended with an error."""


class Side(Protocol):
    """A place where scripts run, and a view of what they left."""

    def run(self, call: Call[R]) -> R: ...

    def hash(self, key: str) -> dict[str, str]: ...

    def scores(self, key: str) -> dict[str, int]:
        """The members of a sorted set, lowest score first."""

    def score(self, key: str, member: str, score: int) -> None: ...

    def items(self, key: str) -> list[str]:
        """What is in a list."""

    def push(self, key: str, item: str) -> None: ...

    def get(self, key: str) -> str | None: ...

    def exists(self, key: str) -> bool: ...

    def pttl(self, key: str) -> int: ...

    def snapshot(self, keys: Sequence[str]) -> list[Seen]:
        """Look at many keys at once."""

    def hset(self, key: str, fields: dict[str, str]) -> None: ...

    def set(self, key: str, value: str) -> None: ...

    def delete(self, *keys: str) -> None: ...

    def expire(self, key: str) -> None:
        """Let a key's time run out."""

    def shorten(self, key: str, ttl_ms: int) -> None:
        """Leave a key this much time."""

    def flush(self) -> None: ...

    def listen(self, *channels: str) -> None: ...

    def heard(self) -> list[tuple[str, str]]:
        """What came on the channels since you last asked: (channel, payload), in order."""


GUARD = """
local server = redis
local function guarded(call)
  return function(...)
    for _, value in ipairs({ ... }) do
      if type(value) == 'number' and value >= 10000 then error('the server spells a number: ' .. value) end
    end
    return call(...)
  end
end
local redis = { call = guarded(server.call), pcall = guarded(server.pcall) }
"""
"""Goes in front of a script: ends it with an error if a command gets a number that some servers write as 1e+8."""


def guarded(lua: str) -> str:
    return GUARD + lua


class LuaSide:
    """The Lua, through EVALSHA.

    Args:
        link: a plain client.
        edit: changes each script before it is loaded.
    """

    def __init__(self, link: redis.Redis, edit: Callable[[str], str] = guarded) -> None:
        self.link = link
        self._pubsub = link.pubsub()
        self.edit = edit
        self._shas: dict[str, str] = {}

    def __repr__(self) -> str:
        return "lua"

    def run(self, call: Call[R]) -> R:
        script, keys = call.script, [*call.keys, *call.args]
        sha = self._shas.get(script.sha) or self.load(script)
        try:
            try:
                reply: Reply = self.link.evalsha(sha, len(call.keys), *keys)  # type: ignore[assignment]
            except redis.exceptions.NoScriptError:
                reply = self.link.evalsha(self.load(script), len(call.keys), *keys)  # type: ignore[assignment]
        except redis.exceptions.ResponseError as error:
            raise Refused(WRAPPED.sub("", str(error))) from error
        return script.decode(reply)

    def edited(self, edit: Callable[[str], str]) -> LuaSide:
        """Return this side with other scripts."""
        self.edit = edit
        return self

    def load(self, script: Script[Any]) -> str:
        """Load a script into the server; return its digest."""
        sha = self._shas[script.sha] = str(self.link.script_load(self.edit(script.lua)))
        return sha

    def hash(self, key: str) -> dict[str, str]:
        return {field.decode(): value.decode() for field, value in self.link.hgetall(key).items()}

    def scores(self, key: str) -> dict[str, int]:
        return _scores(self.link.zrange(key, 0, -1, withscores=True))

    def score(self, key: str, member: str, score: int) -> None:
        self.link.zadd(key, {member: score})

    def items(self, key: str) -> list[str]:
        return [item.decode() for item in self.link.lrange(key, 0, -1)]

    def push(self, key: str, item: str) -> None:
        self.link.rpush(key, item)

    def get(self, key: str) -> str | None:
        value = self.link.get(key)
        return None if value is None else value.decode()  # type: ignore[union-attr]

    def exists(self, key: str) -> bool:
        return bool(self.link.exists(key))

    def pttl(self, key: str) -> int:
        return int(self.link.pttl(key))

    def snapshot(self, keys: Sequence[str]) -> list[Seen]:
        batch = self.link.pipeline(transaction=False)
        for key in keys:
            batch.hgetall(key)
            batch.zrange(key, 0, -1, withscores=True)
            batch.pttl(key)
        replies = batch.execute(raise_on_error=False)
        return [
            (_content(fields, scores), pttl)
            for fields, scores, pttl in zip(replies[::3], replies[1::3], replies[2::3], strict=True)
        ]

    def hset(self, key: str, fields: dict[str, str]) -> None:
        self.link.hset(key, mapping=fields)

    def set(self, key: str, value: str) -> None:
        self.link.set(key, value, px=KEPT_MS)

    def delete(self, *keys: str) -> None:
        self.link.delete(*keys)

    def shorten(self, key: str, ttl_ms: int) -> None:
        self.link.pexpire(key, ttl_ms)

    def expire(self, key: str) -> None:
        self.link.pexpire(key, 1)
        wait_until(lambda: not self.link.exists(key))

    def flush(self) -> None:
        self.link.flushall()

    def listen(self, *channels: str) -> None:
        self._pubsub.subscribe(*channels)
        for _ in channels:
            while (message := self._pubsub.get_message(timeout=10.0)) is None or message["type"] != "subscribe":
                assert message is not None, "SUBSCRIBE was not confirmed"

    def heard(self) -> list[tuple[str, str]]:
        # The reply to PING comes after every message published before it.
        self._pubsub.ping("end")
        found: list[tuple[str, str]] = []
        while (message := self._pubsub.get_message(timeout=10.0)) is None or message["type"] != "pong":
            assert message is not None, "PING was not answered"
            found.append((message["channel"].decode(), message["data"].decode()))
        return found

    def close(self) -> None:
        channels = list(self._pubsub.channels)
        self._pubsub.close()
        if channels:  # or the next test's messages would arrive here
            with suppress(redis.exceptions.ConnectionError):  # the server is gone, and its subscribers with it
                wait_until(lambda: not any(count for _, count in self.link.pubsub_numsub(*channels)))


class StoreSide:
    """The same over a store with this machine's clock.

    Args:
        edit: changes each script.
    """

    def __init__(self, edit: Callable[[str], str] = guarded) -> None:
        self.store = Store(lambda: time.time_ns() // 1000)
        self._edit = edit
        self._heard: list[tuple[str, str]] = []

    def __repr__(self) -> str:
        return "store"

    def run(self, call: Call[R]) -> R:
        try:
            reply = commands.run(self.store, self._edit(call.script.lua), call.keys, call.args)
        except ErrorReply as error:
            raise Refused(str(error)) from error
        return call.script.decode(reply)

    def hash(self, key: str) -> dict[str, str]:
        return self.store.hgetall(key)

    def scores(self, key: str) -> dict[str, int]:
        return {member: score for score, member in self.store.ranked(key)}

    def score(self, key: str, member: str, score: int) -> None:
        self.store.zadd(key, score, member)

    def items(self, key: str) -> list[str]:
        return self.store.lrange(key)

    def push(self, key: str, item: str) -> None:
        self.store.rpush(key, item)

    def get(self, key: str) -> str | None:
        return self.store.get(key)

    def exists(self, key: str) -> bool:
        return self.store.exists(key)

    def pttl(self, key: str) -> int:
        return self.store.pttl(key)

    def snapshot(self, keys: Sequence[str]) -> list[Seen]:
        return [(self._content(key), self.store.pttl(key)) for key in keys]

    def _content(self, key: str) -> dict[str, str] | None:
        with suppress(WrongType):
            return self.store.hgetall(key)
        with suppress(WrongType):
            return {member: str(score) for member, score in self.scores(key).items()}
        return None

    def hset(self, key: str, fields: dict[str, str]) -> None:
        self.store.hset(key, fields)

    def set(self, key: str, value: str) -> None:
        self.store.delete(key)
        self.store.set(key, value, KEPT_MS)

    def delete(self, *keys: str) -> None:
        for key in keys:
            self.store.delete(key)

    def shorten(self, key: str, ttl_ms: int) -> None:
        self.store.pexpire(key, ttl_ms)

    def expire(self, key: str) -> None:
        self.store.pexpire(key, 1)
        wait_until(lambda: not self.store.exists(key))

    def flush(self) -> None:
        self.store.flush()

    def listen(self, *channels: str) -> None:
        for channel in channels:
            self.store.subscribe(channel, lambda payload, channel=channel: self._heard.append((channel, payload)))

    def heard(self) -> list[tuple[str, str]]:
        found, self._heard = self._heard, []
        return found


def _scores(pairs: Any) -> dict[str, int]:
    return {member.decode(): int(score) for member, score in pairs}


def _content(fields: Any, pairs: Any) -> dict[str, str] | None:
    if isinstance(fields, dict):
        return {field.decode(): value.decode() for field, value in fields.items()}
    return {member: str(score) for member, score in _scores(pairs).items()} if isinstance(pairs, list) else None


def wait_until(check: Callable[[], object], seconds: float = 10.0) -> None:
    """Ask again and again, for what the server cannot announce."""
    until = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < until, f"not true after {seconds} s"
        time.sleep(0.001)


def parts(value: object) -> list[tuple[str, object]] | None:
    """Return what an answer or a list consists of, with the names of its fields; None if it is one plain value."""
    if is_dataclass(value):
        return [(field.name, getattr(value, field.name)) for field in fields(value)]
    if isinstance(value, tuple | list):
        return list(zip(getattr(value, "_fields", None) or [""] * len(value), value, strict=True))
    return None
