"""What the hash of a name contains: the summary, and a record for each holder and waiter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Holder(NamedTuple):
    """Text on the server: 'h depth weight mints fence abandoned'; depth 0: granted by the queue, and never renewed."""

    depth: int
    weight: int
    mints: str
    fence: str
    abandoned: str


class Waiter(NamedTuple):
    """Text on the server: 'w number alive-until provisional weight mints floor ttl metadata'."""

    queue_number: int
    alive: int
    provisional: int
    weight: int
    mints: str
    floor: str
    ttl: int
    metadata: str


Record = Holder | Waiter


def read(text: str | None) -> Record | None:
    """Return the record in this text; None for what is left over of an owner that has ended."""
    match (text or "").split(" ", 8):
        case ["h", depth, weight, mints, fence, abandoned]:
            return Holder(int(depth), int(weight), mints, fence, abandoned)
        case ["w", queue_number, alive, provisional, weight, mints, floor, ttl, metadata]:
            return Waiter(
                int(queue_number), int(alive), int(provisional), int(weight), mints, floor, int(ttl), metadata
            )
    return None


@dataclass
class Summary:
    """What is known of a name as a whole, in the order in which it is written.

    Attributes:
        used: the weight held.
        holders: the number of holders.
        waiters: the number of waiters.
        longest: the longest ttl in ms that was requested since it was last idle.
        shut: ms until which no one is let in.
        expires: ms when its hash expires, by the clock that counts.
        capacity: how much weight can be held.
        resized: '1' if the capacity was set.
        dirty: '1' if a holder that minted a fence did not end cleanly, and none minted one since.
        serial: of the last queue number or grant.
        fence: of the last holder that minted one.
        metadata: of the last grant.
    """

    used: int
    holders: int
    waiters: int
    longest: int
    shut: int
    expires: int
    capacity: int
    resized: str
    dirty: str
    serial: int
    fence: int
    metadata: str

    @classmethod
    def read(cls, text: str) -> Summary:
        *counts, resized, dirty, serial, fence, metadata = text.split(" ", 11)
        used, holders, waiters, longest, shut, expires, capacity = map(int, counts)
        return cls(
            used,
            holders,
            waiters,
            longest,
            shut,
            expires,
            capacity,
            resized,
            dirty,
            int(serial),
            int(fence),
            metadata,
        )
