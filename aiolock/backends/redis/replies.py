"""What the server owes on one connection: answers in order, and pushes in the order of SUBSCRIBEs."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

from hiredis import PushNotification

from ...log import Log
from ...scripts.base import Call
from .channels import Channels, Listener
from .failures import PASSING, ErrorReply, Unasked, code_of
from .failures import Desync as Desync
from .replicas import Assurance

logger: Log = Log("aiolock.redis")


class Expected(Protocol):
    """An answer that the server owes."""

    def answer(self, reply: object) -> None:
        """Take the reply or error reply. Raises `Desync`."""


PONG = b"PONG"


class Echo(NamedTuple):
    """The answer to a PING: proves that the order is kept. An error reply is an answer, too, and so is the PONG of
    a proxy that drops the argument (Envoy).
    """

    nonce: bytes

    def answer(self, reply: object) -> None:
        if reply not in (self.nonce, PONG) and not isinstance(reply, ErrorReply):
            raise Desync("PING got the answer to something else")


class Authenticated:
    """The answer to an AUTH on an open connection. If it is refused, the old credentials count until the server ends
    the connection.
    """

    __slots__ = ()

    def answer(self, reply: object) -> None:
        if isinstance(reply, ErrorReply):
            logger.warning("Redis refused the renewed credentials: %s; check the credential provider", reply)
        elif reply != b"OK":
            raise Desync("AUTH got the answer to something else")


class Asked(NamedTuple):
    """The answer to the ASKING before a call; if it is refused, so is the call, for another reason."""

    call: Call[Any]

    def answer(self, reply: object) -> None:
        if isinstance(reply, ErrorReply):
            judge, why = self.call.refused, Unasked(reply)
            self.call.refused = lambda call, error: judge(call, why if str(error).startswith("MOVED ") else error)


class Loaded(NamedTuple):
    """The answer to a SCRIPT LOAD."""

    scripts: Scripts
    sha: str

    def answer(self, reply: object) -> None:
        if isinstance(reply, ErrorReply):
            self.scripts.refused(self.sha, reply)
        elif reply != self.sha.encode():
            raise Desync("SCRIPT LOAD got the answer to something else")


class Scripts:
    """The scripts that the server has on this connection, and how a call brings one that it has not.

    Attributes:
        known: digests that it has, or has once it has read what was written.
        refusal: why scripts cannot be loaded; then the first call of each carries its text. None if they can.
        digests: False if they cannot be run by their digests: then every call carries its text.
    """

    def __init__(self) -> None:
        self.known: set[str] = set()
        self.refusal: ErrorReply | None = None
        self.digests: bool = True

    def load_first(self, sha: str) -> bool:
        """Whether it must be loaded before it is run."""
        if sha in self.known or self.refusal is not None or not self.digests:
            return False
        self.known.add(sha)
        return True

    def send_text(self, sha: str) -> bool:
        """Whether the call must carry its text; the server keeps it then, too."""
        if sha in self.known or (self.refusal is None and self.digests):
            return False
        if self.digests:
            self.known.add(sha)
        return True

    def missing(self, sha: str) -> None:
        """The server no longer has it."""
        self.known.discard(sha)

    def refused(self, sha: str, error: ErrorReply) -> None:
        """The server did not load it."""
        self.known.discard(sha)
        if code_of(error) not in PASSING:
            self.refusal = error

    def no_digests(self) -> None:
        """The server runs none by its digest."""
        self.digests = False
        self.known.clear()


class Acknowledgement:
    """Stands for all calls of one write and the question after them: all are answered together, with the last reply.

    Args:
        assurance: asks the question, and says what its answer means.
        repeat: asks the question again: the answer cannot be judged yet.

    Attributes:
        requests: the calls.
    """

    __slots__ = ("_assurance", "_repeat", "_replies", "requests")

    def __init__(self, assurance: Assurance, repeat: Callable[[Acknowledgement], None]) -> None:
        self._assurance = assurance
        self._repeat = repeat
        self.requests: list[Call[Any]] = []
        self._replies: list[object] = []

    def __bool__(self) -> bool:
        return bool(self.requests)

    def of(self, request: Call[Any]) -> Acknowledgement:
        """The answer to one more call."""
        self.requests.append(request)
        return self

    def take(self) -> list[Call[Any]]:
        """Take out the calls: they are answered, or died with the connection."""
        requests, self.requests = self.requests, []
        return requests

    def answer(self, reply: object) -> None:
        self._replies.append(reply)
        if len(self._replies) < len(self.requests) + 2:
            return
        *replies, first, second = self._replies
        if self._assurance.undecided(second):
            del self._replies[-2:]
            self._repeat(self)
            return
        for request, answer in zip(self.take(), replies, strict=True):
            request.answer(answer, self._assurance.doubt(request, first, second))


class Confirmation:
    """The answer to a SUBSCRIBE, SSUBSCRIBE or UNSUBSCRIBE of one channel: a push, or an error reply."""

    __slots__ = ("_channels", "_listener", "push")

    def __init__(self, kind: bytes, channel: bytes, channels: Channels, listener: Listener | None) -> None:
        self.push: tuple[bytes, bytes] = (kind, channel)
        self._channels = channels
        self._listener = listener

    def confirm(self) -> None:
        """Its push arrived."""
        if self._listener is not None:
            self._channels.confirm(self._listener)

    def answer(self, reply: object) -> None:
        if not isinstance(reply, ErrorReply):
            raise Desync("a subscription got the answer to something else")
        if self._listener is not None:
            self._channels.refuse(self._listener, reply)


class Departure:
    """The answers to a SUNSUBSCRIBE and to the PING after it.

    The first is a push, the same as that by which the server itself ends a subscription, or an error if the slot has
    moved. Only the second is certain to come.

    Args:
        nonce: that of the PING.
        listener: gets nothing more after it.
        channels: has the listener.
        pending: where this is the first.
    """

    __slots__ = ("_channels", "_listener", "_nonce", "_pending", "_refused")

    def __init__(self, nonce: bytes, listener: Listener, channels: Channels, pending: deque[Expected]) -> None:
        self._nonce = nonce
        self._listener = listener
        self._channels = channels
        self._pending = pending
        self._refused = False

    def answer(self, reply: object) -> None:
        if reply in (self._nonce, PONG) or (isinstance(reply, ErrorReply) and "'ping'" in str(reply).lower()):
            self._channels.left(self._listener)
        elif isinstance(reply, ErrorReply) and not self._refused:
            self._refused = True
            self._pending.appendleft(self)
        else:
            raise Desync("SUNSUBSCRIBE got the answer to something else")


class Replies:
    """The queue of pending answers.

    Attributes:
        pending: what the server still owes, in the order of writing; the writer appends.
    """

    def __init__(self) -> None:
        self.pending: deque[Expected] = deque()

    def requests(self) -> Iterator[Call[Any]]:
        """Take out the calls that were not answered; the rest died with the connection."""
        pending = list(self.pending)
        self.pending.clear()
        for expected in pending:
            if isinstance(expected, Call):
                yield expected
            elif isinstance(expected, Acknowledgement):
                yield from expected.take()

    def unanswered(self) -> Iterator[Call[Any]]:
        """The calls that are on their way, in order; some of them twice."""
        for expected in self.pending:
            if isinstance(expected, Call):
                yield expected
            elif isinstance(expected, Acknowledgement):
                yield from expected.requests

    def receive(self, reply: object) -> bool:
        """Deliver a reply, or a push that is not a message; return True if it was a pending answer.

        Raises:
            Desync: it belongs to no request.
        """
        if type(reply) is PushNotification:
            return self._push(reply)
        if not self.pending:
            raise Desync("an answer came that no one asked for")
        self.pending.popleft().answer(reply)
        return True

    def _push(self, items: list[Any]) -> bool:
        kind = items[0]
        if kind in (b"subscribe", b"unsubscribe", b"ssubscribe"):
            expected = self.pending[0] if self.pending else None
            if isinstance(expected, Confirmation) and expected.push == (kind, items[1]):
                self.pending.popleft()
                expected.confirm()
                return True
            if kind != b"unsubscribe":
                raise Desync("a subscription was confirmed out of order")
        return False
