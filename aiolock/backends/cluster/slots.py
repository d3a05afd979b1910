"""Which slot a key is in, and what a cluster says of who serves which slot."""

from __future__ import annotations

from binascii import crc_hqx
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ..redis import Address

SLOTS = 16384


Remap = Callable[[Address], Address]
"""Where you reach the node that announces this address."""


class SlotMap(NamedTuple):
    """What one node said of the cluster.

    Attributes:
        owners: the master of each slot, or None.
        nodes: everyone that it named, replicas too: whom to ask next time.
    """

    owners: Sequence[Address | None]
    nodes: frozenset[Address]


def tag_of(key: str) -> str | None:
    """Return the part of a key that decides its slot, if it is only a part."""
    start = key.find("{")
    if start < 0:
        return None
    end = key.find("}", start + 1)
    return key[start + 1 : end] if end > start + 1 else None


def slot_of(key: str) -> int:
    """Return the slot of a key or channel."""
    start = key.find("{")
    if start >= 0:
        end = key.find("}", start + 1)
        if end > start + 1:
            key = key[start + 1 : end]
    return crc_hqx(key.encode(), 0) % SLOTS


def read_map(reply: object, asked: Address, remap: Remap) -> SlotMap:
    """Return what CLUSTER SLOTS answered.

    Args:
        reply: the answer.
        asked: who gave it, which may not know its own address.
        remap: see `Remap`.

    Raises:
        ValueError: it is no answer to that.
    """
    owners: list[Address | None] = [None] * SLOTS
    named: set[Address] = set()
    if not isinstance(reply, list):
        raise ValueError("not a list")
    for entry in reply:
        match entry:
            case [int(first), int(last), *nodes] if nodes and 0 <= first <= last < SLOTS:
                addresses = [_address(node, asked, remap) for node in nodes]
                named.update(address for address in addresses if address is not None)
                owners[first : last + 1] = [addresses[0]] * (last + 1 - first)
            case _:
                raise ValueError("not a range of slots")
    return SlotMap(owners, frozenset(named))


def read_redirection(error: str, asked: Address, remap: Remap) -> Address | None:
    """Return where a MOVED or ASK error sends us; None if it does not say where that is.

    Args:
        error: its text, such as `MOVED 8943 10.0.0.2:6379`.
        asked: whose answer it is: without a host, the other node is on the same one.
        remap: see `Remap`.
    """
    words = error.split()
    host, _, port = words[2].rpartition(":") if len(words) > 2 else ("?", "", "")
    if host == "?" or not port.isdecimal():
        return None
    return remap(Address(host.strip("[]") or asked.host, int(port)))


def _address(node: object, asked: Address, remap: Remap) -> Address | None:
    match node:
        case [bytes() | None as name, int(port), *facts]:
            host = (name or b"").decode()
            if host == "?":  # names are announced, and this node has none
                host = _fact(facts[1] if len(facts) > 1 else None, b"ip")
                return remap(Address(host, port)) if host else None
            return remap(Address(host or asked.host, port))
    raise ValueError("not a node")


def _fact(facts: object, name: bytes) -> str:
    if isinstance(facts, list):  # RESP2 has no maps
        facts = dict(zip(facts[::2], facts[1::2], strict=False))
    value = facts.get(name) if isinstance(facts, Mapping) else None
    return value.decode() if isinstance(value, bytes) else ""
