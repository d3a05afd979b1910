"""Plain requests to a server that keeps locks, for those who only look: no script, no subscription, no lock."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence

from ..errors import AiolockError, ConfigurationError
from ..scripts.view import Command, Inspection, NameView, pairs_of
from .redis import MISTAKEN, REPLICA, Asker, ErrorReply, ServerConnector, ServerInfo, code_of, refused

BATCH = 500
"""How many names one request asks about."""
ELSEWHERE = frozenset({"ASK", "MOVED", "TRYAGAIN"})
"""Errors of a node of a cluster about keys of which it has not all, or none."""


class Reader(Asker):
    """One server, asked one request at a time.

    Args:
        connector: where it is.
        timeout: seconds for each answer.
        shares: it is a master of a cluster.

    Attributes:
        address: host and port, or the path of the socket.
        ahead_us: by how much its clock is ahead of ours, at most as wrong as a round trip is long.
        moving: how many names it could not show, because their slots move to or from it.
    """

    def __init__(self, connector: ServerConnector, timeout: float, shares: bool = False) -> None:
        super().__init__(connector, timeout)
        self.address: str = connector.address
        self.ahead_us: int = 0
        self.moving: int = 0
        self._shares = shares

    @property
    def now_us(self) -> int:
        """About its time, in microseconds."""
        return time.time_ns() // 1000 + self.ahead_us

    async def ask(self, commands: Sequence[tuple[str | bytes, ...]]) -> list[object]:
        """See `Asker.ask`; its error says which server it is about."""
        try:
            return await super().ask(commands)
        except AiolockError as failure:
            self._named(failure)
            raise

    def _named(self, failure: AiolockError) -> AiolockError:
        """Of several servers, people must know which; most errors of connections say it."""
        if self.address not in failure.message:
            failure.message = f"{self.address}: {failure.message}"
        return failure

    async def read(self, commands: Sequence[Command]) -> list[object]:
        """Return the replies, and take note of the server's clock. Raises and costs what `ask` does.

        Raises:
            ConfigurationError: it is no master.
            BackendError: even if it refuses one of them.
        """
        if self.link is None:
            (hello, *replies) = await self.ask([("HELLO",), ("TIME",), *commands])  # no user can be denied HELLO
            self._judge(ServerInfo(dict(pairs_of(hello))))
        else:
            replies = await self.ask([("TIME",), *commands])
        clock, *replies = replies
        for command, reply in zip([("TIME",), *commands], [clock, *replies], strict=True):
            if isinstance(reply, ErrorReply) and not self._concerns_a_key(reply):
                raise self._named(self._refused(command, reply))
        self._set(clock)
        return replies

    def _judge(self, server: ServerInfo) -> None:
        """See what it is; some servers do not say."""
        if server.mode == "sentinel":
            raise ConfigurationError("", MISTAKEN["sentinel"])
        if server.replica:
            raise self._named(ConfigurationError("", REPLICA))

    def _concerns_a_key(self, reply: ErrorReply) -> bool:
        """Other keys can be read anyway."""
        return code_of(reply) in ("WRONGTYPE", "DAMAGED") or (self._shares and code_of(reply) in ELSEWHERE)

    def _refused(self, command: Command, reply: ErrorReply) -> AiolockError:
        if code_of(reply) in ELSEWHERE:
            return ConfigurationError(
                "", "it is a node of a cluster, and knows only a part of the names: add --cluster"
            )
        return refused("", command[0], reply)

    async def inspect(self, inspections: Sequence[Inspection]) -> list[NameView | None]:
        """Return what it has of each; None of those that it does not know. Raises and costs what `read` does."""
        replies = await self.read([command for inspection in inspections for command in inspection.commands])
        views, at = [], 0
        for inspection in inspections:
            part = replies[at : at + len(inspection.commands)]
            at += len(part)
            errors = {code_of(reply) for reply in part if isinstance(reply, ErrorReply)}
            self.moving += not errors.isdisjoint(ELSEWHERE)
            views.append(None if errors & ELSEWHERE else inspection.decode(part, self.now_us))
        return views

    async def scan(self, pattern: str, most: int = 1000, of_type: str = "") -> AsyncIterator[list[str]]:
        """Yield the keys that match, some of them twice, as one request after another finds them.

        Raises:
            BackendError: it is unreachable, or refuses.

        Cost: a round trip for every `most` keys that the server has, whatever matches.
        """
        cursor, typed = "0", ("TYPE", of_type) if of_type else ()
        while True:
            match await self.read([("SCAN", cursor, "MATCH", pattern, "COUNT", str(most), *typed)]):
                case [[bytes() as following, list() as keys]]:
                    yield [name for key in keys if (name := _text(key)) is not None]
                    cursor = following.decode()
                case answer:
                    raise ValueError(f"SCAN answered {answer!r}")
            if cursor == "0":
                return

    def _set(self, clock: object) -> None:
        match clock:
            case [bytes() as seconds, bytes() as micros]:
                self.ahead_us = int(seconds) * 1_000_000 + int(micros) - time.time_ns() // 1000


def _text(key: object) -> str | None:
    """A key, unless it cannot be one of ours."""
    try:
        return key.decode() if isinstance(key, bytes) else None
    except UnicodeDecodeError:
        return None
