"""What a server says instead of an answer."""

from __future__ import annotations

from redis.exceptions import ResponseError


class ErrorReply(ResponseError):
    """An error reply: its text as the server wrote it, the code first. Versions of redis-py remove different codes."""
