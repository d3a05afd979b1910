"""How a manager is known to its servers."""

from __future__ import annotations

from typing import NamedTuple


class Presence(NamedTuple):
    """What a manager says of itself, and how often if it has nothing to ask.

    Attributes:
        keepalive: seconds of silence after which a server is asked for a sign of life, while nothing is held or waited
            for.
    """

    keepalive: float = 30.0


PRESENCE: Presence = Presence()
"""That of a manager that says nothing."""
