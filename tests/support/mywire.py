"""MySQL's protocol, as far as a proxy must know it: where a request ends, and where its answer does."""

from __future__ import annotations

HEAD = 4
"""Bytes of a packet's head: its length in three, and its number."""
LONGEST = 0xFFFFFF
"""A packet as long as this is only the beginning."""
OK, END, ERROR = 0x00, 0xFE, 0xFF
"""What the first byte of an answer says; END is also that of the last packet of a result."""
PREPARED = 12
"""Bytes that answer Prepare, before what it says of parameters and columns. All other answers of ours differ."""
MORE = 0x0008
"""Of a status: another result follows."""


class MySQLFramer:
    """Takes chunks as they come, returns requests or answers as they complete. The greeting, which nobody has asked
    for, is a frame of its own. Both sides must do without the packet after the columns of a result (DEPRECATE_EOF).

    Args:
        direction: "requests" or "replies".
    """

    def __init__(self, direction: str) -> None:
        self._answers = direction == "replies"
        self._pending = b""
        self._frame = b""
        self._part = b""  # of a long packet
        self._columns = 0  # packets that say what a result is
        self._rows = False  # those of a result are next

    def feed(self, chunk: bytes) -> list[bytes]:
        self._pending += chunk
        frames: list[bytes] = []
        while len(self._pending) >= HEAD:
            length = int.from_bytes(self._pending[:3], "little")
            if len(self._pending) < HEAD + length:
                break
            packet, self._pending = self._pending[: HEAD + length], self._pending[HEAD + length :]
            self._frame += packet
            self._part += packet[HEAD:]
            if length == LONGEST:
                continue
            said, self._part = self._part, b""
            if not self._answers or self._ends(said, length):
                frames.append(self._frame)
                self._frame = b""
        return frames

    def pushes(self, frame: bytes) -> bool:
        """Whether no request asked for it."""
        return self._answers and frame[3] == 0

    def _ends(self, said: bytes, length: int) -> bool:
        """Whether the answer is over with this."""
        if self._columns:
            self._columns -= 1
            return not self._columns and not self._rows
        if said[0] == ERROR:
            self._rows = False
            return True
        if self._rows:
            if said[0] == END and length < LONGEST:
                self._rows = False
                return not _status(said) & MORE
            return False
        if said[0] == OK and length == PREPARED:
            self._columns = int.from_bytes(said[5:7], "little") + int.from_bytes(said[7:9], "little")
            return not self._columns
        if said[0] == OK:
            return not _status(said) & MORE
        if said[0] == END or self._frame[3] == 0:  # another way to prove who one is; or the greeting
            return True
        self._columns, self._rows = _number(said, 0)[0], True
        return False


def _status(said: bytes) -> int:
    _, at = _number(said, 1)  # rows changed
    _, at = _number(said, at)  # the last number drawn
    return int.from_bytes(said[at : at + 2], "little")


def _number(said: bytes, at: int) -> tuple[int, int]:
    """A number of one to nine bytes, and where it ends."""
    long = {0xFC: 2, 0xFD: 3, 0xFE: 8}.get(said[at], 0)
    return (int.from_bytes(said[at + 1 : at + 1 + long], "little"), at + 1 + long) if long else (said[at], at + 1)
