"""PostgreSQL's protocol, as far as a proxy must know it: where a request ends, and where its answer does."""

from __future__ import annotations

TYPED = 5
"""Bytes of a message's head: its type, and its length without that."""
ENDS = {"requests": b"SHQX", "replies": b"Z"}
"""Types of the last message of a request (Sync, Flush, Query, Terminate), and of an answer (ReadyForQuery)."""
PARAMETERS, DESCRIBES = b"t", b"Tn"
"""What answers a Flush after Parse and Describe: the parameters of a statement, and its rows or that it has none."""
NOTIFIES = b"A"


class PostgresFramer:
    """Takes chunks as they come, returns requests or answers as they complete. A notification is a frame of its own.

    Args:
        direction: "requests" or "replies".
    """

    def __init__(self, direction: str) -> None:
        self._ends = ENDS[direction]
        self._begun = direction == "replies"  # the first message of a client has no type
        self._pending = b""
        self._frame = b""
        self._describes = False

    def feed(self, chunk: bytes) -> list[bytes]:
        self._pending += chunk
        frames: list[bytes] = []
        while (message := self._next()) is not None:
            kind = message[:1]
            if kind == NOTIFIES and not self._frame:
                frames.append(message)
                continue
            self._frame += message
            described = self._describes and kind in DESCRIBES
            self._describes = kind == PARAMETERS
            if not self._begun or kind in self._ends or described:
                frames.append(self._frame)
                self._frame, self._begun = b"", True
        return frames

    def pushes(self, frame: bytes) -> bool:
        """Whether no request asked for it."""
        return frame.startswith(NOTIFIES)

    def _next(self) -> bytes | None:
        head = TYPED if self._begun else TYPED - 1
        if len(self._pending) < head:
            return None
        end = int.from_bytes(self._pending[head - 4 : head], "big") + head - 4
        if len(self._pending) < end:
            return None
        message, self._pending = self._pending[:end], self._pending[end:]
        return message
