"""What is in a file, for those who only look."""

from __future__ import annotations

import asyncio
import contextlib
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ...errors import BackendError
from ...scripts.commands import COMMANDS
from ...scripts.store import WrongType
from ...scripts.view import Command
from ..redis import ErrorReply
from ..survey import Reader
from ..transactional.engine import Unavailable
from ..transactional.loaded import Loaded
from .clock import HostClock
from .file import LockFile
from .rows import load

PATIENCE = 4.0
"""Seconds for each answer, if nobody writes meanwhile."""


class FileReader(Reader):
    """Answers the commands of a server, from the rows of a file; changes none of them.

    Args:
        path: of the file.
    """

    def __init__(self, path: Path) -> None:
        self.address: str = str(path.absolute())
        self.ahead_us: int = 0
        self.moving: int = 0
        self._shares = False
        self._file = LockFile(path.absolute(), PATIENCE, lambda: False)
        self._alone = threading.Lock()  # a read that was cancelled goes on in its thread
        self._link: sqlite3.Connection | None = None

    async def read(self, commands: Sequence[Command]) -> list[object]:
        """See `Reader.read`.

        Raises:
            AiolockError: the file cannot be used.
        """
        try:
            return await asyncio.to_thread(self._read, commands)
        except Unavailable as why:
            raise why.error from why.__cause__

    async def close(self) -> None:
        """Let go of the file."""
        await asyncio.to_thread(self._forget)

    def _read(self, commands: Sequence[Command]) -> list[object]:
        with self._alone:
            link = self._use()
            try:
                return self._file.patiently(link, lambda: self._replies(link, commands))
            except sqlite3.Error as error:
                self._close()
                raise self._file.unavailable(error) from error

    def _forget(self) -> None:
        with self._alone:
            self._close()

    def _use(self) -> sqlite3.Connection:
        """Open it, also if another file is there by now."""
        with contextlib.suppress(Unavailable):
            if self._link is not None:
                self._file.check()
                return self._link
        self._close()
        if not self._file.path.exists():
            raise Unavailable(BackendError("", f"there is no file {self.address}"))
        self._link = self._file.connect()
        return self._link

    def _close(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.close()

    def _replies(self, link: sqlite3.Connection, commands: Sequence[Command]) -> list[object]:
        """From a snapshot of what they name: it holds up nobody, and is short, so that the log need not grow for it."""
        link.execute("BEGIN")
        try:
            clock = HostClock(link)  # writes only if nobody has opened the file since the host was started
            now = clock.now_us()
            store = Loaded(now, load(link, list(dict.fromkeys(_keys(commands)))), lambda _: 0)
            replies = [
                _scan(link, now, *words) if name == "SCAN" else _reply(store, name, *words) for name, *words in commands
            ]
            link.execute("COMMIT")
        finally:
            if link.in_transaction:
                link.execute("ROLLBACK")
        self.ahead_us = now - time.time_ns() // 1000
        return replies


def _keys(commands: Sequence[Command]) -> Iterator[str]:
    """What they read."""
    for name, *words in commands:
        if name != "SCAN":
            yield from words if name == "MGET" else words[:1]


def _scan(
    link: sqlite3.Connection, now_us: int, cursor: str, _match: str, pattern: str, _count: str, most: str
) -> list[object]:
    """Answer with the keys that match among the next few; the cursor is the last of them."""
    query = "SELECT key FROM aiolock WHERE key > ? AND (expires_us IS NULL OR expires_us > ?) ORDER BY key LIMIT ?"
    keys = [key for (key,) in link.execute(query, ("" if cursor == "0" else cursor, now_us, int(most)))]
    following = keys[-1] if len(keys) == int(most) else "0"
    return [following.encode(), [key.encode() for key in filter(_matcher(pattern), keys)]]


def _reply(store: Loaded, name: str, *words: str) -> object:
    if name == "MGET":
        texts = [_reply(store, "GET", key) for key in words]
        return [None if isinstance(text, ErrorReply) else text for text in texts]
    try:
        return _as_bytes(COMMANDS[name](store, *words))
    except WrongType as error:
        return ErrorReply(str(error))


def _as_bytes(answer: Any) -> object:
    if isinstance(answer, list):
        return [_as_bytes(one) for one in answer]
    return answer.encode() if isinstance(answer, str) else answer


def _matcher(pattern: str) -> Callable[[str], object]:
    """A glob as Redis reads it: `*`, `?`, `[a-c]`, and a backslash before what means itself."""
    parts = []
    for token in re.findall(r"\\.|\[\^?(?:\\.|[^]])*\]|.", pattern, re.DOTALL):
        if token == "*":
            parts.append(".*")
        elif token == "?":
            parts.append(".")
        elif len(token) > 1 and token[0] == "[":
            parts.append(token)
        else:
            parts.append(re.escape(token.removeprefix("\\") or "\\"))
    return re.compile("".join(parts), re.DOTALL).fullmatch
