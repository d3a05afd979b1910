"""What an owner asks for."""

from __future__ import annotations

from typing import NamedTuple

SLOTS = " #"
"""Between the process of an owner and the numbers of its permits."""
JOB = "\x1f"
"""Between the metadata of a lock and the job for which it is held: never shown."""


class Bid(NamedTuple):
    """Who wants a name and on what terms: part of each request that may grant it.

    Attributes:
        owner: who wants it.
        ttl_ms: for how long it has the name without a renewal; what the queue has granted lasts as long from then on.
        floor: the highest fence that its manager knows.
        metadata: what others are told about the owner.
        liveness_ms: for how long its manager counts as alive without a further request; 0: it does not wait, and is
            refused instead of queued; less than 0: as long, but another request has just said so.
        counted: the manager hears messages: one that reaches no one proves that it is gone.
        number: its number in the queue, `Queued.queue_number`; a server that has forgotten it lets it in at its old
            place. 0 if it has none.
    """

    owner: str
    ttl_ms: int
    floor: int
    metadata: str
    liveness_ms: int = 0
    counted: bool = True
    number: int = 0


def told(metadata: str) -> tuple[str, str | None]:
    """What a holder says of itself: host and pid, and the metadata of its lock."""
    process, _, rest = metadata.partition("\n")
    return process.partition(SLOTS)[0], rest.partition(JOB)[0] or None


def job_of(metadata: str) -> str:
    """The job for which it holds the name; "" if for none."""
    return metadata.partition(JOB)[2]


def wanting_slots(metadata: str) -> str:
    """The same, of an owner that wants to know which permits it has: the server writes their numbers behind that."""
    process, newline, rest = metadata.partition("\n")
    return process + SLOTS + newline + rest


def slots_of(metadata: str) -> tuple[int, ...]:
    """Which permits a holder has, if it wanted to know."""
    return slots(metadata.partition("\n")[0].partition(SLOTS)[2])


def slots(text: str) -> tuple[int, ...]:
    """The numbers in a text like "0,2"."""
    return tuple(map(int, text.split(","))) if text else ()
