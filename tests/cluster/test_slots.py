"""Slots of keys, and what a cluster says of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiolock.backends.cluster.slots import SLOTS, read_map, read_redirection, slot_of, tag_of
from aiolock.backends.redis import Address
from tests.support.cluster import Cluster
from tests.support.generated import examples
from tests.support.locks import KEYS

HERE = Address("10.0.0.1", 7000)


def same(address: Address) -> Address:
    return address


@pytest.mark.parametrize("key", ["", "a", "{", "}", "{}", "{}a", "a{}b", "a{b}c{d}", "a{{b}}", "}{a}", "ä{ö}", "{a"])
def test_the_server_agrees(cluster: Cluster, key: str) -> None:
    assert slot_of(key) == cluster.nodes[0].ask("CLUSTER", "KEYSLOT", key)


@given(st.text(min_size=1, max_size=20).filter(lambda text: len(text.encode()) <= 512))
@examples(100)
def test_all_keys_of_a_name_are_in_one_slot(name: str) -> None:
    keys = KEYS.of("lock", name)
    assert len({slot_of(key) for key in (*keys.of_lock, *keys.queue, keys.free, keys.dead("m:1"))}) == 1
    assert tag_of(keys.free) is not None
    assert tag_of(KEYS.manager("abc")) is None


@given(st.text())
@examples(100)
def test_surrogates_aside_every_key_has_a_slot(key: str) -> None:
    assert 0 <= slot_of(key.encode(errors="replace").decode()) < SLOTS


def test_a_map() -> None:
    reply = [
        [0, 10, [b"a", 1, b"id"], [b"b", 2, b"id"]],
        [11, 20, [b"", 3, b"id", []]],
        [21, 30, [None, 4, b"id", {}]],
        [31, 40, [b"?", 5, b"id", [b"ip", b"10.0.0.5"]]],
        [41, 50, [b"?", 6, b"id", {b"ip": b"10.0.0.6"}]],
        [51, 60, [b"?", 7, b"id", {}]],
    ]
    known = read_map(reply, HERE, same)
    owners = [known.owners[slot] for slot in (0, 10, 11, 21, 31, 41, 51, 61)]
    expected = [("a", 1), ("a", 1), ("10.0.0.1", 3), ("10.0.0.1", 4), ("10.0.0.5", 5), ("10.0.0.6", 6), None, None]
    assert owners == expected
    assert known.nodes == {*filter(None, expected), ("b", 2)}


@pytest.mark.parametrize("reply", [b"OK", [[0, SLOTS, [b"a", 1]]], [[0, 1]], [[0, 1, b"a"]], [[2, 1, [b"a", 1]]], None])
def test_no_map(reply: object) -> None:
    with pytest.raises(ValueError, match="not a"):
        read_map(reply, HERE, same)


@pytest.mark.parametrize(
    ("error", "to"),
    [
        ("MOVED 8943 10.0.0.2:7001", ("10.0.0.2", 7001)),
        ("ASK 8943 node-b.example:7001", ("node-b.example", 7001)),
        ("MOVED 8943 :7001", ("10.0.0.1", 7001)),
        ("MOVED 8943 ?:7001", None),
        ("MOVED 8943 ::1:7001", ("::1", 7001)),
        ("MOVED 8943", None),
        ("MOVED", None),
        ("MOVED 8943 host:port", None),
    ],
)
def test_a_redirection(error: str, to: tuple[str, int] | None) -> None:
    assert read_redirection(error, HERE, same) == to


def test_addresses_are_translated() -> None:
    """As for clients outside a container network."""

    def outside(address: Address) -> Address:
        return Address("localhost", address.port + 1)

    assert read_redirection("MOVED 1 10.0.0.2:7001", HERE, outside) == ("localhost", 7002)
    assert read_map([[0, 1, [b"a", 1, b"id"]]], HERE, outside).owners[0] == ("localhost", 2)
