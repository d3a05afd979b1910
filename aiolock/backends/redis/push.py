"""What a server says unasked."""

from __future__ import annotations

from typing import Any


class Push:
    """An out-of-band message of the server, told from a reply by its type.

    Attributes:
        items: the kind (`b"message"`, `b"subscribe"`, …) and what belongs to it.
    """

    __slots__ = ("items",)

    def __init__(self, items: list[Any]) -> None:
        self.items: list[Any] = items
