"""The commands of a store answer scripts as a server does. The differential tests use them in the scripts' ways."""

from __future__ import annotations

import re
from typing import Any

import pytest

from aiolock.scripts import condition, guard, latch, lock, multi, once, outcome, queue
from aiolock.scripts.base import Call
from aiolock.scripts.commands import COMMANDS
from tests.support import redisson_wire
from tests.support.scripting import LuaSide, Refused, Side, StoreSide

FAMILIES: tuple[Any, ...] = (condition, guard, latch, lock, multi, once, outcome, queue, redisson_wire)
TEXT = "call('SET', K, 7, 'PX', '100000') "
FIELDS = "call('HSET', K, 'a', 'x', 'b', 2) "
ORDER = "call('ZADD', K, 5, 'e', 1, 'a', 3, 'cc', 3, 'c', '9', 'i') "
PLACES = "call('RPUSH', K, 'a') call('RPUSH', K, 'b') call('RPUSH', K, 'a') "
ALL = "call('ZRANGE', K, 0, -1, 'WITHSCORES')"
RANKS = [(0, 0), (1, 2), (-1, -1), (-2, 9), (0, -2), (5, 6), (3, 1)]
SCORES = [("-inf", "+inf"), (3, 5), ("(3", 5), (3, "(5"), ("(3", "(5"), (6, 8), ("(9", "+inf"), (9, 1)]


def answer(side: Side, lua: str) -> object:
    """What this Lua returns; K and L are keys."""
    script = latch.DELETE.after(f"do local call, K, L = redis.call, KEYS[1], KEYS[2] {lua} end ")
    script.decode = lambda reply: reply  # type: ignore[assignment,return-value]
    try:
        return side.run(Call("", script, ("k", "l"), ("x", 12)))
    except Refused as error:
        return "WRONGTYPE" if "WRONGTYPE" in str(error) else "an error"


@pytest.mark.parametrize(
    "text",
    [
        "return call('SET', K, 'a', 'PX', 100000)",
        TEXT + "return { call('GET', K), call('GET', L) }",
        TEXT + "return { call('INCR', K), call('GET', K), call('PTTL', K) > 1, call('INCR', L), call('PTTL', L) }",
        TEXT + "return { call('INCRBY', K, '-9'), call('GET', K), call('PTTL', K) > 1, call('INCRBY', L, 5) }",
        TEXT + "return { call('EXISTS', K, L, K), call('EXISTS', L) }",
        TEXT + "return { call('DEL', K, L), call('DEL', K) }",
        TEXT + "call('SET', L, 8, 'PX', 9000) return { call('DEL', K, L), call('EXISTS', K, L) }",
        TEXT + "return { call('PTTL', K) > 90000, call('PTTL', K) <= 100000, call('PTTL', L) }",
        FIELDS + "return { call('PTTL', K), call('PEXPIRE', K, '100000'), call('PTTL', K) > 1, call('PEXPIRE', L, 9) }",
        FIELDS + "return { call('HSET', K, 'b', 3, 'c', 4), call('HSET', K, 'c', 5) }",
        FIELDS + "return { call('HGET', K, 'b'), call('HGET', K, 'c'), call('HLEN', K), call('HLEN', L) }",
        FIELDS + "return { call('HMGET', K, 'c', 'a', 'd', 'b'), call('HMGET', L, 'a') }",
        FIELDS + "return { call('HGETALL', K), call('HGETALL', L) }",
        FIELDS + "return call('HSCAN', K, 1234, 'COUNT', 50)",
        FIELDS + "return { call('HDEL', K, 'a', 'c'), call('HDEL', K, 'b'), call('EXISTS', K) }",
        ORDER + f"return {{ call('ZADD', K, 7, 'a', 8, 'z'), {ALL} }}",
        ORDER + f"return {{ call('ZADD', K, 'NX', 7, 'a', 8, 'z'), {ALL} }}",
        ORDER + "return { call('ZREM', K, 'a', 'b', 'c'), call('ZCARD', K), call('ZCARD', L) }",
        ORDER + "return { call('ZREM', K, 'a', 'e', 'c', 'cc', 'i'), call('EXISTS', K) }",
        ORDER + "return { call('ZSCORE', K, 'i'), call('ZSCORE', K, 'b'), call('ZSCORE', L, 'b') }",
        ORDER + "return { call('ZRANK', K, 'cc'), call('ZRANK', K, 'a'), call('ZRANK', K, 'b') }",
        *(ORDER + f"return call('ZRANGE', K, {start}, {stop})" for start, stop in RANKS),
        *(
            ORDER
            + f"local least, most = '{least}', '{most}' return {{ call('ZCOUNT', K, least, most), "
            + "call('ZRANGEBYSCORE', K, least, most), call('ZRANGEBYSCORE', K, least, most, 'LIMIT', 1, 2), "
            + "call('ZREVRANGEBYSCORE', K, most, least, 'WITHSCORES'), "
            + "call('ZREVRANGEBYSCORE', K, most, least, 'WITHSCORES', 'LIMIT', 1, 2), "
            + f"call('ZREMRANGEBYSCORE', K, least, most), {ALL}, call('ZREMRANGEBYSCORE', L, least, most) }}"
            for least, most in SCORES
        ),
        PLACES + "return { call('LREM', K, 0, 'a'), call('LREM', K, 0, 'c'), call('LREM', L, 0, 'c') }",
        *(PLACES + f"call('LREM', K, 0, 'a') call('LREM', K, 0, 'b') return call({words})"
          for words in ("'EXISTS', K", "'LRANGE', K, 0, 9")),
        *(PLACES + f"return call('LRANGE', K, {start}, {stop})" for start, stop in RANKS),
        "return { call('PUBLISH', 'c', 'x'), call('PUBSUB', 'NUMSUB', 'c') }",
        "local time = call('TIME') return { #time, type(time[1]), #time[2] <= 6 }",
        *(f"{TEXT} return call({words})" for words in ("'HSET', K, 'a', 1", "'HGETALL', K", "'ZADD', K, 1, 'a'")),
        *(f"{FIELDS} return call({words})" for words in ("'GET', K", "'ZADD', K, 1, 'a'", "'ZRANGE', K, 0, -1")),
        ORDER + "return string.sub(redis.pcall('HLEN', K).err, 1, 9)",
        "return undefined",
        "return { KEYS, ARGV, 3.7, -3.7, true, false, 'end' }",
    ],
)  # fmt: skip
def test_a_store_answers_as_a_server_does(lua: LuaSide, text: str) -> None:
    store = StoreSide()
    assert answer(store, text) == answer(lua, text)
    assert lua.snapshot(["k", "l"])[0][0] == store.snapshot(["k", "l"])[0][0]


def test_each_command_of_the_scripts_is_there_and_no_other() -> None:
    text = "".join(script.lua for family in FAMILIES for script in family.SCRIPTS)
    assert set(re.findall(r"redis\.p?call\('([A-Z]+)'", text)) == COMMANDS.keys()
