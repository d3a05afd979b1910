"""What etcd is asked, by the numbers of its fields (etcd's api/etcdserverpb/rpc.proto, and mvccpb/kv.proto)."""

from __future__ import annotations

from collections.abc import Sequence

from ..coordinator.store import Place
from ..coordinator.values import FOREIGN, said_in
from .wire import Message, data, num, zero

TXN = "/etcdserverpb.KV/Txn"
GRANT, REVOKE = "/etcdserverpb.Lease/LeaseGrant", "/etcdserverpb.Lease/LeaseRevoke"
KEEP_ALIVE, TIME_TO_LIVE = "/etcdserverpb.Lease/LeaseKeepAlive", "/etcdserverpb.Lease/LeaseTimeToLive"
WATCH = "/etcdserverpb.Watch/Watch"
STATUS = "/etcdserverpb.Maintenance/Status"
AUTHENTICATE = "/etcdserverpb.Auth/Authenticate"
_CREATED, _VALUE = 1, 3
_GREATER = 1
_NO_PUTS, _NO_DELETES = 0, 1
DELETED = 1
"""An event of a watch: the key is gone."""


# Parts of a transaction.


def made_by(key: bytes, revision: int) -> bytes:
    """Whether the key has been there since this revision, and ever since; 0: whether it is not there."""
    written = num(5, revision) if revision else zero(5)
    return data(1, num(2, _CREATED) + data(3, key) + written)


def empty(first: bytes, end: bytes) -> bytes:
    """Whether there is no key from `first` to before `end`."""
    return data(1, num(2, _CREATED) + data(3, first) + zero(5) + data(64, end))


def above(key: bytes, value: bytes) -> bytes:
    """Whether the key is there, with a greater value."""
    return data(1, num(1, _GREATER) + num(2, _VALUE) + data(3, key) + data(7, value))


def put(key: bytes, value: bytes, lease: int = 0) -> bytes:
    """Write a key, that ends with the lease."""
    return data(2, data(1, key) + data(2, value) + num(3, lease))


def get(key: bytes, end: bytes = b"", keys_only: bool = False) -> bytes:
    """Read a key; or all from there to before `end`, in the order in which they were created."""
    return data(1, data(1, key) + (data(2, end) + num(5, 1) + num(6, 2) if end else b"") + num(8, keys_only))


def page(first: bytes, end: bytes, most: int) -> bytes:
    """Read the keys from there to before `end`, no more than so many, in the order of their names."""
    return data(1, data(1, first) + data(2, end) + num(3, most) + num(8, 1))


def delete(key: bytes, end: bytes = b"") -> bytes:
    """Delete a key; or all from there to before `end`."""
    return data(3, data(1, key) + (data(2, end) if end else b""))


def nested(compares: Sequence[bytes], then: Sequence[bytes], otherwise: Sequence[bytes] = ()) -> bytes:
    """A transaction in one."""
    return data(4, txn(compares, then, otherwise))


def txn(compares: Sequence[bytes], then: Sequence[bytes], otherwise: Sequence[bytes] = ()) -> bytes:
    """A whole transaction."""
    return b"".join((*compares, *(data(2, op) for op in then), *(data(3, op) for op in otherwise)))


class Answer:
    """That of a transaction.

    Args:
        packed: its bytes.

    Attributes:
        revision: of the store, when it was done.
        succeeded: whether all comparisons held.
        answers: of each of its operations: in field 1 of a get, in field 4 of a nested one.
    """

    __slots__ = ("answers", "revision", "succeeded")

    def __init__(self, packed: bytes | Message) -> None:
        message = packed if isinstance(packed, Message) else Message(packed)
        self.revision: int = message.message(1).number(3)
        self.succeeded: bool = bool(message.number(2))
        self.answers: list[Message] = message.messages(3)

    def pairs(self, at: int) -> list[Message]:
        """The keys and values that a get at this place has found."""
        return self.answers[at].message(1).messages(2)

    def nested(self, at: int) -> Answer:
        """The answer to a nested transaction at this place."""
        return Answer(self.answers[at].message(4))


# Watches.


def watch(number: int, key: bytes, since: int, *, deletes_only: bool = False, puts_only: bool = False) -> bytes:
    """Watch a key from a revision on; 0: from now on."""
    unwanted = _NO_PUTS if deletes_only else _NO_DELETES
    filters = data(5, bytes((unwanted,))) if deletes_only or puts_only else b""
    return data(1, data(1, key) + num(3, since) + filters + num(7, number))


def unwatch(number: int) -> bytes:
    """Watch it no more."""
    return data(2, num(1, number))


# What is in a key.


def place_of(pair: Message) -> Place:
    """A place, by its key and value. One of another program takes all of the name."""
    key, said = pair.data(1).decode(), said_in(pair.data(5))
    owner = key.rpartition("/")[2] if said else ""
    weight, capacity, depth, note, _ = said or FOREIGN
    return Place(key, owner, pair.number(2), weight, capacity, depth, note, pair.number(6))
