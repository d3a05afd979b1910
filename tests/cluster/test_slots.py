"""Slots of keys, and what a cluster says of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiolock.backends.cluster.slots import SLOTS, Claim, read_map, read_redirection, slot_of, tag_of
from aiolock.backends.redis import ErrorReply
from aiolock.backends.redis.seeds import Address
from tests.support.cluster import Cluster
from tests.support.generated import examples
from tests.support.locks import KEYS

HERE = Address("10.0.0.1", 7000)


def same(address: Address) -> Address:
    return address


def test_the_server_agrees(masters_only: Cluster) -> None:
    keys = ["", "a", "{", "}", "{}", "{}a", "a{}b", "a{b}c{d}", "a{{b}}", "}{a}", "ä{ö}", "{a"]
    assert {key: slot_of(key) for key in keys} == {
        key: masters_only.nodes[0].ask("CLUSTER", "KEYSLOT", key) for key in keys
    }


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
    known = read_map(reply, b"", HERE, same)
    owners = [known.owners[slot] for slot in (0, 10, 11, 21, 31, 41, 51, 61)]
    expected = [("a", 1), ("a", 1), ("10.0.0.1", 3), ("10.0.0.1", 4), ("10.0.0.5", 5), ("10.0.0.6", 6), None, None]
    assert owners == expected
    assert known.nodes == {*filter(None, expected), ("b", 2)}


def nodes_say(*flags: str) -> bytes:
    """What CLUSTER NODES answers, of masters with such flags, and of others."""
    masters = [f"id{n} 10.0.0.{n}:1@2 {flag} - 0 0 {n} connected {n} [9->-id1]" for n, flag in enumerate(flags, 1)]
    others = [
        "new 10.0.0.8:1@2,host master,fail - 0 0 0 disconnected",
        "copy 10.0.0.9:1@2,,shard-id=x myself,slave id1 0 0 1 connected",
    ]
    return "\n".join([*masters, *others, ""]).encode()


def test_by_what_right() -> None:
    """A refusal, as by an ACL, costs only this."""
    slots = [[1, 1, [b"a", 1, b"id1"]], [2, 2, [b"b", 1, b"id2"]]]
    known = read_map(slots, nodes_say("master", "master"), HERE, same)
    assert known.claims == {("a", 1): Claim("id1", 1), ("b", 1): Claim("id2", 2)}
    assert known.members == {"id1", "id2", "new", "copy"}
    for refused in (ErrorReply("NOPERM"), b"", None):
        known = read_map(slots, refused, HERE, same)
        assert (known.owners[1], known.claims["a", 1]) == (("a", 1), ("id1", 0))  # type: ignore[index]
        assert known.members == set()
        assert known.reliable


@pytest.mark.parametrize(
    ("flags", "isolated"),
    [
        (("master", "master", "master"), False),
        (("master", "master,fail", "master"), False),
        (("master", "master,fail?", "master,fail"), True),
        (("master", "master,fail?"), True),  # the other may be right
    ],
)
def test_a_node_that_hears_no_majority(flags: tuple[str, ...], isolated: bool) -> None:
    assert read_map([[1, 1, [b"a", 1, b"id1"]]], nodes_say(*flags), HERE, same).isolated is isolated


@pytest.mark.parametrize("reply", [b"OK", [[0, SLOTS, [b"a", 1]]], [[0, 1]], [[0, 1, b"a"]], [[2, 1, [b"a", 1]]], None])
def test_no_map(reply: object) -> None:
    with pytest.raises(ValueError, match="not a"):
        read_map(reply, b"", HERE, same)


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
    assert read_map([[0, 1, [b"a", 1, b"id"]]], b"", HERE, outside).owners[0] == ("localhost", 2)
