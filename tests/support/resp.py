"""Cuts a stream of the Redis protocol into whole requests or replies, as raw bytes."""

from __future__ import annotations

NESTED = {b"*": 1, b"~": 1, b">": 1, b"%": 2, b"|": 2}
"""Aggregate types, and how many elements each unit of their count stands for."""
BULK = (b"$", b"=", b"!")


class Framer:
    """Takes chunks as they come, returns frames as they complete; they are the same in both directions."""

    def __init__(self, direction: str = "replies") -> None:
        self._pending = b""

    def feed(self, chunk: bytes) -> list[bytes]:
        self._pending += chunk
        frames: list[bytes] = []
        start = 0
        while (end := _end(self._pending, start)) is not None:
            frames.append(self._pending[start:end])
            start = end
        self._pending = self._pending[start:]
        return frames

    def pushes(self, frame: bytes) -> bool:
        """Whether no request asked for it."""
        return frame.startswith(b">")


def _end(data: bytes, start: int) -> int | None:
    """Return where the frame that begins at `start` ends; None if it is incomplete."""
    line = data.find(b"\r\n", start)
    if line < 0:
        return None
    kind, rest, at = data[start : start + 1], data[start + 1 : line], line + 2
    if kind in BULK and rest != b"-1":
        at += int(rest) + 2
        return at if at <= len(data) else None
    elements = int(rest) * NESTED[kind] + (kind == b"|") if kind in NESTED and rest != b"-1" else 0
    for _ in range(elements):
        end = _end(data, at)
        if end is None:
            return None
        at = end
    return at
