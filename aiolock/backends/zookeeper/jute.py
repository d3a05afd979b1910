"""ZooKeeper's protocol, as far as queues need it: how requests are written, and answers are read."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple

ANY_VERSION = -1
DELETED, CHANGED = 2, 3
"""What an event says of a node."""


class Op(IntEnum):
    """What is asked for."""

    CREATE = 1
    DELETE = 2
    GET_DATA = 4
    SET_DATA = 5
    GET_CHILDREN = 8
    SYNC = 9
    PING = 11
    CHECK = 13
    MULTI = 14
    CREATE2 = 15
    CREATE_CONTAINER = 19
    AUTHENTICATE = 100
    CLOSE = -11

    @property
    def writes(self) -> bool:
        """Whether an answer shows that most servers have taken it."""
        return self in _WRITES


_WRITES = frozenset({Op.CREATE, Op.DELETE, Op.SET_DATA, Op.MULTI, Op.CREATE2, Op.CREATE_CONTAINER})


class Mode(IntEnum):
    """How long a node is there."""

    PERSISTENT = 0
    EPHEMERAL = 1
    EPHEMERAL_SEQUENTIAL = 3
    CONTAINER = 4


class Code(IntEnum):
    """Why something was not done."""

    CONNECTION_LOSS = -4
    UNIMPLEMENTED = -6
    TIMEOUT = -7
    NO_NODE = -101
    NO_AUTH = -102
    BAD_VERSION = -103
    NODE_EXISTS = -110
    NOT_EMPTY = -111
    SESSION_EXPIRED = -112
    AUTH_FAILED = -115
    SESSION_MOVED = -118
    THROTTLED = -127


class Answered(Exception):
    """A server's answer that is an error.

    Args:
        code: which; one of `Code`, or another.
    """

    def __init__(self, code: int) -> None:
        self.code: int = code
        known = next((one.name.lower().replace("_", " ") for one in Code if one == code), "")
        super().__init__(f"{known} ({code})" if known else f"error {code}")


class Greeting(NamedTuple):
    """What a server answers to the first packet.

    Attributes:
        timeout_ms: of the session; 0 or less if it has expired.
        session: its number.
        password: of the session.
    """

    timeout_ms: int
    session: int
    password: bytes


class Stat(NamedTuple):
    """What is known of a node, in the protocol's order."""

    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    cversion: int
    aversion: int
    ephemeral_owner: int
    data_length: int
    num_children: int
    pzxid: int


_STAT = struct.Struct(">qqqqiiiqiiq")
_HEADER = struct.Struct(">ibi")
_END = _HEADER.pack(-1, 1, -1)


def number(value: int) -> bytes:
    return value.to_bytes(4, "big", signed=True)


def buffer(value: bytes) -> bytes:
    return number(len(value)) + value


def text(value: str) -> bytes:
    return buffer(value.encode())


def acl(scheme: str, name: str) -> bytes:
    """Whoever that is may do everything; nobody else may do anything."""
    return number(1) + number(31) + text(scheme) + text(name)


def connect(seen: int, timeout_ms: int, session: int, password: bytes) -> bytes:
    """The first packet: a new session, if its number is 0."""
    return struct.pack(">iqiq", 0, seen, timeout_ms, session) + buffer(password) + b"\0"


def authenticate(name: str, password: str) -> bytes:
    """Who it is, for all requests of a connection."""
    return number(0) + text("digest") + text(f"{name}:{password}")


def create(path: str, data: bytes, access: bytes, mode: Mode) -> bytes:
    return text(path) + buffer(data) + access + number(mode)


def delete(path: str) -> bytes:
    return text(path) + number(ANY_VERSION)


def set_data(path: str, data: bytes, version: int = ANY_VERSION) -> bytes:
    return text(path) + buffer(data) + number(version)


def check(path: str) -> bytes:
    return text(path) + number(ANY_VERSION)


def read(path: str, watch: bool = False) -> bytes:
    """Of data or children."""
    return text(path) + (b"\1" if watch else b"\0")


def multi(parts: Iterable[tuple[Op, bytes]]) -> bytes:
    """All of these requests, or none."""
    return b"".join(_HEADER.pack(op, 0, -1) + body for op, body in parts) + _END


class Reader:
    """Reads an answer from its beginning on.

    Args:
        packet: the answer.
        at: where to begin.
    """

    __slots__ = ("_at", "_packet")

    def __init__(self, packet: bytes, at: int = 0) -> None:
        self._packet = packet
        self._at = at

    def _take(self, form: struct.Struct) -> tuple[int, ...]:
        found = form.unpack_from(self._packet, self._at)
        self._at += form.size
        return found

    def number(self) -> int:
        return self._take(_INT)[0]

    def buffer(self) -> bytes:
        size = max(0, self.number())
        found = self._packet[self._at : self._at + size]
        self._at += size
        return found

    def text(self) -> str:
        return self.buffer().decode()

    def texts(self) -> list[str]:
        return [self.text() for _ in range(self.number())]

    def stat(self) -> Stat:
        return Stat(*self._take(_STAT))

    def greeting(self) -> Greeting:
        _, timeout_ms, session = self._take(_CONNECTED)
        return Greeting(timeout_ms, session, self.buffer())

    def head(self) -> tuple[int, int, int]:
        """The number of the request, that of the last change, and an error."""
        xid, zxid, code = self._take(_REPLY)
        return xid, zxid, code

    def event(self) -> tuple[int, str]:
        """What has happened, and to which node."""
        kind, _ = self.number(), self.number()
        return kind, self.text()

    def failure(self) -> int:
        """Of a `multi`: the error of the first part that could not be done; 0 if all was done."""
        kind, _, _ = self._take(_HEADER)
        while kind == -1:
            code = self.number()
            if code != 0:
                return code
            kind, done, _ = self._take(_HEADER)
            if done:
                return 0
        return 0


_INT = struct.Struct(">i")
_CONNECTED = struct.Struct(">iiq")
_REPLY = struct.Struct(">iqi")
