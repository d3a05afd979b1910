"""The kinds of faults, and how often and for how long each happens."""

from __future__ import annotations

from typing import NamedTuple


class Kind(NamedTuple):
    """A kind of fault.

    Attributes:
        weight: how often it is drawn, beside the others.
        shortest, longest: seconds between its beginning and its end. Some end only when servers are whole again.
        empties: servers forget all they know: for a while two may be inside.
        replaces: a server that may lack the last moments takes another's place: likewise, unless grants were
            acknowledged by replicas.
    """

    weight: float
    shortest: float = 0.0
    longest: float = 0.0
    empties: bool = False
    replaces: bool = False


NETWORK = {
    "reset": Kind(2.0),
    "double": Kind(2.0, 0.05, 0.5),
    "drop_requests": Kind(1.0, 0.1, 2.0),
    "drop_replies": Kind(1.0, 0.1, 2.0),
    "lose_replies": Kind(1.5, 0.1, 2.0),
    "cut": Kind(2.0, 0.1, 1.0),
    "hold_requests": Kind(1.0, 0.05, 1.5),
    "hold_replies": Kind(1.0, 0.05, 1.5),
    "delay": Kind(1.5, 0.5, 3.0),
    "partition": Kind(3.0, 0.5, 5.0),
}
"""Between one worker and one server, or all."""
CREW = {
    "stop": Kind(2.0, 0.2, 5.0),
    "kill": Kind(2.0, 0.0, 2.0),
    "block": Kind(1.5, 0.2, 4.0),
    "cancel": Kind(3.0, 0.0, 0.2),
}
"""What happens to workers."""
SERVER = {
    "script_flush": Kind(0.7),
    "kill_clients": Kind(1.5),
    "pause_clients": Kind(0.7, 0.05, 1.0),
    "flush": Kind(0.7, empties=True),
}
"""What happens to a server wherever it is."""
