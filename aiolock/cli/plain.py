"""Text of others, made fit for a terminal: a name or metadata may contain anything, also what a terminal obeys."""

from __future__ import annotations

import unicodedata


def plain(text: str) -> str:
    """The text in one line; signs that cannot be printed are written as escapes, and all others stay."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in text)


def width(text: str) -> int:
    """How many columns of a terminal a plain text takes."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(sign) else 2 if unicodedata.east_asian_width(sign) in "WF" else 1 for sign in text
    )


def fitted(text: str, columns: int, right: bool = False) -> str:
    """The text in just as many columns, plain; what does not fit is cut off, and that is shown."""
    text = plain(text)
    if width(text) > columns:
        while text and width(text) > columns - 1:
            text = text[:-1]
        text = f"{text}…" if columns > 0 else ""
    space = " " * (columns - width(text))
    return space + text if right else text + space
