"""Which slot a key is in, and what a cluster says of who serves which slot."""

from __future__ import annotations

import functools
from binascii import crc_hqx
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ..redis.seeds import Address

SLOTS = 16384


Remap = Callable[[Address], Address]
"""Where you reach the node that announces this address."""


class Claim(NamedTuple):
    """By what right a master serves its slots.

    Attributes:
        id: what the cluster calls it.
        epoch: the higher one has the slot, if two say that they have it; 0 if it is unknown.
    """

    id: str
    epoch: int


class SlotMap(NamedTuple):
    """What one node said of the cluster.

    Attributes:
        owners: the master of each slot, or None.
        nodes: everyone that it named, replicas too: whom to ask next time.
        claims: of each owner.
        members: the ids of all whom it knows; empty if it does not say.
        isolated: it does not hear most of the masters, so they may have decided something without it.
    """

    owners: Sequence[Address | None]
    nodes: frozenset[Address]
    claims: Mapping[Address, Claim] = {}
    members: frozenset[str] = frozenset()
    isolated: bool = False

    @property
    def reliable(self) -> bool:
        """Whether the rest of the cluster would say the same, for all that this node knows."""
        return not self.isolated and any(self.owners)

    @property
    def ids(self) -> frozenset[str]:
        """What it calls the nodes that it knows; each is in one cluster only, and keeps its id at a new address."""
        return self.members or frozenset(claim.id for claim in self.claims.values() if claim.id)


def tag_of(key: str) -> str | None:
    """Return the part of a key that decides its slot, if it is only a part."""
    start = key.find("{")
    if start < 0:
        return None
    end = key.find("}", start + 1)
    return key[start + 1 : end] if end > start + 1 else None


@functools.lru_cache(maxsize=1024)
def slot_of(key: str) -> int:
    """Return the slot of a key or channel. It is asked at each call."""
    start = key.find("{")
    if start >= 0:
        end = key.find("}", start + 1)
        if end > start + 1:
            key = key[start + 1 : end]
    return crc_hqx(key.encode(), 0) % SLOTS


def read_map(slots: object, nodes: object, asked: Address, remap: Remap) -> SlotMap:
    """Return what CLUSTER SLOTS and CLUSTER NODES answered.

    Args:
        slots: the first answer.
        nodes: the second one; if it is an error, the map lacks what only this one says.
        asked: who gave them, which may not know its own address.
        remap: see `Remap`.

    Raises:
        ValueError: it is no answer to that.
    """
    owners: list[Address | None] = [None] * SLOTS
    named: set[Address] = set()
    ids: dict[Address, str] = {}
    if not isinstance(slots, list):
        raise ValueError("not a list")
    for entry in slots:
        match entry:
            case [int(first), int(last), *servers] if servers and 0 <= first <= last < SLOTS:
                addresses = [_address(server, asked, remap) for server in servers]
                named.update(address for address in addresses if address is not None)
                owner = addresses[0]
                owners[first : last + 1] = [owner] * (last + 1 - first)
                if owner is not None:
                    ids[owner] = _id(servers[0])
            case _:
                raise ValueError("not a range of slots")
    epochs, isolated = _read_nodes(nodes)
    claims = {owner: Claim(name, epochs.get(name, 0)) for owner, name in ids.items()}
    return SlotMap(owners, frozenset(named), claims, frozenset(epochs), isolated)


def _read_nodes(reply: object) -> tuple[dict[str, int], bool]:
    """The epoch of each node by id, and whether the one that was asked is isolated."""
    epochs: dict[str, int] = {}
    silent: list[bool] = []
    lines = reply.decode(errors="replace").splitlines() if isinstance(reply, bytes) else []
    for line in lines:
        match line.split():
            case [name, _, flags, _, _, _, epoch, _, *served] if epoch.isdecimal():
                epochs[name] = int(epoch)
                if any(not slot.startswith("[") for slot in served):
                    silent.append(any(flag in ("fail", "fail?") for flag in flags.split(",")))
    return epochs, 2 * sum(silent) >= max(1, len(silent))


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


def _id(node: object) -> str:
    match node:
        case [_, _, bytes(name), *_]:
            return name.decode(errors="replace")
    return ""


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
