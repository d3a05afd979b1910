"""A node of a manager, in which others leave messages."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence

from . import jute
from .jute import Code, Op
from .link import Reply
from .session import Session, answer

KEPT = 100
"""Messages stay until so many later ones have come."""


class Mailbox:
    """The mailbox of this process. It is gone with the session.

    Args:
        node: its path.
        hear: told of each message once.
        gone: told when somebody has deleted it.
    """

    def __init__(self, node: str, hear: Callable[[str], None], gone: Callable[[], None]) -> None:
        self.node: str = node
        self._hear = hear
        self._gone = gone
        self._session: Session | None = None
        self._last = 0

    def read(self, session: Session) -> None:
        """Pass on what is new, now and from now on, as long as this connection lives."""
        if self._session is not session:
            self._session, self._last = session, 0
        watches = session.watches
        if watches is None:
            return  # it is read again when there is a connection

        def got(asked: asyncio.Future[Reply]) -> None:
            if asked.cancelled() or asked.exception() is not None:
                return
            body = asked.result().body
            letters, stat = _letters(body.buffer()), body.stat()
            for number, text in letters:
                if number > self._last:
                    self._last = number
                    self._hear(text)
            watches.add(self.node, stat.mzxid, lambda gone: self._gone() if gone else self.read(session))

        session.ask(Op.GET_DATA, jute.read(self.node)).add_done_callback(got)


async def send(session: Session, node: str, text: str) -> None:
    """Put a message into a mailbox; if there is none, it is lost. Raises `Away` or `Refusal`."""
    session.ask(Op.SYNC, jute.text(node))
    while isinstance(reply := await answer(session.ask(Op.GET_DATA, jute.read(node)), Code.NO_NODE), Reply):
        letters, version = _letters(reply.body.buffer()), reply.body.stat().version
        last = letters[-1][0] if letters else 0
        data = json.dumps([*letters[1 - KEPT :], (last + 1, text)]).encode()
        done = session.ask(Op.SET_DATA, jute.set_data(node, data, version))
        if await answer(done, Code.NO_NODE, Code.BAD_VERSION) is not Code.BAD_VERSION:
            return


def _letters(data: bytes) -> Sequence[tuple[int, str]]:
    return [(int(number), str(text)) for number, text in json.loads(data)] if data else []
