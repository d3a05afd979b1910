"""How anyone can look at a lock of Redisson's."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial

from ..view import Look, NameView, number_of, pairs_of
from .keys import RedissonKeys

_OWNED = re.compile(r"[0-9a-f-]{32,36}:\d+(:write)?=\d+$|mode=(read|write)$")
"""A field of a lock, with its value."""


def look(name: str) -> Look:
    """Return how to look at a name: a lock, a fair lock, a fenced lock, or a read-write lock."""
    keys = RedissonKeys(name)
    hash_, queue, _ = keys.line
    commands = [("HGETALL", hash_), ("PTTL", hash_), ("GET", keys.token), ("LLEN", queue)]
    return Look(commands, partial(_view, name))


def suspect(name: str) -> Look:
    """Return how to find out what a hash is, however large it is: a lock of Redisson's, or another program's."""
    return Look([("HSCAN", name, "0", "COUNT", "10")], partial(_owned, name))


def _owned(name: str, replies: Sequence[object], now_us: int) -> NameView | None:
    match replies[0]:
        case [_, list() as found] if found and all(map(_OWNED.match, map("=".join, pairs_of(found)))):
            return NameView("redisson", name, "held")
    return None


def _view(name: str, replies: Sequence[object], now_us: int) -> NameView | None:
    if any(isinstance(reply, Exception) for reply in replies):
        return None  # another program's
    holders = dict(pairs_of(replies[0]))
    pttl, token, waiting = map(number_of, replies[1:])
    state = holders.pop("mode", "held" if holders else "free")
    if not (holders or token or waiting):
        return None
    ttl = pttl / 1000 if pttl >= 0 else None
    owners = ", ".join(holders)
    return NameView("redisson", name, state, owners, None, token, ttl, used=len(holders), waiting=waiting)
