"""What is in a file, for those who only look."""

from __future__ import annotations

import asyncio
import re
import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ...errors import BackendError
from ...scripts.commands import COMMANDS
from ...scripts.store import WrongType
from ...scripts.view import Command
from ..redis import ErrorReply
from ..survey import Reader
from ..transactional.engine import Unavailable
from ..transactional.loaded import Loaded, Row
from .clock import HostClock
from .file import LockFile, patiently


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
        self._file = LockFile(path.absolute())

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
        """Nothing is open between two reads."""

    def _read(self, commands: Sequence[Command]) -> list[object]:
        if not self._file.path.exists():
            raise Unavailable(BackendError("", f"there is no file {self.address}"))
        link = self._file.connect(lambda: False)
        try:
            patiently(lambda: link.execute("BEGIN IMMEDIATE"), lambda: False)
            clock = HostClock(link)
            rows = {key: Row(*row) for key, *row in link.execute("SELECT key, kind, value, expires_us FROM aiolock")}
            link.execute("COMMIT")
        except sqlite3.Error as error:
            raise self._file.unavailable(error) from error
        finally:
            link.close()
        now = clock.now_us()
        self.ahead_us = now - time.time_ns() // 1000
        store = Loaded(now, rows, lambda _: 0)
        return [_reply(store, command) for command in commands]


def _reply(store: Loaded, command: Command) -> object:
    name, *words = command
    if name == "SCAN":
        _cursor, _match, pattern, *_count = words
        return [b"0", [key.encode() for key in sorted(filter(_matcher(pattern), store.keys()))]]
    if name == "MGET":
        texts = [_reply(store, ("GET", key)) for key in words]
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
