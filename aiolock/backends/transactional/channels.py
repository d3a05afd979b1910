"""What channels are called in a database."""

from __future__ import annotations

import hashlib


def name_of(channel: str) -> str:
    """The name of a channel in a database, of 50 ASCII characters. Those on which several listen are marked."""
    kind = "s" if is_shared(channel) else "m"
    return f"aiolock_{kind}_{hashlib.blake2b(channel.encode(), digest_size=20).hexdigest()}"


def is_shared(channel: str) -> bool:
    """Whether several managers may listen: it is a name's, and not a manager's own."""
    return "{" in channel
