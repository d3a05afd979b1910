"""What a server would answer to those who only look, from the rows of a store that is none."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ...scripts.commands import COMMANDS
from ...scripts.store import WrongType
from ...scripts.view import Command
from ..redis import ErrorReply
from .loaded import Loaded, Row

SCAN = "SCAN"


class Page(NamedTuple):
    """Which keys a SCAN asks for; the cursor is the last one that it saw.

    Attributes:
        after: keys from there on, in their order; "" from the first.
        pattern: a glob.
        most: keys at most, before the pattern.
    """

    after: str
    pattern: str
    most: int

    def reply(self, keys: Sequence[str]) -> list[object]:
        """Answer with those that match."""
        following = keys[-1] if len(keys) == self.most else "0"
        return [following.encode(), [key.encode() for key in filter(matcher(self.pattern), keys)]]


def page_of(command: Command) -> Page:
    """Read a SCAN."""
    _, cursor, _match, pattern, _count, most = command
    return Page("" if cursor == "0" else cursor, pattern, int(most))


def keys_of(commands: Sequence[Command]) -> list[str]:
    """What they read by name, each key once."""
    named = (words if name == "MGET" else words[:1] for name, *words in commands if name != SCAN)
    return list(dict.fromkeys(key for keys in named for key in keys))


def replies(
    now_us: int, rows: Mapping[str, Row], commands: Sequence[Command], scanned: Mapping[Command, Sequence[str]]
) -> list[object]:
    """Answer each command.

    Args:
        now_us: the store's time.
        rows: of the keys that they read.
        commands: what is asked for.
        scanned: the keys of each page.
    """
    store = Loaded(now_us, rows, lambda _: 0)
    return [page_of(one).reply(scanned[one]) if one[0] == SCAN else _reply(store, *one) for one in commands]


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


def matcher(pattern: str) -> Callable[[str], object]:
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
