"""What a server says instead of an answer, or instead of the right one."""

from __future__ import annotations

import re

from redis.exceptions import ResponseError

_ARGUMENTS = re.compile(r",? with args beginning with:.*", re.DOTALL)


class ErrorReply(ResponseError):
    """An error reply: its text as the server wrote it, the code first. Versions of redis-py remove different codes.

    Without the arguments that some servers quote: they may hold an owner's id.
    """

    def __init__(self, text: str) -> None:
        super().__init__(_ARGUMENTS.sub("", text))


class Desync(Exception):
    """The stream does not say what it must: nothing read from it can be trusted."""
