"""Where an entry is on its way to a grant."""

from __future__ import annotations

from enum import Enum


class State(Enum):
    """The states, each with its meaning."""

    IDLE = "nothing is asked for: it waits for a time or a signal to ask"
    ASKING = "a request is on its way that may grant or queue it"
    TOLD = "the same, and a message says that it was granted meanwhile: the answer may not know that yet"
    REVOKED = "the same, and a message says that what it grants was ended by force"
    QUEUED = "it stands in the server's queue"
    GRANTED = "it has the name"
    ENDED = "it was given up, and whatever it has or gets is undone"


IDLE, ASKING, TOLD, REVOKED, QUEUED, GRANTED, ENDED = State
ASKED = (ASKING, TOLD, REVOKED)
