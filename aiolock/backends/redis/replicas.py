"""How far you can trust a server's answer: what enough replicas have acknowledged."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Protocol

from ...clock import format_seconds
from ...errors import BackendError
from ...scripts.base import Call
from .connection import pack
from .failures import Desync, ErrorReply, refused


class Assurance(Protocol):
    """Whether what is written on a connection outlasts the server: a question goes after each write.

    Attributes:
        least: as many replicas are needed, from 0.
    """

    @property
    def least(self) -> int: ...

    def question(self, again: bool = False) -> bytes:
        """Two requests; `again` if their answers were undecided."""

    def undecided(self, reply: object) -> bool:
        """Whether the second answer cannot be judged yet. Raises `Desync`."""

    def doubt(self, request: Call[Any], first: object, second: object) -> BackendError | None:
        """Why the answer to `request` may not outlast the server; None if it does."""


class Replicas(NamedTuple):
    """How many must acknowledge what is written on a connection.

    Attributes:
        least: this many, from 1.
        timeout: seconds they may take.
        channel: one without listeners; "" in a cluster, where the scripts themselves write: see replicated.lua.
    """

    least: int
    timeout: float
    channel: str

    def question(self, again: bool = False) -> bytes:
        """Asks which replicas have everything that the server did so far; two replies answer it.

        WAIT looks at the newest write of its own connection. A script may have answered with what another connection
        wrote, such as its own first copy, and have written nothing. PUBLISH is replicated wherever it comes from, so it
        is the newest write of this connection and comes after all others.
        """
        milliseconds = max(1, math.ceil(self.timeout * 1000))  # 0 would wait forever
        write = (b"PUBLISH", self.channel, b"") if self.channel else (b"WAIT", b"0", b"1")
        return pack(write) + pack((b"WAIT", str(self.least), str(milliseconds)))

    def undecided(self, reply: object) -> bool:
        """Never: WAIT has waited."""
        if not isinstance(reply, (int, ErrorReply)):
            raise Desync("WAIT got the answer to something else")
        return False

    def doubt(self, request: Call[Any], published: object, acknowledged: object) -> BackendError | None:
        """Why the answer to `request` may not outlast the server; None if it does."""
        for command, reply in (("PUBLISH" if self.channel else "WAIT", published), ("WAIT", acknowledged)):
            if isinstance(reply, ErrorReply):
                return refused(request.name, f"{command} after {request.doing}", reply)
        if isinstance(acknowledged, int) and acknowledged >= self.least:
            return None
        return BackendError(
            request.name,
            f"{request.doing} was acknowledged by {acknowledged} of {self.least} replicas within "
            f"{format_seconds(self.timeout)} s: it does not count; are they connected to the master (INFO "
            "replication), and close enough?",
            transient=True,
        )
