"""What an owner asks for."""

from __future__ import annotations

from typing import NamedTuple


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
    return process, rest or None
