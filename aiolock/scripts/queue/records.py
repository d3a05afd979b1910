"""What the hash of a name contains: fields about the name as a whole, and a record for each holder and waiter."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import NamedTuple

_PAIRS = re.compile(r"(\w+)=(\S*)")


class Holder(NamedTuple):
    """Text on the server: 'holds depth=… weight=… mints=… fence=… abandoned=… process=…'.

    Attributes:
        depth: how many acquisitions it has open; 0: granted by the queue, and never renewed.
        weight: how much it holds.
        mints: '1' if it got a fence of its own.
        fence: its fence.
        abandoned: '1' if it was told that the last holder did not end cleanly.
        process: what it says of itself: host and pid, and the metadata of its lock.
    """

    depth: int
    weight: int
    mints: str
    fence: str
    abandoned: str
    process: str = ""


class Waiter(NamedTuple):
    """Text on the server: 'waits number=… until=… lasts=… weight=… mints=… floor=… ttl=… process=…'.

    Attributes:
        queue_number: its place in the queue.
        until: it counts as alive until then, in server ms.
        lasts: how many ms a grant does from its last heartbeat on, until it is renewed.
        weight: how much it wants.
        mints: '1' if it wants a fence of its own.
        floor: the highest fence that its manager has seen.
        ttl: in ms.
        process: as of a holder.
    """

    queue_number: int
    until: int
    lasts: int
    weight: int
    mints: str
    floor: str
    ttl: int
    process: str


Record = Holder | Waiter


def read(text: str | None) -> Record | None:
    """Return the record in this text; None for a field of the name, and for what is left over of an owner that has
    ended.
    """
    word, _, rest = (text or "").partition(" ")
    facts, _, process = rest.partition(" process=")
    known = dict(_PAIRS.findall(facts))
    match word, list(known.values()):
        case "holds", [depth, weight, mints, fence, abandoned]:
            return Holder(int(depth), int(weight), mints, fence, abandoned, process)
        case "waits", [number, until, lasts, weight, mints, floor, ttl]:
            return Waiter(int(number), int(until), int(lasts), int(weight), mints, floor, int(ttl), process)
    return None


@dataclass
class Summary:
    """The fields about a name as a whole. Those that are not there are 0, or empty.

    Attributes:
        version: of the wire.
        used: the weight held.
        holders: the number of holders.
        waiters: the number of waiters.
        longest: the longest ttl in ms that was requested since it was last idle.
        expires: ms when its hash expires, by the clock that counts.
        capacity: how much weight can be held.
        serial: of the last queue number or grant.
        fence: of the last holder that minted one.
        process: what the last one that was admitted says of itself.
        abandoned: '1' if a holder that minted a fence did not end cleanly, and none minted one since.
        resized: '1' if the capacity was set.
        shut: ms until which no one is admitted.
        state: what ends the scripts of 0.2 with an error; '0' if a process of 0.3.0 has come in between.
    """

    version: str = ""
    used: int = 0
    holders: int = 0
    waiters: int = 0
    longest: int = 0
    expires: int = 0
    capacity: int = 0
    serial: int = 0
    fence: int = 0
    process: str = ""
    abandoned: str = "0"
    resized: str = "0"
    shut: int = 0
    state: str = "0"

    @classmethod
    def read(cls, known: Mapping[str, str]) -> Summary:
        """Return what the fields of a hash say."""
        found = cls()
        for name, value in known.items():
            if name in SUMMARY:
                setattr(found, name, type(getattr(found, name))(value))
        return found


SUMMARY: tuple[str, ...] = tuple(field.name for field in fields(Summary))
"""The names of these fields. All else in a hash are owners, whose ids have a colon."""
