"""What channels, and the locks that say who hears them, are called on a server."""

from __future__ import annotations

import hashlib

from .plan import number_of


def name_of(channel: str) -> str:
    """The name of a channel in the database, of 50 ASCII characters. Those on which several listen are marked."""
    kind = "s" if is_shared(channel) else "m"
    return f"aiolock_{kind}_{hashlib.blake2b(channel.encode(), digest_size=20).hexdigest()}"


def is_shared(channel: str) -> bool:
    """Whether several managers may listen: it is a name's, and not a manager's own."""
    return "{" in channel


def ear_of(name: str) -> int:
    """The number of the lock that whoever listens holds; `name` is the one in the database."""
    return number_of(f"ear {name}")


def hold_of(key: str) -> int:
    """The number of the lock that a transaction holds which has a name of ours, by the key of its state."""
    return ear_of(name_of(key))
