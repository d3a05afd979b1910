"""The store behaves like Redis, key by key."""

from __future__ import annotations

from typing import cast

import pytest

from aiolock import LockManager
from aiolock.scripts.keys import Keys
from aiolock.scripts.lock import LockCalls
from aiolock.scripts.store import Store, WrongType


class Wall:
    def __init__(self) -> None:
        self.us = 1_000_000

    def __call__(self) -> int:
        return self.us


@pytest.fixture
def wall() -> Wall:
    return Wall()


@pytest.fixture
def store(wall: Wall) -> Store:
    return Store(wall)


def test_a_key_expires_at_its_millisecond(store: Store, wall: Wall) -> None:
    store.set("k", "v", 10)
    assert (store.get("k"), store.pttl("k")) == ("v", 10)
    wall.us += 9_001
    assert (store.exists("k"), store.pttl("k")) == (True, 1)
    wall.us += 999
    assert (store.exists("k"), store.get("k"), store.pttl("k")) == (False, None, -2)
    assert store.keys() == []


def test_pttl_tells_no_expiry_from_no_key(store: Store) -> None:
    assert store.pttl("k") == -2
    store.hset("k", {"a": "1"})
    assert store.pttl("k") == -1


def test_pexpire(store: Store, wall: Wall) -> None:
    assert store.pexpire("k", 5) == 0
    store.hset("k", {"a": "1"})
    assert store.pexpire("k", 5) == 1
    assert store.pttl("k") == 5
    assert store.pexpire("k", 0) == 1
    assert not store.exists("k")


def test_hset_keeps_the_expiry_set_replaces_it(store: Store) -> None:
    store.hset("h", {"a": "1"})
    store.pexpire("h", 100)
    store.hset("h", {"b": "2"})
    assert (store.hgetall("h"), store.pttl("h")) == ({"a": "1", "b": "2"}, 100)
    store.set("s", "1", 100)
    store.set("s", "2", 7)
    assert (store.get("s"), store.pttl("s")) == ("2", 7)


def test_an_expired_hash_starts_afresh(store: Store, wall: Wall) -> None:
    store.hset("h", {"a": "1"})
    store.pexpire("h", 1)
    wall.us += 1_000
    store.hset("h", {"b": "2"})
    assert (store.hgetall("h"), store.pttl("h")) == ({"b": "2"}, -1)


def test_delete(store: Store) -> None:
    store.set("k", "v", 10)
    assert (store.delete("k"), store.delete("k")) == (1, 0)
    store.hset("k", {"a": "1"})
    assert store.pttl("k") == -1


@pytest.mark.parametrize("use", ["hget", "hset", "hgetall"])
def test_a_string_is_no_hash(store: Store, use: str) -> None:
    store.set("k", "v", 1000)
    with pytest.raises(WrongType, match="WRONGTYPE"):
        {
            "hget": lambda: store.hget("k", "a"),
            "hset": lambda: store.hset("k", {"a": "1"}),
            "hgetall": lambda: store.hgetall("k"),
        }[use]()
    assert store.get("k") == "v"


def test_a_hash_is_no_string(store: Store) -> None:
    store.hset("k", {"a": "1"})
    with pytest.raises(WrongType):
        store.get("k")


def test_hgetall_is_a_copy(store: Store) -> None:
    store.hset("k", {"a": "1"})
    store.hgetall("k")["a"] = "2"
    assert store.hget("k", "a") == "1"


def test_channels(store: Store) -> None:
    heard: list[str] = []
    assert (store.publish("c", "nobody"), store.numsub("c")) == (0, 0)
    store.subscribe("c", heard.append)
    store.subscribe("c", heard.append)
    assert (store.numsub("c"), store.publish("c", "x")) == (2, 2)
    store.unsubscribe("c", heard.append)
    store.unsubscribe("d", heard.append)
    assert store.publish("c", "y") == 1
    assert heard == ["x", "x", "y"]
    store.unsubscribe("c", heard.append)
    assert store.numsub("c") == 0


def test_flush_keeps_subscriptions(store: Store) -> None:
    heard: list[str] = []
    store.subscribe("c", heard.append)
    store.set("k", "v", 10)
    store.flush()
    assert store.keys() == []
    store.publish("c", "x")
    assert heard == ["x"]


async def test_a_call_ends_for_its_caller_also_if_its_callback_fails(
    locks: LockManager, caplog: pytest.LogCaptureFixture
) -> None:
    """As on a server. Kept by MemoryBackend._answer: `call.end`."""
    call = LockCalls(Keys("aiolock"), "a", 3_000).info()
    call.settle = lambda outcome: cast(None, 1 / 0)
    seen = await locks._runtime.backend.run(call)
    assert seen.holders == 0
    assert [record.getMessage() for record in caplog.records] == ["the callback of a finished request failed"]
