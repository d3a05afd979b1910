"""What channels, and the locks that say who hears them, are called on a server."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Set
from itertools import chain

OWN = "aiolock_m_"
SHARED = 64
"""What stands for all channels of names: who waits for thousands of names listens on no more than these."""


def name_of(channel: str) -> str:
    """The name of a channel in the database, of 50 ASCII characters or less."""
    if is_shared(channel):
        return f"aiolock_s_{number_of(channel) % SHARED}"
    return f"{OWN}{hashlib.blake2b(channel.encode(), digest_size=20).hexdigest()}"


class Channels:
    """Those that are to be heard."""

    def __init__(self) -> None:
        self._of: dict[str, set[str]] = {}

    @property
    def names(self) -> Set[str]:
        """What they are called in the database."""
        return self._of.keys()

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable([*self._of.values()])

    def add(self, channel: str) -> None:
        """It shall be heard."""
        self._of.setdefault(name_of(channel), set()).add(channel)

    def remove(self, channel: str) -> None:
        """It shall not."""
        left = self._of.get(name_of(channel), set())
        left.discard(channel)
        if not left:
            self._of.pop(name_of(channel), None)


def is_shared(channel: str) -> bool:
    """Whether several managers may listen: it is a name's, and not a manager's own."""
    return "{" in channel


def ear_of(name: str) -> int | None:
    """The number of the lock that a manager holds which listens on its own channel; None for those of names. `name` is
    what the channel is called in the database.
    """
    return number_of(f"ear {name}") if name.startswith(OWN) else None


def hold_of(key: str) -> int:
    """The number of the lock that a transaction holds which has a name of ours, by the key of its state."""
    return number_of(f"hold {key}")


def number_of(text: str) -> int:
    """63 bits that stand for a text: both are as good as different if the texts are."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1
