"""Protocol buffers, as far as etcd's few messages need them: fields are numbered, and the reader knows their types."""

from __future__ import annotations

from collections.abc import Iterator


def num(field: int, value: int) -> bytes:
    """A whole number; 0 is the default, and is not written."""
    return _varint(field << 3) + _varint(value) if value else b""


def zero(field: int) -> bytes:
    """The number 0, where it is one of several choices and must be written."""
    return _varint(field << 3) + b"\0"


def data(field: int, value: bytes) -> bytes:
    """Bytes, a text, or a message."""
    return _varint(field << 3 | 2) + _varint(len(value)) + value


class Message:
    """What was received.

    Args:
        packed: its bytes.
    """

    __slots__ = ("_fields",)

    def __init__(self, packed: bytes) -> None:
        self._fields: dict[int, list[int | bytes]] = {}
        for field, value in _read(packed):
            self._fields.setdefault(field, []).append(value)

    def number(self, field: int) -> int:
        """A whole number; 0 if it is not there."""
        found = self._fields.get(field, (0,))[-1]
        return found if isinstance(found, int) else 0

    def data(self, field: int) -> bytes:
        """Bytes; none if they are not there."""
        found = self._fields.get(field, (b"",))[-1]
        return found if isinstance(found, bytes) else b""

    def texts(self, field: int) -> list[bytes]:
        """All texts of a field that can have several."""
        return [found for found in self._fields.get(field, ()) if isinstance(found, bytes)]

    def message(self, field: int) -> Message:
        """A message; one without fields if it is not there."""
        return Message(self.data(field))

    def messages(self, field: int) -> list[Message]:
        """All messages of a field that can have several."""
        return [Message(found) for found in self.texts(field)]


def _varint(number: int) -> bytes:
    if number < 0:
        number += 1 << 64
    if number < 0x80:
        return bytes((number,))
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _read(packed: bytes) -> Iterator[tuple[int, int | bytes]]:
    at, end = 0, len(packed)
    while at < end:
        key, at = _read_varint(packed, at)
        kind = key & 7
        if kind == 0:
            value, at = _read_varint(packed, at)
            yield key >> 3, value
        elif kind == 2:
            size, at = _read_varint(packed, at)
            yield key >> 3, packed[at : at + size]
            at += size
        else:  # of a fixed size: nothing here has such
            at += 8 if kind == 1 else 4


def _read_varint(packed: bytes, at: int) -> tuple[int, int]:
    number, shift = 0, 0
    while True:
        byte = packed[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number - (1 << 64) if number >> 63 else number), at
        shift += 7
