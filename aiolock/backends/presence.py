"""How a manager is known to its servers."""

from __future__ import annotations

import re
from typing import NamedTuple

from ..identity import identity

_REFUSED = re.compile("[^!-~]")


class Presence(NamedTuple):
    """What a manager says of itself, and how often if it has nothing to ask.

    Attributes:
        name: the manager's; empty if it has none.
        keepalive: seconds of silence after which a server is pinged, while nothing is held or waited
            for.
    """

    name: str = ""
    keepalive: float = 30.0

    def client_name(self) -> bytes:
        """What CLIENT LIST shows; a server takes no others."""
        return _REFUSED.sub("?", f"aiolock:{identity(self.name)}").encode()


PRESENCE: Presence = Presence()
"""That of a manager that says nothing."""
